//! The values that several commands take, and how they are read.

use std::env;
use std::num::NonZeroUsize;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use gemm_spec::{AccType, DType, Types};

use crate::card::WIDEST;
use crate::measure::DeviceChoice;
use crate::registry::{self, Implementation};
use crate::scalar::Scalar as _;

/// Sizes of a product.
#[derive(Args, Clone, Copy)]
pub(super) struct Sizes {
    /// Columns of B and C; without -m and -k the product is square.
    #[arg(short = 'n', value_name = "N", default_value = "1024", value_parser = size)]
    pub(super) n: usize,
    /// Rows of A and C [default: N].
    #[arg(short = 'm', value_name = "M", value_parser = size)]
    pub(super) m: Option<usize>,
    /// Columns of A and rows of B [default: N].
    #[arg(short = 'k', value_name = "K", value_parser = size)]
    pub(super) k: Option<usize>,
}

impl Sizes {
    /// m, n and k.
    pub(super) fn mnk(self) -> [usize; 3] {
        [self.m.unwrap_or(self.n), self.n, self.k.unwrap_or(self.n)]
    }
}

/// The implementations that `--kernel` selects, without it those that run by default; none at all is a
/// mistake.
pub(super) fn implementations(patterns: Option<&str>) -> anyhow::Result<Vec<Implementation>> {
    let patterns = patterns.unwrap_or_default();
    let selected = registry::select(patterns)?;
    if selected.is_empty() {
        anyhow::bail!("--kernel '{patterns}' takes every implementation away");
    }
    Ok(selected)
}

/// Patterns for `--kernel`, one at least.
pub(super) fn patterns(text: &str) -> Result<String, String> {
    if text.split(',').all(|pattern| pattern.trim().is_empty()) {
        return Err("it names no implementation; leave it out for those that run by default".into());
    }
    Ok(text.to_owned())
}

/// Refuses factors that the type of sums does not have: what became infinite or 0 on the way would be
/// multiplied and checked as if it had been meant.
pub(super) fn check_scalars(types: Types, alpha: f64, beta: f64) -> anyhow::Result<()> {
    for (name, value) in [("--alpha", alpha), ("--beta", beta)] {
        let factor = types.acc();
        let held = match factor {
            AccType::I32 => {
                let range = f64::from(i32::MIN)..=f64::from(i32::MAX);
                if value.fract() != 0.0 || !range.contains(&value) {
                    bail!("{name} {value} is no 32-bit integer, which products of {types} need");
                }
                continue;
            }
            AccType::F64 => value,
            AccType::F32 => f32::from_f64(value).to_f64(),
        };
        if value.is_finite() && held.is_infinite() {
            bail!(
                "{name} {value:e} is beyond the largest {factor}, {:e}, and factors of {types} \
                 products are {factor}; take a smaller one",
                f32::MAX
            );
        }
        if value != 0.0 && held == 0.0 {
            bail!(
                "{name} {value:e} is nearer to 0 than every {factor}, and factors of {types} \
                 products are {factor}; take 0 or a larger one"
            );
        }
    }
    Ok(())
}

/// A factor, which f64 holds.
pub(super) fn factor(text: &str) -> Result<f64, String> {
    let value: f64 =
        text.parse().map_err(|_| "a factor is a number, such as 1.5, -2 or 1e-3".to_owned())?;
    let digits = text.split(['e', 'E']).next().unwrap_or_default();
    if value.is_infinite() && digits.contains(|c: char| c.is_ascii_digit()) {
        return Err(format!("it is beyond the largest f64, {:e}; take a smaller one", f64::MAX));
    }
    if value == 0.0 && digits.contains(|c| matches!(c, '1'..='9')) {
        return Err("it is nearer to 0 than every f64; take 0 or a larger one".to_owned());
    }
    Ok(value)
}

/// CPU threads, at most, where the machine has not more cores: that many start in a moment.
const MOST_THREADS: usize = 1024;
/// The variable that says how many threads there are where the command line does not.
const THREADS_VARIABLE: &str = "RAYON_NUM_THREADS";

/// A number of CPU threads.
pub(super) fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let most = MOST_THREADS.max(cores);
    let threads = text.parse().ok().filter(|threads: &NonZeroUsize| threads.get() <= most);
    threads.ok_or_else(|| format!("a number of threads is a whole number from 1 to {most}"))
}

/// The number of CPU threads that `--threads` names, or the environment; `None` is one for each core.
/// What the environment holds is refused where the command line could not say it, also beside
/// `--threads`: as many draw and check operands.
pub(super) fn thread_count(named: Option<NonZeroUsize>) -> anyhow::Result<Option<NonZeroUsize>> {
    let value = env::var_os(THREADS_VARIABLE).unwrap_or_default();
    match value.to_string_lossy().trim() {
        // Rayon's word for one for each core.
        "" | "0" => Ok(named),
        text => match threads(text) {
            Ok(threads) => Ok(named.or(Some(threads))),
            Err(reason) => {
                bail!("{THREADS_VARIABLE} is `{text}`: {reason}; set it to one, or unset it")
            }
        },
    }
}

/// How often something is done.
pub(super) fn rounds(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "a number of rounds is a whole number, 1 or more".to_owned())
}

/// A size of a matrix.
pub(super) fn size(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(0) => Err("sizes start at 1".to_owned()),
        Ok(size) => Ok(size),
        Err(error) if *error.kind() == std::num::IntErrorKind::PosOverflow => {
            Err(format!("sizes end at {}", usize::MAX))
        }
        Err(_) => Err("a size is a whole number, 1 or more".to_owned()),
    }
}

/// The width of a tile.
pub(super) fn tile(text: &str) -> Result<u32, String> {
    let width = text.parse().ok().filter(|width| (1..=WIDEST).contains(width));
    width.ok_or_else(|| format!("a tile's width is a whole number from 1 to {WIDEST}"))
}

/// The types of a product by name.
pub(super) fn types(text: &str) -> Result<Types, String> {
    let names = || Types::ALL.map(Types::name).join(", ");
    Types::from_name(text).ok_or_else(|| format!("`{text}` is none of {}", names()))
}

/// What the help says of `--dtype`.
pub(super) fn types_help() -> String {
    let mut text = "Element type: ".to_owned();
    let usual = Types::ALL.into_iter().filter(|types| types.is_usual());
    text += &usual.map(Types::name).collect::<Vec<_>>().join(", ");
    for c in DType::ALL {
        let asked = Types::ALL.into_iter().filter(|types| !types.is_usual() && types.c() == c);
        let names: Vec<_> = asked.map(Types::name).collect();
        if !names.is_empty() {
            text += &format!(", or {}, whose C is {c}", names.join(" or "));
        }
    }
    text
}

/// A type of elements by name.
pub(super) fn dtype(text: &str) -> Result<DType, String> {
    let names = || DType::ALL.map(DType::name).join(", ");
    let named = DType::ALL.into_iter().find(|dtype| dtype.name() == text);
    named.ok_or_else(|| format!("`{text}` is none of {}", names()))
}

/// Why an emulator's times are not measured.
pub(super) const NOT_EMULATED: &str =
    "the emulator is for `tessera run`, `tessera sweep` and `tessera demo`";

/// `auto`, `cpu`, `cuda` or `cuda:I`: what a product can be left to.
pub(super) fn processor(text: &str) -> Result<DeviceChoice, String> {
    match device(text) {
        Ok(DeviceChoice::Emulate) => Err(NOT_EMULATED.to_owned()),
        Err(_) => Err(format!("`{text}` is none of auto, cpu, cuda, cuda:I")),
        choice => choice,
    }
}

/// `auto`, `cpu`, `emulate`, `cuda` or `cuda:I`.
pub(super) fn device(text: &str) -> Result<DeviceChoice, String> {
    let index = match text {
        "auto" => return Ok(DeviceChoice::Auto),
        "cpu" => return Ok(DeviceChoice::Cpu),
        "emulate" => return Ok(DeviceChoice::Emulate),
        "cuda" => Some(0),
        _ => text.strip_prefix("cuda:").and_then(|index| index.parse().ok()),
    };
    index
        .map(DeviceChoice::Cuda)
        .ok_or_else(|| format!("`{text}` is none of auto, cpu, emulate, cuda, cuda:I"))
}

/// Seconds, at most: 30 years, after which no clock runs over.
pub(super) const MOST_SECONDS: f64 = 1e9;

/// Seconds above 0.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    text.parse::<f64>()
        .ok()
        .filter(|seconds| *seconds > 0.0 && *seconds <= MOST_SECONDS)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|seconds| !seconds.is_zero())
        .ok_or_else(|| format!("a time is a number of seconds above 0 and up to {MOST_SECONDS:e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_that_become_others_are_refused() {
        for text in ["1e400", "-1e400", "1e-400", "-0.1e-400", "one", ""] {
            assert!(factor(text).is_err(), "{text}");
        }
        for (text, value) in
            [("0", 0.0), ("-0e-400", 0.0), ("1e39", 1e39), ("-inf", -f64::INFINITY)]
        {
            assert_eq!(factor(text), Ok(value), "{text}");
        }
        assert!(factor("NaN").is_ok_and(f64::is_nan));
        use Types::{BF16, BF16F32, F16, F16F32, F32, F64};
        for types in [F32, F16, BF16, F16F32, BF16F32] {
            for value in [1e39, -1e39, 1e-50, -1e-50] {
                assert!(check_scalars(types, value, 0.0).is_err(), "{types} {value}");
                assert!(check_scalars(types, 1.0, value).is_err(), "{types} {value}");
            }
        }
        for value in [0.0, -0.0, 1e-40, 3e38, f64::INFINITY, f64::NAN, 0.1] {
            assert!(check_scalars(F32, value, value).is_ok(), "{value}");
        }
        assert!(check_scalars(F64, 1e39, 1e-300).is_ok());
    }

    #[test]
    fn threads_and_times_have_an_end() {
        assert_eq!(threads("7").map(NonZeroUsize::get), Ok(7));
        for text in ["0", "-1", "abc", "100000", "18446744073709551616", ""] {
            assert!(threads(text).is_err_and(|said| said.contains("from 1 to")), "{text}");
        }
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
        for text in ["0", "-1", "inf", "NaN", "1e300", "1e-300", "soon"] {
            assert!(seconds(text).is_err_and(|said| said.contains("up to 1e9")), "{text}");
        }
    }

    #[test]
    fn patterns_name_something() {
        for text in ["", ",", " , "] {
            assert!(patterns(text).is_err(), "{text:?}");
        }
        assert_eq!(patterns("serial,").as_deref(), Ok("serial,"));
    }
}
