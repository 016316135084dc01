//! Digests of a GPU's results, which machines without a GPU compare the emulator with.
//!
//! On a machine with a GPU, `TESSERA_WRITE_DIGESTS=FILE cargo test -p host --test kernels write_digests`
//! records them. What the committed file does not hold is not recorded yet, which is a failure only
//! where a GPU is required: a kernel can be added without one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use lab::fill::Distribution;
use lab::{Problem, Scalar, ScalarTypes};
use serde::{Deserialize, Serialize};

use crate::support::{Case, cases};

/// The committed file. It is part of the test, which may run where there is no tree.
const COMMITTED: &str = include_str!("../fixtures/digests/h200.json");

/// What mends a file that lacks something.
pub(crate) const REMEDY: &str = "record it on a machine with a GPU: \
     TESSERA_WRITE_DIGESTS=tests/fixtures/digests/h200.json \
     cargo test -p host --test kernels write_digests";

/// How a result compares with the recorded one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Comparison {
    /// The bits are the same.
    Same,
    /// They are not; this says how.
    Differs(String),
    /// The file does not hold the entry or the case.
    NotRecorded,
}

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

    /// Those that are committed.
    pub(crate) fn committed() -> Result<Self, String> {
        serde_json::from_str(COMMITTED)
            .map_err(|error| format!("the committed digests: {error}; {REMEDY}"))
    }

    /// Whether anything is recorded of an entry.
    pub(crate) fn holds(&self, symbol: &str) -> bool {
        self.entries.contains_key(symbol)
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        let failed = |error: String| format!("{}: {error}", path.display());
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(error.to_string()))?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| failed(error.to_string()))?;
        }
        fs::write(path, text + "\n").map_err(|error| failed(error.to_string()))
    }

    /// Compares one result with the recorded one.
    pub(crate) fn compare(&self, symbol: &str, case: &str, found: &str) -> Comparison {
        match self.entries.get(symbol).and_then(|entry| entry.get(case)) {
            None => Comparison::NotRecorded,
            Some(expected) if expected == found => Comparison::Same,
            Some(expected) => Comparison::Differs(format!(
                "{symbol} {case}: the digest is {found}, {} gave {expected}",
                self.device
            )),
        }
    }
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
pub(crate) fn digest<T: ScalarTypes>(problem: &Problem<T>, c: &[T::C]) -> String {
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

pub(crate) type SelfTest = fn() -> Result<(), String>;

/// The tests of the digests themselves.
pub(crate) const SELF_TESTS: [(&str, SelfTest); 3] = [
    ("digests::the_last_bit_and_the_sign_of_zero_show", bits_show),
    ("digests::what_differs_and_what_is_not_recorded_are_told_apart", comparisons),
    ("digests::what_is_written_is_read_back", read_back),
];

pub(crate) fn ensure(ok: bool, what: &str) -> Result<(), String> {
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

fn comparisons() -> Result<(), String> {
    let case = Case::new(1, 2, 3).to_string();
    let mut digests = Digests { device: "a GPU".to_owned(), ..Digests::default() };
    ensure(!digests.holds("k_f32"), "an empty file holds nothing")?;
    let none = digests.compare("k_f32", &case, "00");
    ensure(none == Comparison::NotRecorded, "an entry that is not there")?;
    digests.entries.insert("k_f32".to_owned(), [(case.to_string(), "00".to_owned())].into());
    ensure(digests.holds("k_f32"), "an entry that is there")?;
    ensure(digests.compare("k_f32", &case, "00") == Comparison::Same, "the same bits")?;
    let Comparison::Differs(text) = digests.compare("k_f32", &case, "01") else {
        return Err("01 is not 00".to_owned());
    };
    ensure(text.contains("digest is 01, a GPU gave 00"), &text)?;
    let other = digests.compare("k_f32", &Case::new(3, 2, 1).to_string(), "00");
    ensure(other == Comparison::NotRecorded, "a case that is not there")
}

fn read_back() -> Result<(), String> {
    let committed = Digests::committed()?;
    ensure(committed.entries.len() > 50, "entries are recorded")?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().join("of/a/gpu.json");
    committed.write(&path)?;
    let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
    ensure(text == COMMITTED, "the committed file is as a GPU's test writes it")
}
