//! A library whose products are wrong, to see that a suite notices.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::command;

/// Products that leave C as it is, under the names that programs look for first.
const SOURCE: &str = r#"
macro_rules! names {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() {}
    )*};
}
names!(sgemm_ dgemm_ cgemm_ zgemm_ cblas_sgemm cblas_dgemm cblas_cgemm cblas_zgemm);
"#;

pub(super) fn build(folder: &Path) -> Result<PathBuf> {
    let (source, library) = (folder.join("broken.rs"), folder.join("libbroken.so"));
    std::fs::write(&source, SOURCE)?;
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition", "2024", "--crate-type", "cdylib", "-o"]).arg(&library).arg(&source);
    command::run(&mut rustc)?;
    Ok(library)
}
