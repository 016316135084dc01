//! Digests of a GPU's results, which machines without a GPU compare the emulator with.
//!
//! On a machine with a GPU, `TESSERA_WRITE_DIGESTS=FILE cargo test -p host --test kernels` writes
//! them; the newest `results/*/digests.json` is what every machine is held to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use lab::fill::Distribution;
use lab::{Problem, Scalar};
use serde::{Deserialize, Serialize};

use crate::support::{Case, cases};

/// What mends a file that lacks something.
const REMEDY: &str = "write it anew on a machine with a GPU: \
     TESSERA_WRITE_DIGESTS=results/<date>-<gpu>/digests.json cargo test -p host --test kernels";

/// The file: for each entry of the registry, each case and the digest of its C.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Digests {
    /// The GPU.
    pub(crate) device: String,
    /// By the entry's symbol.
    pub(crate) entries: BTreeMap<String, BTreeMap<String, String>>,
}

impl Digests {
    /// Where the file is to be written, if that is asked for. Cargo starts a test in its package's
    /// folder, so a relative path there means the workspace's root.
    pub(crate) fn wanted() -> Option<PathBuf> {
        let path = env::var_os("TESSERA_WRITE_DIGESTS").filter(|path| !path.is_empty())?;
        let root = env::var_os("CARGO_MANIFEST_DIR").map_or_else(PathBuf::new, |package| {
            PathBuf::from(package).parent().map_or_else(PathBuf::new, Path::to_owned)
        });
        Some(root.join(path))
    }

    /// The newest committed file; none where there is no tree around the test or no such file.
    pub(crate) fn newest() -> Option<PathBuf> {
        let package = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        newest_in(&package.join("../results"))
    }

    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let failed = |error: String| format!("{}: {error}; {REMEDY}", path.display());
        let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        let failed = |error: String| format!("{}: {error}", path.display());
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(error.to_string()))?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| failed(error.to_string()))?;
        }
        fs::write(path, text + "\n").map_err(|error| failed(error.to_string()))
    }

    /// Compares one result with the file's.
    pub(crate) fn compare(&self, symbol: &str, case: &Case, found: &str) -> Result<(), String> {
        let entry = self
            .entries
            .get(symbol)
            .ok_or_else(|| format!("the digests have no entry {symbol}; {REMEDY}"))?;
        let case = case.to_string();
        match entry.get(&case) {
            None => Err(format!("the digests of {symbol} have no case {case}; {REMEDY}")),
            Some(expected) if expected == found => Ok(()),
            Some(expected) => Err(format!(
                "{symbol} {case}: the digest is {found}, {} gave {expected}",
                self.device
            )),
        }
    }
}

/// The file in the folder whose name, which begins with a date, is the last.
fn newest_in(results: &Path) -> Option<PathBuf> {
    let folders = fs::read_dir(results).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    folders.map(|folder| folder.join("digests.json")).filter(|path| path.is_file()).max()
}

/// The cases that are digested. Normal inputs come from the system's logarithm and cosine, whose
/// last bit is not the same everywhere, so uniform ones stand in for them.
pub(crate) fn digested_cases(tile: usize) -> Vec<Case> {
    let mut cases = cases(tile);
    for case in &mut cases {
        if case.distribution == Distribution::Normal {
            case.distribution = Distribution::Uniform;
        }
    }
    cases
}

/// FNV-1a, 64 bits, over the bits of C's elements row by row, low byte first; padding is left out.
pub(crate) fn digest<T: Scalar>(problem: &Problem<T>, c: &[T::Out]) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for row in 0..problem.m {
        for col in 0..problem.n {
            let value = c[problem.c.index(row, col)].to_f64();
            // Exact for every type; an f32's or i32's value has one f64, zeros keep their sign.
            for byte in value.to_bits().to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
    }
    format!("{hash:016x}")
}

type SelfTest = fn() -> Result<(), String>;

/// The tests of the digests themselves.
pub(crate) const SELF_TESTS: [(&str, SelfTest); 3] = [
    ("digests::the_last_bit_and_the_sign_of_zero_show", bits_show),
    ("digests::what_is_missing_or_differs_is_refused", refusals),
    ("digests::the_newest_file_is_taken_and_read_back", newest_file),
];

fn ensure(ok: bool, what: &str) -> Result<(), String> {
    if ok { Ok(()) } else { Err(what.to_owned()) }
}

fn bits_show() -> Result<(), String> {
    let problem = Case { padding: [0, 0, 1], ..Case::new(2, 2, 1) }.problem::<f32>();
    let c = [1.0, 0.0, f32::NAN, 3.0, 4.0, f32::NAN];
    let with = |at: usize, value: f32| {
        let mut c = c;
        c[at] = value;
        digest(&problem, &c)
    };
    let plain = digest(&problem, &c);
    // The published value for no bytes at all.
    let empty = digest(&Case::new(0, 0, 0).problem::<f32>(), &[]);
    ensure(empty == "cbf29ce484222325", "FNV-1a of nothing")?;
    ensure(plain != with(0, 1.0f32.next_up()), "the last bit of C(0,0)")?;
    ensure(plain != with(1, -0.0), "the sign of the zero at C(0,1)")?;
    ensure(plain != with(4, 3.0) && plain != with(3, 4.0), "C(1,0) and C(1,1)")?;
    ensure(plain == with(2, 7.0), "padding is no part of C")
}

fn refusals() -> Result<(), String> {
    let case = Case::new(1, 2, 3);
    let mut digests = Digests { device: "a GPU".to_owned(), ..Digests::default() };
    let missing = digests.compare("k_f32", &case, "00").err().unwrap_or_default();
    ensure(missing.contains("no entry k_f32") && missing.contains(REMEDY), &missing)?;
    let entry = digests.entries.entry("k_f32".to_owned()).or_default();
    entry.insert(case.to_string(), "00".to_owned());
    digests.compare("k_f32", &case, "00")?;
    let differs = digests.compare("k_f32", &case, "01").err().unwrap_or_default();
    ensure(differs.contains("digest is 01, a GPU gave 00"), &differs)?;
    let other = digests.compare("k_f32", &Case::new(3, 2, 1), "00").err().unwrap_or_default();
    ensure(other.contains("no case -m 3") && other.contains(REMEDY), &other)
}

fn newest_file() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let name = |date: &str| folder.path().join(date).join("digests.json");
    ensure(newest_in(folder.path()).is_none(), "an empty folder has none")?;
    for date in ["2026-11-20-h200", "2026-12-01-h200", "2027-01-01-cpu"] {
        fs::create_dir(folder.path().join(date)).map_err(|error| error.to_string())?;
    }
    let entry = BTreeMap::from([("case".to_owned(), "00".to_owned())]);
    let digests = Digests {
        device: "a GPU".to_owned(),
        entries: BTreeMap::from([("k_f32".to_owned(), entry)]),
    };
    digests.write(&name("2026-11-20-h200"))?;
    digests.write(&name("2026-12-01-h200"))?;
    ensure(newest_in(folder.path()) == Some(name("2026-12-01-h200")), "the newest with a file")?;
    ensure(Digests::read(&name("2026-12-01-h200"))? == digests, "what was written is read")?;
    ensure(Digests::read(&name("2027-01-01-cpu")).is_err(), "no file is an error")
}
