//! What the control groups of this process leave of memory: its own and all above it, of either version.

use std::fs;
use std::path::{Path, PathBuf};

use super::free::Free;

/// What a group leaves.
pub(super) struct Bound {
    /// Bytes that can still be had.
    pub(super) free: u64,
    /// All bytes of the group.
    pub(super) limit: u64,
    /// Where that is said.
    pub(super) file: PathBuf,
}

/// The files of one version of control groups.
struct Version {
    limit: &'static str,
    usage: &'static str,
    /// Of `memory.stat`: pages of files, which are given up where memory is short.
    cache: [&'static str; 2],
}

const V1: Version = Version {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    cache: ["total_active_file", "total_inactive_file"],
};

const V2: Version = Version {
    limit: "memory.max",
    usage: "memory.current",
    cache: ["active_file", "inactive_file"],
};

impl From<Bound> for Free {
    fn from(bound: Bound) -> Self {
        let Bound { free, limit, file } = bound;
        let limit = format!("the {limit} bytes of its control group ({})", file.display());
        Self { bytes: free, limit: Some(limit) }
    }
}

/// The bounds of every group from this process's own up to the root of what is mounted.
pub(super) fn bounds(proc: &Path) -> Vec<Free> {
    let read = |name: &str| fs::read_to_string(proc.join("self").join(name)).unwrap_or_default();
    let (groups, mounts) = (read("cgroup"), read("mountinfo"));
    let mut bounds = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let version = match controllers {
            "" => &V2,
            _ if controllers.split(',').any(|controller| controller == "memory") => &V1,
            _ => continue,
        };
        let Some((root, point)) = mounts.lines().find_map(|line| mount(line, version)) else {
            continue;
        };
        let below = path.strip_prefix(root.trim_end_matches('/')).unwrap_or_default();
        let below = below.trim_start_matches('/');
        // Seen from within a namespace a group may be outside of what is mounted.
        let below = if below.split('/').any(|part| part == "..") { "" } else { below };
        let own = point.join(below);
        let groups = own.ancestors().take_while(|group| group.starts_with(&point));
        bounds.extend(groups.filter_map(|group| bound(group, version)).map(Free::from));
    }
    bounds
}

/// Root and place of a mount that holds the groups of a version.
fn mount<'l>(line: &'l str, version: &Version) -> Option<(&'l str, PathBuf)> {
    let (place, kind) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, point) = (place.next()?, place.next()?);
    let mut kind = kind.split(' ');
    let (name, options) = (kind.next()?, kind.nth(1)?);
    let right = match version.limit == V2.limit {
        true => name == "cgroup2",
        false => name == "cgroup" && options.split(',').any(|option| option == "memory"),
    };
    right.then(|| (root, PathBuf::from(point)))
}

/// What one group leaves, where it has a limit.
fn bound(group: &Path, version: &Version) -> Option<Bound> {
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(group.join(name)).ok()?.trim().parse().ok()
    };
    let file = group.join(version.limit);
    // `max` is no number.
    let limit = number(version.limit)?;
    let usage = number(version.usage)?;
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let cache: u64 = stat
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(name, _)| version.cache.contains(name))
        .filter_map(|(_, bytes)| bytes.trim().parse::<u64>().ok())
        .sum();
    Some(Bound { free: limit.saturating_sub(usage.saturating_sub(cache)), limit, file })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that stands for /proc and for what is mounted.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new(groups: &str, root: &str, kind: &str) -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            let point = machine.0.path().join("mounted");
            machine.put("proc/self/cgroup", groups);
            let mounts = format!(
                "23 1 8:1 / / rw - ext4 /dev/sda rw\n35 31 0:32 {root} {} rw,relatime - {kind}\n",
                point.display()
            );
            machine.put("proc/self/mountinfo", &mounts);
            machine
        }

        fn put(&self, path: &str, text: &str) -> &Self {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            self
        }

        /// What is free, and the words for the limit.
        fn least(&self) -> Option<(u64, String)> {
            let all = bounds(&self.0.path().join("proc"));
            let least = all.into_iter().min_by_key(|free| free.bytes)?;
            Some((least.bytes, least.limit.unwrap()))
        }
    }

    #[test]
    fn a_group_below_the_root_has_a_limit_of_its_own() {
        let machine = Machine::new("0::/user/job/step\n", "/", "cgroup2 cgroup2 rw");
        assert_eq!(machine.least(), None);
        machine
            .put("mounted/user/job/step/memory.max", "max\n")
            .put("mounted/user/job/step/memory.current", "100\n")
            .put("mounted/user/job/memory.max", "1000\n")
            .put("mounted/user/job/memory.current", "700\n")
            .put("mounted/user/job/memory.stat", "anon 400\nactive_file 50\ninactive_file 150\n")
            .put("mounted/user/memory.max", "5000\n")
            .put("mounted/user/memory.current", "900\n");
        // Of the 700 bytes 200 are pages of files.
        let (free, limit) = machine.least().unwrap();
        assert_eq!(free, 500);
        assert!(limit.starts_with("the 1000 bytes of its control group ("), "{limit}");
        assert!(limit.ends_with("mounted/user/job/memory.max)"), "{limit}");
        machine.put("mounted/user/memory.current", "4900\n");
        assert_eq!(machine.least().unwrap().0, 100);
        machine.put("mounted/user/memory.current", "9000\n");
        assert_eq!(machine.least().unwrap().0, 0);
    }

    #[test]
    fn the_first_version_has_names_of_its_own() {
        let groups = "5:cpu,cpuacct:/else\n4:memory:/outer/inner\n0::/\n";
        let machine = Machine::new(groups, "/outer", "cgroup cgroup rw,memory");
        let no_limit = "9223372036854771712\n";
        machine
            .put("mounted/inner/memory.limit_in_bytes", "314572800\n")
            .put("mounted/inner/memory.usage_in_bytes", "14572800\n")
            .put("mounted/inner/memory.stat", "active_file 7\ntotal_active_file 1000\n")
            .put("mounted/memory.limit_in_bytes", no_limit)
            .put("mounted/memory.usage_in_bytes", "14572800\n");
        assert_eq!(machine.least().unwrap().0, 300_001_000);
    }

    #[test]
    fn a_group_that_is_not_mounted_leaves_the_root() {
        let machine = Machine::new("0::/../../other\n", "/", "cgroup2 cgroup2 rw");
        machine.put("mounted/memory.max", "10\n").put("mounted/memory.current", "3\n");
        assert_eq!(machine.least().unwrap().0, 7);
        assert!(bounds(Path::new("/nonexistent")).is_empty());
    }
}
