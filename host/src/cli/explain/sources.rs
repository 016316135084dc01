//! The sources that the program carries: Rust files of the implementations, entries of the PTX.

use include_dir::{Dir, include_dir};

static KERNELS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../kernels-gpu/src");
static CPU: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/src/cpu");

/// The text of a source file, by its path from the workspace's root.
pub(super) fn source(path: &str) -> Option<&'static str> {
    let (folder, file) = match path.strip_prefix("kernels-gpu/src/") {
        Some(file) => (&KERNELS, file),
        None => (&CPU, path.strip_prefix("host/src/cpu/")?),
    };
    folder.get_file(file)?.contents_utf8()
}

/// The text of an entry, from its first line to its closing brace. Blocks within it, and the braces of vectors and
/// comments, come in pairs.
pub(super) fn entry<'t>(ptx: &'t str, symbol: &str) -> Option<&'t str> {
    let start = ptx.find(&format!(".visible .entry {symbol}("))?;
    let text = &ptx[start..];
    let mut depth = 0u32;
    for (at, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 1 => return Some(&text[..=at]),
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder;

    #[test]
    fn every_page_names_a_source_that_holds_its_implementations() {
        for page in ladder::pages() {
            let text =
                source(page.source).unwrap_or_else(|| panic!("{} is not there", page.source));
            for id in &page.ids {
                assert!(text.contains(&format!("\"{id}\"")), "{} has no `{id}`", page.source);
            }
        }
        assert_eq!(source("host/src/cpu/../lib.rs"), None);
    }

    #[test]
    fn every_entry_is_cut_out_whole() {
        for spec in kernels_gpu::KERNELS {
            for symbol in spec.entries.iter().map(|entry| entry.symbol) {
                let module = kernels_gpu::Module::of_entry(spec.arch, symbol).unwrap();
                assert_eq!(module.name, spec.id);
                let text = entry(module.ptx(), symbol).unwrap();
                assert_eq!(text.matches(".entry").count(), 1, "{symbol}");
                assert!(text.contains("ret;") && text.ends_with('}'), "{symbol}");
            }
        }
    }
}
