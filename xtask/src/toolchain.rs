//! The device toolchain, and where the source of `core` comes from.
//!
//! The device target has no precompiled `core`; cargo builds it from the standard library's source.
//! Five places may have that source. [`Situation`] is what a look at the machine found, [`plan`] the
//! ordered list of what to try, decided from it alone; what touches the machine is below them.

mod apt;
mod debian;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use apt::Mirror;
use cuda_builder::{KernelCrate, Pins, Toolchain, command};

/// What a device build needs and this machine lacks: the sources may be right all the same.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unavailable {
    /// Neither the pinned toolchain nor another of its commit is installed.
    #[error(
        "no installed toolchain is {toolchain} (rustc commit {commit}){}; \
         run `rustup toolchain install {toolchain} --profile minimal --component rust-src`",
        in_brackets(.tried)
    )]
    Toolchain {
        /// The pinned name.
        toolchain: String,
        /// The pinned commit.
        commit: String,
        /// What was attempted, and how it failed.
        tried: Vec<String>,
    },
    /// The source of `core` was found nowhere.
    #[error(
        "no source of the Rust library {release} was found{}; \
         run `rustup component add rust-src --toolchain {toolchain}`, or install a `rust-src` \
         package of {release}, or set RUST_LIBRARY_SRC to the `library` folder of an unpacked \
         Rust {release} source",
        in_brackets(.tried)
    )]
    Library {
        /// The release whose library builds with the pinned toolchain, as `1.97`.
        release: String,
        /// The toolchain that the component would belong to.
        toolchain: String,
        /// What was attempted, and how it failed.
        tried: Vec<String>,
    },
    /// `RUST_LIBRARY_SRC` leads to something else.
    #[error(
        "RUST_LIBRARY_SRC is {path}, which has no core/src/lib.rs; set it to the `library` folder \
         of an unpacked Rust source, or unset it",
        path = .path.display()
    )]
    Variable {
        /// What the variable says.
        path: PathBuf,
    },
    /// A downloaded file is not the pinned one.
    #[error(
        "{path} has SHA-256 {found}, the manifest pins {expected}; correct \
         [package.metadata.cuda_builder.debian] or set RUST_LIBRARY_SRC",
        path = .path.display()
    )]
    Checksum {
        /// The file.
        path: PathBuf,
        /// What the manifest pins.
        expected: String,
        /// What the file has.
        found: String,
    },
}

impl Unavailable {
    /// Whether an error says that this machine lacks what a device build needs.
    pub(crate) fn is(error: &anyhow::Error) -> bool {
        error.is::<Self>()
    }
}

fn in_brackets(attempts: &[String]) -> String {
    if attempts.is_empty() { String::new() } else { format!(" ({})", attempts.join("; ")) }
}

/// What a look at the machine found, before anything is done to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Situation {
    /// The pinned device toolchain is installed, under whatever name.
    toolchain_installed: bool,
    /// The toolchain has its own `rust-src` component.
    component_installed: bool,
    /// `RUST_LIBRARY_SRC`.
    variable: Option<PathBuf>,
    /// The `library` folder of an installed, or formerly unpacked, Debian package of the release.
    debian_library: Option<PathBuf>,
    /// rustup is there and `RUSTUP_AUTO_INSTALL` is not 0.
    rustup_may_install: bool,
    /// The machine's own Debian mirrors; none where its apt is not Debian's or no package is
    /// pinned.
    mirrors: Vec<Mirror>,
}

/// One place to take the source from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// 1. The toolchain's own `rust-src` component, which cargo finds by itself.
    Component,
    /// 2. The folder that `RUST_LIBRARY_SRC` names.
    Variable(PathBuf),
    /// 3. The `library` folder of a Debian `rust-src` package.
    Debian(PathBuf),
    /// 4. Let rustup install the pinned toolchain with its `rust-src`; touches the network.
    RustupInstall,
    /// 5. Download the pinned Debian package into the target folder; touches the network.
    AptDownload(Vec<Mirror>),
}

/// What to try, in order. Steps 1 to 3 cannot fail, so nothing follows them; after a failed
/// step 4 comes step 5. The list is empty where nothing can be done.
///
/// Steps that yield only the source are no use where the toolchain itself is missing: then step 4
/// is all there is.
fn plan(situation: &Situation) -> Vec<Step> {
    let Situation {
        toolchain_installed,
        component_installed,
        variable,
        debian_library,
        rustup_may_install,
        mirrors,
    } = situation;
    if *toolchain_installed {
        if *component_installed {
            return vec![Step::Component];
        }
        if let Some(path) = variable {
            return vec![Step::Variable(path.clone())];
        }
        if let Some(path) = debian_library {
            return vec![Step::Debian(path.clone())];
        }
    }
    let mut steps = Vec::new();
    if *rustup_may_install {
        steps.push(Step::RustupInstall);
    }
    if *toolchain_installed && !mirrors.is_empty() {
        steps.push(Step::AptDownload(mirrors.clone()));
    }
    steps
}

/// The device toolchain and the source of its library.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) toolchain: Toolchain,
    /// `None` where cargo finds the toolchain's own component.
    pub(crate) library: Option<PathBuf>,
}

/// Finds toolchain and source, installing or downloading where the plan says so; a line goes to stderr
/// before the network is touched.
///
/// The error is [`Unavailable`] where the machine merely lacks them.
pub(crate) fn prepare(kernels: &KernelCrate) -> Result<Device> {
    let pins = &kernels.pins;
    let downloads = kernels.target_dir.join("cuda/rust-library");
    let toolchain = Toolchain::find(pins)?;
    let situation = probe(pins, toolchain.as_ref(), &downloads);
    let mut tried = Vec::new();
    for step in plan(&situation) {
        match take(&step, pins, toolchain.clone(), &downloads) {
            Ok(device) => return Ok(device),
            Err(error) if Unavailable::is(&error) => return Err(error),
            Err(error) => {
                eprintln!("build-ptx: {error:#}");
                tried.push(format!("{error:#}"));
            }
        }
    }
    Err(match toolchain {
        None => Unavailable::Toolchain {
            toolchain: pins.toolchain.clone(),
            commit: pins.commit.clone(),
            tried,
        },
        Some(toolchain) => {
            Unavailable::Library { release: pins.library.clone(), toolchain: toolchain.name, tried }
        }
    }
    .into())
}

fn take(
    step: &Step,
    pins: &Pins,
    toolchain: Option<Toolchain>,
    downloads: &Path,
) -> Result<Device> {
    let library = match step {
        Step::Component => None,
        Step::Variable(path) if is_library(path) => Some(path.clone()),
        Step::Variable(path) => bail!(Unavailable::Variable { path: path.clone() }),
        Step::Debian(path) => Some(path.clone()),
        Step::RustupInstall => {
            let mut rustup = command::clean("rustup");
            rustup.args(["toolchain", "install", &pins.toolchain, "--profile", "minimal"]);
            rustup.args(["--component", "rust-src", "--no-self-update"]);
            say_network(&command::line(&rustup));
            command::run(&mut rustup)?;
            let toolchain = Toolchain::find(pins)?.with_context(|| {
                format!("rustup installed {}, whose rustc is of another commit", pins.toolchain)
            })?;
            return Ok(Device { toolchain, library: None });
        }
        Step::AptDownload(mirrors) => {
            let pin = pins.debian.as_ref().context("the manifest pins no Debian package")?;
            say_network(&format!("apt-get download {}={}", pin.package, pin.version));
            debian::download(pin, mirrors, downloads)?;
            let library = find_release(downloads, &pins.library).with_context(|| {
                format!(
                    "the package {} {} holds no library of release {}; correct the pin",
                    pin.package, pin.version, pins.library
                )
            })?;
            Some(library)
        }
    };
    let toolchain = toolchain.context("the library's source was found without a toolchain")?;
    Ok(Device { toolchain, library })
}

fn say_network(line: &str) {
    eprintln!("build-ptx: the device build lacks its Rust source; over the network: {line}");
}

fn probe(pins: &Pins, toolchain: Option<&Toolchain>, downloads: &Path) -> Situation {
    let component = toolchain.is_some_and(|toolchain| {
        is_library(&toolchain.sysroot.join("lib/rustlib/src/rust/library"))
    });
    let rustup = command::output(command::clean("rustup").arg("--version")).is_ok();
    Situation {
        toolchain_installed: toolchain.is_some(),
        component_installed: component,
        variable: env::var_os("RUST_LIBRARY_SRC").filter(|path| !path.is_empty()).map(Into::into),
        debian_library: find_release(Path::new("/usr/src"), &pins.library)
            .or_else(|| find_release(downloads, &pins.library)),
        rustup_may_install: rustup
            && env::var_os("RUSTUP_AUTO_INSTALL").is_none_or(|value| value != "0"),
        mirrors: if pins.debian.is_some() && debian::tools_present() {
            apt::mirrors_of_machine()
        } else {
            Vec::new()
        },
    }
}

fn is_library(path: &Path) -> bool {
    path.join("core/src/lib.rs").is_file()
}

/// `rustc-<release>.*/library` under a folder; the highest patch level wins.
fn find_release(folder: &Path, release: &str) -> Option<PathBuf> {
    let prefix = format!("rustc-{release}.");
    fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name();
            let patch: u32 = name.to_str()?.strip_prefix(&prefix)?.parse().ok()?;
            let library = entry.path().join("library");
            is_library(&library).then_some((patch, library))
        })
        .max()
        .map(|(_, library)| library)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirror() -> Mirror {
        Mirror { uri: "http://mirror.example/debian".into(), signed_by: None }
    }

    /// A machine on which every step is possible.
    fn rich() -> Situation {
        Situation {
            toolchain_installed: true,
            component_installed: true,
            variable: Some("/src/library".into()),
            debian_library: Some("/usr/src/rustc-1.97.1/library".into()),
            rustup_may_install: true,
            mirrors: vec![mirror()],
        }
    }

    #[test]
    fn step_1_the_toolchains_own_component_comes_before_all() {
        assert_eq!(plan(&rich()), [Step::Component]);
    }

    #[test]
    fn step_2_then_the_variable() {
        let situation = Situation { component_installed: false, ..rich() };
        assert_eq!(plan(&situation), [Step::Variable("/src/library".into())]);
    }

    #[test]
    fn step_3_then_the_debian_package() {
        let situation = Situation { component_installed: false, variable: None, ..rich() };
        assert_eq!(plan(&situation), [Step::Debian("/usr/src/rustc-1.97.1/library".into())]);
    }

    /// Toolchain there, no source anywhere on the machine.
    fn bare() -> Situation {
        Situation { component_installed: false, variable: None, debian_library: None, ..rich() }
    }

    #[test]
    fn step_4_then_rustup_and_if_that_fails_apt() {
        assert_eq!(plan(&bare()), [Step::RustupInstall, Step::AptDownload(vec![mirror()])]);
        let not_debian = Situation { mirrors: Vec::new(), ..bare() };
        assert_eq!(plan(&not_debian), [Step::RustupInstall]);
    }

    #[test]
    fn step_5_apt_alone_where_rustup_may_not_install() {
        let situation = Situation { rustup_may_install: false, ..bare() };
        assert_eq!(plan(&situation), [Step::AptDownload(vec![mirror()])]);
    }

    #[test]
    fn nothing_can_be_done_without_any_of_them() {
        let situation = Situation { rustup_may_install: false, mirrors: Vec::new(), ..bare() };
        assert_eq!(plan(&situation), []);
        assert_eq!(plan(&Situation::default()), []);
    }

    #[test]
    fn without_the_toolchain_only_rustup_helps() {
        let situation = Situation { toolchain_installed: false, ..rich() };
        assert_eq!(plan(&situation), [Step::RustupInstall]);
        let forbidden = Situation { rustup_may_install: false, ..situation };
        assert_eq!(plan(&forbidden), []);
    }

    /// What the machine lacks is told apart from what went wrong: the one ends with exit code 3, the other
    /// with 1.
    #[test]
    fn a_variable_that_leads_nowhere_is_a_lack() {
        let pins = Pins {
            toolchain: "nightly".into(),
            commit: "c0".into(),
            library: "1.97".into(),
            debian: None,
        };
        let taken = |step| take(&step, &pins, None, Path::new("/nowhere")).unwrap_err();
        let variable = taken(Step::Variable("/nowhere".into()));
        assert!(Unavailable::is(&variable), "{variable:#}");
        assert!(variable.to_string().contains("unset it"), "{variable:#}");
        let unpinned = taken(Step::AptDownload(vec![mirror()]));
        assert!(!Unavailable::is(&unpinned), "{unpinned:#}");
    }

    #[test]
    fn the_highest_patch_level_of_the_release_is_found() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["rustc-1.97.0", "rustc-1.97.1", "rustc-1.98.0", "rustc-1.97.2"] {
            let core = dir.path().join(name).join("library/core/src");
            fs::create_dir_all(&core).unwrap();
            if name != "rustc-1.97.2" {
                fs::write(core.join("lib.rs"), "").unwrap(); // 1.97.2 is half unpacked
            }
        }
        let found = find_release(dir.path(), "1.97").unwrap();
        assert_eq!(found, dir.path().join("rustc-1.97.1/library"));
        assert_eq!(find_release(dir.path(), "1.9"), None);
        assert_eq!(find_release(&dir.path().join("none"), "1.97"), None);
    }
}
