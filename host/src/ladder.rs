//! The pages of the ladder: `docs/ladder/*.md`, one for each rung.

use std::sync::LazyLock;

use include_dir::{Dir, include_dir};

static FOLDER: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../docs/ladder");

/// The page of one implementation, or of several that differ in a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Names in backquotes before the colon of its heading.
    pub ids: Vec<&'static str>,
    /// The idea, from its heading.
    pub title: &'static str,
    /// The text, without the heading and without the line that names the source.
    pub body: String,
    /// The source file, by its path from the workspace's root.
    pub source: &'static str,
}

static PAGES: LazyLock<Vec<Page>> =
    LazyLock::new(|| FOLDER.files().filter_map(|file| page(file.contents_utf8()?)).collect());

/// Every page, in no particular order; that of the ladder is in `docs/ladder.md`.
#[must_use]
pub fn pages() -> &'static [Page] {
    &PAGES
}

/// The page of an implementation.
#[must_use]
pub fn find(id: &str) -> Option<&'static Page> {
    pages().iter().find(|page| page.ids.contains(&id))
}

/// Reads a file; one whose heading names no implementation is no page.
fn page(text: &'static str) -> Option<Page> {
    let (heading, text) = text.strip_prefix("# ")?.split_once('\n')?;
    let (names, title) = heading.split_once(": ")?;
    let ids = ids(names)?;
    let source = text.lines().find(|line| line.starts_with(SOURCE))?;
    let path = source.split_once("](../../")?.1.strip_suffix(')')?;
    let body: Vec<&str> = text.lines().filter(|line| !line.starts_with(SOURCE)).collect();
    Some(Page { ids, title, body: body.join("\n").trim().to_owned(), source: path })
}

/// Names in backquotes, with commas between them.
fn ids(names: &str) -> Option<Vec<&str>> {
    names.split(", ").map(|name| name.strip_prefix('`')?.strip_suffix('`')).collect()
}

const SOURCE: &str = "Source: [";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{self, Implementation};

    /// The list of the pages in the order of the ladder.
    const INDEX: &str = include_str!("../../docs/ladder.md");

    /// What to add for an implementation without a page.
    fn missing(one: &Implementation, before: &str) -> String {
        let (id, about) = (one.id(), one.about());
        let folder = if one.on_gpu() { "kernels-gpu/src" } else { "host/src/cpu" };
        format!(
            "docs/ladder/ has no page for `{id}`; write docs/ladder/{id}.md:\n\n\
             # `{id}`: {about}\n\nThe idea in a few sentences, and a drawing where one helps.\n\n\
             Source: [{id}.rs](../../{folder}/{id}.rs)\n\n\
             add its row to docs/ladder.md, below that of `{before}`, and run `cargo xtask docs`:\n\n\
             | [](ladder/{id}.md) |\n"
        )
    }

    /// The rows of the index: names and the page's file.
    fn rows() -> Vec<(Vec<&'static str>, &'static str)> {
        let rows =
            INDEX.lines().filter_map(|line| line.strip_prefix("| [")?.split_once("](ladder/"));
        rows.map(|(names, rest)| {
            let file = rest.split_once(')').expect("a link has an end").0;
            (ids(names).unwrap_or_else(|| panic!("{names}: run `cargo xtask docs`")), file)
        })
        .collect()
    }

    #[test]
    fn every_implementation_has_a_page() {
        let mut faults = Vec::new();
        let mut before = "the introduction";
        for one in registry::all() {
            if find(one.id()).is_none() {
                faults.push(missing(&one, before));
            }
            before = one.id();
        }
        assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    }

    #[test]
    fn the_index_has_every_page_in_the_order_of_the_registry() {
        let named: Vec<&str> = rows().into_iter().flat_map(|(ids, _)| ids).collect();
        let registered: Vec<&str> = registry::all().map(|one| one.id()).collect();
        assert_eq!(named, registered, "docs/ladder.md is not in the order of the registry");
        for (ids, file) in rows() {
            let text = FOLDER.get_file(file).and_then(|file| file.contents_utf8());
            let text = text.unwrap_or_else(|| panic!("docs/ladder/{file} is not there"));
            assert_eq!(page(text).map(|page| page.ids), Some(ids), "docs/ladder/{file}");
        }
    }

    #[test]
    fn a_missing_page_says_what_to_add() {
        let one = registry::find("naive").unwrap();
        let said = missing(&one, "single_block");
        assert!(
            said.contains("# `naive`: ") && said.contains("../../kernels-gpu/src/naive.rs"),
            "{said}"
        );
        let text = said.split_once("# ").unwrap().1;
        let page = page(format!("# {text}").leak()).expect("what is proposed is a page");
        assert_eq!((page.ids, page.source), (vec!["naive"], "kernels-gpu/src/naive.rs"));
    }

    #[test]
    fn every_file_is_a_page_and_explains_something() {
        assert_eq!(
            FOLDER.files().count(),
            pages().len(),
            "a file of docs/ladder/ lacks names, a title or its source"
        );
        for page in pages() {
            assert!(page.body.len() > 150, "{:?} says little", page.ids);
        }
    }
}
