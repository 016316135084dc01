//! The table of registers and shared memory in docs/registers.md.

use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::modules;

const FILE: &str = "docs/registers.md";
const BEGIN: &str = "<!-- registers:begin, written by `cargo xtask check-ptx --write` -->";
const END: &str = "<!-- registers:end -->";

/// One entry as assembled for each arch.
pub(crate) struct Row {
    pub(crate) kernel: &'static str,
    pub(crate) entry: &'static str,
    pub(crate) arch: &'static str,
    /// Registers of a thread on each arch.
    pub(crate) registers: Vec<Registers>,
    /// Most that the kernel's specification allows.
    pub(crate) limit: u32,
    pub(crate) shared_bytes: u32,
}

/// Registers of a thread on one arch.
pub(crate) struct Registers {
    pub(crate) arch: String,
    pub(crate) count: u32,
    /// The limit holds here: the arch's SM has room for the blocks that are asked for.
    pub(crate) limited: bool,
}

/// The table in Markdown, headed by who made it.
pub(crate) fn table(rows: &[Row], ptxas: &str) -> String {
    let mut text = format!(
        "Assembled by ptxas {ptxas}. Registers are those of one thread, shared memory that of one \
         block.\n\n\
         | kernel | entry | arch | registers | limit | shared bytes |\n\
         |---|---|---|---|---:|---:|\n"
    );
    for Row { kernel, entry, arch, registers, limit, shared_bytes } in rows {
        let registers: Vec<String> = registers
            .iter()
            .map(|Registers { arch, count, limited }| {
                format!("{count} ({arch}{})", if *limited { "" } else { ", no limit" })
            })
            .collect();
        let registers = registers.join(", ");
        text.push_str(&format!(
            "| {kernel} | `{entry}` | {arch} | {registers} | {limit} | {shared_bytes} |\n"
        ));
    }
    text
}

/// Writes the table between the markers of the document.
pub(crate) fn write(table: &str) -> Result<()> {
    let path = modules::root().join(FILE);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {FILE}"))?;
    let text = replaced(&text, table)?;
    fs::write(&path, text).with_context(|| format!("writing {FILE}"))
}

/// Fails unless the document holds this table.
pub(crate) fn compare(table: &str) -> Result<()> {
    let text = fs::read_to_string(modules::root().join(FILE))
        .with_context(|| format!("reading {FILE}"))?;
    if replaced(&text, table)? != text {
        bail!("the table in {FILE} is not this one; run `cargo xtask check-ptx --write`");
    }
    Ok(())
}

fn replaced(text: &str, table: &str) -> Result<String> {
    let parts =
        text.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let Some((before, after)) = parts else {
        bail!("{FILE} lacks the lines `{BEGIN}` and `{END}`; put them where the table belongs");
    };
    Ok(format!("{before}{BEGIN}\n\n{table}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_replaces_what_stood_between_the_markers() {
        let text = format!("# Head\n\n{BEGIN}\nold\n{END}\ntail\n");
        let new = replaced(&text, "| new |\n").unwrap();
        assert!(new.starts_with("# Head\n") && new.ends_with("tail\n"), "{new}");
        assert!(new.contains("| new |") && !new.contains("old"), "{new}");
        assert_eq!(replaced(&new, "| new |\n").unwrap(), new, "a second time changes nothing");
        assert!(replaced("no markers", "").is_err());
    }

    #[test]
    fn a_row_shows_every_arch() {
        let row = Row {
            kernel: "naive",
            entry: "naive_f32",
            arch: "sm_70",
            registers: vec![
                Registers { arch: "sm_75".into(), count: 44, limited: false },
                Registers { arch: "sm_90".into(), count: 32, limited: true },
            ],
            limit: 40,
            shared_bytes: 0,
        };
        let text = table(&[row], "13.0");
        let last = "| naive | `naive_f32` | sm_70 | 44 (sm_75, no limit), 32 (sm_90) | 40 | 0 |\n";
        assert!(text.ends_with(last), "{text}");
    }

    #[test]
    fn the_document_has_its_markers() {
        let text = fs::read_to_string(modules::root().join(FILE)).unwrap();
        assert!(replaced(&text, "").is_ok());
    }
}
