//! One digest over everything that decides the PTX.
//!
//! It needs no toolchain, so any test can tell whether a committed module was made from the
//! sources beside it.

use std::fs;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::BuildError;

/// SHA-256 over the files under `roots`, which are files or folders relative to `base`.
///
/// Files are taken in the order of their relative paths, `/` between folders, and each enters with
/// its path and its text with Unix line ends: neither the place of a checkout nor its line ends
/// count. Names that begin with a dot are no sources and are passed over.
///
/// # Errors
/// [`BuildError::Io`] where a root is missing or a file cannot be read.
pub fn of_sources<S: AsRef<str>>(base: &Path, roots: &[S]) -> Result<String, BuildError> {
    let mut files = Vec::new();
    for root in roots {
        collect(base, root.as_ref(), &mut files)?;
    }
    files.sort();
    files.dedup();
    let mut hash = Sha256::new();
    for file in &files {
        let path = base.join(file);
        let content = fs::read(&path).map_err(BuildError::io("reading", &path))?;
        let content = with_unix_line_ends(&content);
        // Lengths keep the boundary between a path, a text and the next path.
        hash.update((file.len() as u64).to_le_bytes());
        hash.update(file);
        hash.update((content.len() as u64).to_le_bytes());
        hash.update(&content);
    }
    Ok(hex(&hash.finalize()))
}

/// SHA-256 of a file's bytes.
pub(crate) fn of_file(path: &Path) -> Result<String, BuildError> {
    let mut file = fs::File::open(path).map_err(BuildError::io("reading", path))?;
    let mut hash = Sha256::new();
    std::io::copy(&mut file, &mut hash).map_err(BuildError::io("reading", path))?;
    Ok(hex(&hash.finalize()))
}

fn collect(base: &Path, relative: &str, files: &mut Vec<String>) -> Result<(), BuildError> {
    let path = base.join(relative);
    let metadata = fs::metadata(&path).map_err(BuildError::io("reading", &path))?;
    if metadata.is_file() {
        files.push(relative.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(&path).map_err(BuildError::io("listing", &path))? {
        let name = entry.map_err(BuildError::io("listing", &path))?.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with('.') {
            collect(base, &format!("{relative}/{name}"), files)?;
        }
    }
    Ok(())
}

fn with_unix_line_ends(content: &[u8]) -> Vec<u8> {
    let mut unix = Vec::with_capacity(content.len());
    for (at, &byte) in content.iter().enumerate() {
        if !(byte == b'\r' && content.get(at + 1) == Some(&b'\n')) {
            unix.push(byte);
        }
    }
    unix
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
        of_sources(tree(files).path(), &["src", "Cargo.toml"]).unwrap()
    }

    const TREE: [(&str, &str); 3] =
        [("src/b.rs", "b\n"), ("src/a/c.rs", "c\n"), ("Cargo.toml", "[package]\n")];

    #[test]
    fn place_order_and_line_ends_do_not_count() {
        let base = digest(&TREE);
        assert_eq!(base.len(), 64);
        assert_eq!(base, digest(&TREE));
        let moved = tree(&TREE);
        assert_eq!(base, of_sources(moved.path(), &["Cargo.toml", "src", "src"]).unwrap());
        let windows = [("src/b.rs", "b\r\n"), ("src/a/c.rs", "c\r\n"), TREE[2]];
        assert_eq!(base, digest(&windows));
        assert_eq!(base, digest(&[TREE[0], TREE[1], TREE[2], ("src/.b.rs.swp", "x")]));
    }

    #[test]
    fn names_texts_and_new_files_count() {
        let base = digest(&TREE);
        assert_ne!(base, digest(&[("src/b.rs", "B\n"), TREE[1], TREE[2]]));
        assert_ne!(base, digest(&[("src/d.rs", "b\n"), TREE[1], TREE[2]]));
        assert_ne!(base, digest(&[TREE[0], TREE[1], TREE[2], ("src/new.rs", "")]));
        // A lone carriage return is a character like others.
        assert_ne!(base, digest(&[("src/b.rs", "b\r"), TREE[1], TREE[2]]));
    }

    #[test]
    fn a_missing_root_is_an_error() {
        let text = of_sources(tree(&TREE).path(), &["srcs"]).unwrap_err().to_string();
        assert!(text.contains("srcs"), "{text}");
    }

    #[test]
    fn the_digest_of_a_file_is_the_usual_one() {
        let dir = tree(&[("abc", "abc")]);
        assert_eq!(
            of_file(&dir.path().join("abc")).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
