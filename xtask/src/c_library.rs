//! `cargo xtask c-library`: the shared and the static library with header and pkg-config file, as a program in
//! C finds them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::{command, modules, venv};

/// Install the C library: libtessera.so, libtessera.a, tessera.h and tessera.pc
///
/// Both libraries are built with the profile `release`. With `--check` programs are then compiled against
/// them as pkg-config says, with either library, and run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where `include` and `lib` go
    #[arg(long, default_value = "target/c")]
    prefix: PathBuf,
    /// The profile that they are built with
    #[arg(long, default_value = "release")]
    profile: String,
    /// Compile and run a program against each of them
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut cargo = command::cargo();
    cargo.args(["rustc", "-p", "tessera-c", "--crate-type", "cdylib,staticlib", "--profile"]);
    cargo.arg(&args.profile);
    // Cargo repeats the compiler's notes where there is nothing to build.
    cargo.args(["--", "--print", "native-static-libs"]);
    let messages = command::messages(&mut cargo)?;
    let libraries = native_libraries(&messages).context("rustc names no native libraries")?;

    let root = modules::root();
    let prefix = std::path::absolute(&args.prefix)?;
    let folder = if args.profile == "dev" { "debug" } else { &args.profile };
    let built = venv::target().join(folder);
    let (include, lib) = (prefix.join("include"), prefix.join("lib"));
    fs::create_dir_all(lib.join("pkgconfig"))?;
    fs::create_dir_all(&include)?;
    copy(&root.join("crates/tessera_c/include/tessera.h"), &include.join("tessera.h"))?;
    copy(&built.join("libtessera_c.a"), &lib.join("libtessera.a"))?;
    let file = format!("libtessera.so.{}", env!("CARGO_PKG_VERSION"));
    copy(&built.join("libtessera_c.so"), &lib.join(&file))?;
    for name in ["libtessera.so.0", "libtessera.so"] {
        let link = lib.join(name);
        let _ = fs::remove_file(&link);
        symlink(&file, &link).with_context(|| format!("{}", link.display()))?;
    }
    let description = pkg_config(&prefix, &libraries);
    fs::write(lib.join("pkgconfig/tessera.pc"), description)?;
    println!(
        "{}: include/tessera.h, lib/{file}, lib/libtessera.a, lib/pkgconfig/tessera.pc",
        prefix.display()
    );
    if args.check { check(&prefix, &root.join("docs/embed/first_product.c")) } else { Ok(()) }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    // A program may be running with the old one.
    let _ = fs::remove_file(to);
    fs::copy(from, to).with_context(|| format!("{} to {}", from.display(), to.display()))?;
    Ok(())
}

/// What a program that links the static library links besides.
fn native_libraries(messages: &str) -> Option<String> {
    let line = messages.lines().find_map(|line| line.split_once("native-static-libs: "));
    let mut names: Vec<&str> = Vec::new();
    for name in line?.1.split_whitespace() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Some(names.join(" "))
}

fn pkg_config(prefix: &Path, libraries: &str) -> String {
    format!(
        "prefix={}\n\
         includedir=${{prefix}}/include\n\
         libdir=${{prefix}}/lib\n\
         \n\
         Name: tessera\n\
         Description: Matrix products on CPU and GPU\n\
         Version: {}\n\
         Cflags: -I${{includedir}}\n\
         Libs: -L${{libdir}} -ltessera\n\
         Libs.private: {libraries}\n",
        prefix.display(),
        env!("CARGO_PKG_VERSION"),
    )
}

/// Compiles a program with either library as pkg-config says, and runs it.
fn check(prefix: &Path, source: &Path) -> Result<()> {
    let pkg_config = |what: &[&str]| -> Result<Vec<String>> {
        let mut program = Command::new("pkg-config");
        program.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).args(what).arg("tessera");
        let flags = command::output(&mut program)?;
        Ok(flags.split_whitespace().map(str::to_owned).collect())
    };
    let scratch = tempfile::tempdir()?;
    let compiler = || Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));

    let program = scratch.path().join("shared");
    let mut cc = compiler();
    cc.arg(source).arg("-o").arg(&program).args(pkg_config(&["--cflags", "--libs"])?);
    command::run(&mut cc)?;
    command::run(Command::new(&program).env("LD_LIBRARY_PATH", prefix.join("lib")))?;

    let program = scratch.path().join("static");
    let mut cc = compiler();
    let flags = pkg_config(&["--cflags", "--libs", "--static"])?;
    let (archive, flags): (Vec<_>, Vec<_>) = flags.into_iter().partition(|it| it == "-ltessera");
    cc.arg(source)
        .arg("-o")
        .arg(&program)
        .args(archive.iter().map(|_| prefix.join("lib/libtessera.a")));
    command::run(cc.args(flags))?;
    command::run(Command::new(&program).env_remove("LD_LIBRARY_PATH"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_names_what_a_static_library_needs() {
        let messages = "note: link against\nnote: native-static-libs: -lgcc_s -lc -lm -lc\n";
        let libraries = native_libraries(messages).unwrap();
        assert_eq!(libraries, "-lgcc_s -lc -lm");
        let text = pkg_config(Path::new("/usr/local"), &libraries);
        assert!(text.starts_with("prefix=/usr/local\n"), "{text}");
        assert!(text.ends_with("Libs.private: -lgcc_s -lc -lm\n"), "{text}");
        assert_eq!(native_libraries("warning: nothing"), None);
    }

    #[test]
    fn pkg_config_reads_the_description() {
        if Command::new("pkg-config").arg("--version").output().is_err() {
            println!("SKIPPED: there is no pkg-config");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("tessera.pc"), pkg_config(Path::new("/opt/t"), "-lm -lc"))
            .unwrap();
        let said = |what: &[&str]| {
            let mut program = Command::new("pkg-config");
            program.env("PKG_CONFIG_PATH", folder.path()).args(what).arg("tessera");
            command::output(&mut program).unwrap().trim().to_owned()
        };
        assert_eq!(said(&["--modversion"]), env!("CARGO_PKG_VERSION"));
        assert_eq!(said(&["--cflags", "--libs"]), "-I/opt/t/include -L/opt/t/lib -ltessera");
        assert_eq!(said(&["--libs", "--static"]), "-L/opt/t/lib -ltessera -lm -lc");
    }
}
