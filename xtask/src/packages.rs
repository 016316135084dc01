//! What a program compiles because it uses the library.

use anyhow::{Result, bail};

use crate::command;

/// The library as a user may take it.
struct Use {
    arguments: &'static [&'static str],
    /// Packages that it may bring, itself among them.
    at_most: usize,
}

const USES: [Use; 2] = [
    Use { arguments: &[], at_most: 34 },
    Use { arguments: &["--no-default-features"], at_most: 28 },
];

/// What none of them brings: the emulator's own packages, and the program's.
const ABSENT: [&str; 5] = ["corosensei", "cuda_emulated", "clap", "cust", "host"];

/// Fails where the library brings more packages than it may, or one that it may not.
pub(crate) fn check() -> Result<()> {
    for of in USES {
        let mut cargo = command::cargo();
        cargo.args(["tree", "-p", "tessera", "-e", "normal", "--prefix", "none", "--no-dedupe"]);
        let tree = command::output(cargo.args(["--format", "{p}"]).args(of.arguments))?;
        if let Some(wrong) = wrong(&tree, of.at_most) {
            bail!("`tessera` {}: {wrong}", of.arguments.join(" "));
        }
    }
    Ok(())
}

/// What is wrong with a tree of a package to a line.
fn wrong(tree: &str, at_most: usize) -> Option<String> {
    let mut packages: Vec<&str> = tree.lines().collect();
    packages.sort_unstable();
    packages.dedup();
    let name = |package: &&str| package.split(' ').next().is_some_and(|it| ABSENT.contains(&it));
    if let Some(package) = packages.iter().find(|package| name(package)) {
        return Some(format!("its users would compile {package}"));
    }
    if !packages.iter().any(|package| package.starts_with("tessera ")) {
        return Some("the tree is not the library's".to_owned());
    }
    let count = packages.len();
    (count > at_most).then(|| {
        format!("its users would compile {count} packages, {at_most} are allowed:\n{tree}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_has_the_packages_that_it_may_have() {
        check().unwrap_or_else(|error| panic!("{error:#}"));
    }

    #[test]
    fn too_many_packages_and_the_emulator_are_found() {
        let tree = "tessera v0.1.0 (/w)\nhalf v2.7.1\nrayon v1.12.0\nhalf v2.7.1\n";
        assert_eq!(wrong(tree, 3), None);
        assert!(wrong(tree, 2).is_some_and(|wrong| wrong.contains("3 packages, 2 are allowed")));
        let with = format!("{tree}corosensei v0.3.4\n");
        assert!(wrong(&with, 9).is_some_and(|wrong| wrong.contains("corosensei v0.3.4")));
        assert!(wrong("", 9).is_some());
    }
}
