//! One digest over what decides a module's PTX.
//!
//! It needs no toolchain, so any test can tell whether a committed module was made from the
//! sources beside it. Comments, layout, tests and what only the host compiles do not enter it: a
//! module need not be built again for them.

mod reach;
mod tokens;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::BuildError;

/// SHA-256 over the sources of an arch's module. `roots` are files relative to `base`.
///
/// A root in Rust is the root of a module tree and stands for the files of all modules that the device
/// build of the arch compiles. Of each file the tokens count, without comments and without items that
/// a `cfg` takes out of that build; line numbers therefore do not. Of another root, a manifest, the
/// lines count without comments.
///
/// Each file enters with its path, `/` between folders, in the order of the paths: neither the place
/// of a checkout nor its line ends count.
///
/// # Errors
/// [`BuildError::Io`] where a root or the file of a module is missing or cannot be read.
pub fn of_sources<S: AsRef<str>>(
    base: &Path,
    roots: &[S],
    arch: &str,
) -> Result<String, BuildError> {
    let mut files = BTreeMap::new();
    for root in roots.iter().map(AsRef::as_ref) {
        match root.strip_suffix(".rs") {
            Some(_) => {
                let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
                collect(base, root, folder, arch, &mut files)?;
            }
            None => {
                files.insert(root.to_owned(), without_comments(&read(base, root)?));
            }
        }
    }
    let mut hash = Sha256::new();
    for (path, content) in &files {
        // Lengths keep the boundary between a path, a text and the next path.
        hash.update((path.len() as u64).to_le_bytes());
        hash.update(path);
        hash.update((content.len() as u64).to_le_bytes());
        hash.update(content);
    }
    Ok(hex(&hash.finalize()))
}

/// Takes in a file and those of its modules, which are in `folder` or in folders below it.
fn collect(
    base: &Path,
    file: &str,
    folder: &str,
    arch: &str,
    files: &mut BTreeMap<String, String>,
) -> Result<(), BuildError> {
    let text = read(base, file)?;
    let tokens = tokens::tokens(&text);
    let reached = reach::reached(&tokens, arch);
    let mut normal = String::new();
    for token in reached.tokens {
        token.push_to(&mut normal);
        normal.push('\n');
    }
    files.insert(file.to_owned(), normal);
    for path in reached.modules {
        let own = std::iter::once(folder).chain(path).filter(|step| !step.is_empty());
        let own = own.collect::<Vec<_>>().join("/");
        let nested = format!("{own}/mod.rs");
        let file = if base.join(&nested).is_file() { nested } else { format!("{own}.rs") };
        collect(base, &file, &own, arch, files)?;
    }
    Ok(())
}

/// A file's text with Unix line ends.
fn read(base: &Path, file: &str) -> Result<String, BuildError> {
    let path = base.join(file);
    let text = fs::read_to_string(&path).map_err(BuildError::io("reading", &path))?;
    Ok(text.replace("\r\n", "\n"))
}

/// The lines of a manifest without comments, empty lines and spaces at their ends.
fn without_comments(toml: &str) -> String {
    let mut text = String::new();
    for line in toml.lines() {
        let mut quote = None;
        let mut escaped = false;
        let end = line.find(|c| {
            match (quote, c) {
                (None, '#') => return true,
                (None, '"' | '\'') => quote = Some(c),
                (Some('"'), '\\') => {
                    escaped = !escaped;
                    return false;
                }
                (Some(open), _) if open == c && !escaped => quote = None,
                _ => {}
            }
            escaped = false;
            false
        });
        let line = line[..end.unwrap_or(line.len())].trim_end();
        if !line.is_empty() {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// SHA-256 of a file's bytes.
///
/// # Errors
/// [`BuildError::Io`] where the file cannot be read.
pub fn of_file(path: &Path) -> Result<String, BuildError> {
    let mut file = fs::File::open(path).map_err(BuildError::io("reading", path))?;
    let mut hash = Sha256::new();
    std::io::copy(&mut file, &mut hash).map_err(BuildError::io("reading", path))?;
    Ok(hex(&hash.finalize()))
}

/// SHA-256 of bytes.
#[must_use]
pub fn of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    fn digest(files: &[(&str, &str)]) -> String {
        of_sources(tree(files).path(), &["src/lib.rs", "Cargo.toml"], "sm_80").unwrap()
    }

    const TREE: [(&str, &str); 5] = [
        ("Cargo.toml", "[package]\nname = \"k\"\n"),
        (
            "src/lib.rs",
            "mod a;\n#[cfg(cuda_arch = \"sm_90a\")] mod hopper;\n#[cfg(test)] mod tests;\n",
        ),
        ("src/a.rs", "mod b;\npub fn f<'a>(x: &'a str) -> bool { x == \"//\" }\n"),
        ("src/a/b.rs", "pub const X: u32 = 1;\n"),
        ("src/hopper/mod.rs", "pub const Y: u32 = 1;\n"),
    ];

    /// The digest with one file's text replaced.
    fn with(path: &str, text: &str) -> String {
        let replaced = TREE.map(|(old, content)| (old, if old == path { text } else { content }));
        assert!(replaced.iter().any(|(old, _)| *old == path), "{path}");
        digest(&replaced)
    }

    #[test]
    fn comments_layout_and_place_do_not_count() {
        let base = digest(&TREE);
        assert_eq!(base.len(), 64);
        assert_eq!(base, digest(&TREE));
        let moved = tree(&TREE);
        let roots = ["Cargo.toml", "src/lib.rs", "src/lib.rs"];
        assert_eq!(base, of_sources(moved.path(), &roots, "sm_80").unwrap());
        for (path, text) in [
            ("src/a/b.rs", "/// One.\npub const X: u32 = 1;\n"),
            ("src/a/b.rs", "/// Another wording: \"1\", 'c.\npub const X: u32 = 1; // here\n"),
            (
                "src/a/b.rs",
                "//! The module.\r\n\r\npub const X:\r\n    u32 = /* /* */ */ 1;   \r\n",
            ),
            ("src/a/b.rs", "pub const X: u32 = 1;\n#[cfg(test)]\nmod tests { fn f() {} }\n"),
            ("src/hopper/mod.rs", "pub const Y: u32 = 2;\n"),
            ("src/lib.rs", "mod a;\n#[cfg(test)] mod other_tests;\n"),
            ("Cargo.toml", "# A comment.\n\n[package] # Another.\nname = \"k\"  \n"),
        ] {
            assert_eq!(base, with(path, text), "{path}: {text}");
        }
    }

    #[test]
    fn tokens_names_and_new_files_count() {
        let base = digest(&TREE);
        for (path, text) in [
            ("src/a/b.rs", "pub const X: u32 = 2;\n"),
            ("src/a/b.rs", "pub const X: u64 = 1;\n"),
            ("src/a/b.rs", "const X: u32 = 1;\n"),
            ("src/a.rs", "mod b;\npub fn f<'a>(x: &'a str) -> bool { x == \"//!\" }\n"),
            ("src/a.rs", "mod b;\npub fn f<'a>(x: &'a str) -> bool { x == \"/ /\" }\n"),
            ("src/lib.rs", "pub mod a;\n#[cfg(cuda_arch = \"sm_90a\")] mod hopper;\n"),
            ("src/lib.rs", "mod a;\nmod hopper;\n"),
            ("Cargo.toml", "[package]\nname = \"k#\"\n"),
        ] {
            assert_ne!(base, with(path, text), "{path}: {text}");
        }
        let renamed = TREE.map(|(path, text)| match path {
            "src/a/b.rs" => ("src/a/b/mod.rs", text),
            _ => (path, text),
        });
        assert_ne!(base, digest(&renamed));
    }

    #[test]
    fn each_arch_has_the_digest_of_its_own_modules() {
        let of = |files: &[(&str, &str)], arch| {
            of_sources(tree(files).path(), &["src/lib.rs"], arch).unwrap()
        };
        assert_eq!(of(&TREE, "sm_70"), of(&TREE, "sm_80"));
        assert_ne!(of(&TREE, "sm_80"), of(&TREE, "sm_90a"));
        let mut changed = TREE;
        changed[4].1 = "pub const Y: u32 = 2;\n";
        assert_eq!(of(&TREE, "sm_80"), of(&changed, "sm_80"));
        assert_ne!(of(&TREE, "sm_90a"), of(&changed, "sm_90a"));
    }

    #[test]
    fn comments_of_a_manifest_end_where_strings_begin() {
        for (line, kept) in [
            ("a = \"#1\" # x", "a = \"#1\"\n"),
            ("a = '#' # x", "a = '#'\n"),
            (r##"a = "\"#" # x"##, "a = \"\\\"#\"\n"),
            (r##"a = "\\" # "x""##, "a = \"\\\\\"\n"),
            (r"a = '\' # x", "a = '\\'\n"),
            ("  # x", ""),
        ] {
            assert_eq!(without_comments(line), kept, "{line}");
        }
    }

    #[test]
    fn a_missing_file_is_an_error() {
        let missing = |files: &[(&str, &str)], root| {
            of_sources(tree(files).path(), &[root], "sm_80").unwrap_err().to_string()
        };
        let text = missing(&TREE, "srcs/lib.rs");
        assert!(text.contains("srcs/lib.rs"), "{text}");
        let text = missing(&TREE[..2], "src/lib.rs");
        assert!(text.contains("src/a.rs"), "{text}");
    }

    #[test]
    fn the_digest_of_a_file_is_the_usual_one() {
        let dir = tree(&[("abc", "abc")]);
        assert_eq!(of_bytes(b"abc"), of_file(&dir.path().join("abc")).unwrap());
        assert_eq!(
            of_file(&dir.path().join("abc")).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
