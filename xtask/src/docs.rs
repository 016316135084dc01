//! `cargo xtask docs`: the measured figures in the documents, filled from the files under results/.
//!
//! A table belongs between the lines `<!-- results:FOLDER/FILE.md:begin -->` and
//! `<!-- results:FOLDER/FILE.md:end -->`. FOLDER is `DATE-MACHINE` under results/ and FILE.md what one
//! run of `tessera` wrote there. FOLDER/README.md says where the figures come from: a line
//! `- KEY: VALUE` for each of machine, driver, date and commit, and one for the file, whose value is
//! the command. After FILE.md, ` columns=NAME,NAME` and ` rows=NAME,NAME` select part of the table;
//! a selection has no notes.
//!
//! Between `<!-- ladder:FOLDER/FILE.md:begin -->` and its end is a table of rungs: each row begins with
//! a link to a page of the ladder, and the rest of it is filled, the idea from the page's heading and
//! the rate from the file. Where the page has several implementations, it is the rate of the fastest.
//!
//! A name without a folder is a place that waits for its results and holds no more than a comment.

mod lint;
mod parts;
mod tables;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use self::lint::lint;
use self::parts::parse;
use self::tables::filled;
use crate::modules;

/// Fill the measured tables in the documents from results/
///
/// Also fails where a document links to a file that is not there, names something that the linked
/// file does not hold, states a rate outside a table, or uses a word that was retired.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing: fail unless every table is what its file under results/ gives
    #[arg(long)]
    pub(crate) check: bool,
}

/// The documents beside those in docs/.
const TOP: [&str; 3] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];
/// Gives the text of a file, by its path from the workspace's root.
type Read<'r> = &'r dyn Fn(&str) -> Result<String>;

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut faults = Vec::new();
    for document in documents()? {
        let text = read(&document)?;
        let parts = parse(&text).with_context(|| document.clone())?;
        let filled = filled(&document, &parts, &read).with_context(|| document.clone())?;
        faults.extend(lint(&document, &parts, &read));
        if args.check {
            faults.extend(stale(&document, &text, &filled));
        } else if filled != text {
            fs::write(modules::root().join(&document), filled)
                .with_context(|| format!("writing {document}"))?;
            println!("{document}: filled");
        }
    }
    if !faults.is_empty() {
        bail!("{}", faults.join("\n"));
    }
    println!("the documents are as they should be");
    Ok(())
}

/// Says so where a document is not what it would be filled.
fn stale(document: &str, text: &str, filled: &str) -> Option<String> {
    (text != filled)
        .then(|| format!("{document}: a table is not what results/ gives; run `cargo xtask docs`"))
}

fn documents() -> Result<Vec<String>> {
    let mut documents: Vec<String> = TOP.map(str::to_owned).into();
    below("docs", &mut documents)?;
    documents[TOP.len()..].sort();
    Ok(documents)
}

/// Adds the documents of a folder and of those in it.
fn below(folder: &str, documents: &mut Vec<String>) -> Result<()> {
    for entry in
        fs::read_dir(modules::root().join(folder)).with_context(|| format!("reading {folder}"))?
    {
        let entry = entry?;
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            below(&path, documents)?;
        } else if path.ends_with(".md") {
            documents.push(path);
        }
    }
    Ok(())
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(modules::root().join(path)).with_context(|| format!("reading {path}"))
}

/// A link's target as a path from the workspace's root.
fn from_root(document: &str, target: &str) -> String {
    let folder = Path::new(document).parent().unwrap_or(Path::new(""));
    let mut path = Vec::new();
    for step in folder.iter().chain(Path::new(target)) {
        if step == ".." {
            path.pop();
        } else {
            path.push(step.to_string_lossy());
        }
    }
    path.join("/")
}
