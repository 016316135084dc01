//! The values that several commands take, and how they are read.

use std::time::Duration;

use clap::Args;
use gemm_spec::DType;

use crate::card::WIDEST;
use crate::registry::{self, Implementation};
use crate::run::DeviceChoice;

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
    pub(super) fn mnk(self) -> (usize, usize, usize) {
        (self.m.unwrap_or(self.n), self.n, self.k.unwrap_or(self.n))
    }
}

/// The implementations that `--kernel` selects; none at all is a mistake.
pub(super) fn implementations(patterns: &str) -> anyhow::Result<Vec<Implementation>> {
    let selected = registry::select(patterns)?;
    if selected.is_empty() {
        anyhow::bail!("--kernel '{patterns}' takes every implementation away");
    }
    Ok(selected)
}

/// Refuses factors that the element type does not have.
pub(super) fn check_scalars(dtype: DType, alpha: f64, beta: f64) -> anyhow::Result<()> {
    for (name, value) in [("--alpha", alpha), ("--beta", beta)] {
        let integer = value.fract() == 0.0 && i32::try_from(value as i64).is_ok();
        if dtype.is_integer() && !integer {
            anyhow::bail!("{name} {value} is no 32-bit integer, which products of {dtype} need");
        }
    }
    Ok(())
}

/// A size of a matrix.
pub(super) fn size(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(0) => Err("sizes start at 1".to_owned()),
        Ok(size) => Ok(size),
        Err(error) => match error.kind() {
            std::num::IntErrorKind::PosOverflow => Err(format!("sizes end at {}", usize::MAX)),
            _ => Err("a size is a whole number, 1 or more".to_owned()),
        },
    }
}

/// The width of a tile.
pub(super) fn tile(text: &str) -> Result<u32, String> {
    let width = text.parse().ok().filter(|width| (1..=WIDEST).contains(width));
    width.ok_or_else(|| format!("a tile's width is a whole number from 1 to {WIDEST}"))
}

/// An element type by name.
pub(super) fn dtype(text: &str) -> Result<DType, String> {
    DType::from_name(text).ok_or_else(|| {
        let names: Vec<_> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
        format!("`{text}` is none of {}", names.join(", "))
    })
}

/// `auto`, `cpu`, `cuda` or `cuda:I`: what a product can be left to.
pub(super) fn processor(text: &str) -> Result<DeviceChoice, String> {
    match device(text) {
        Ok(DeviceChoice::Emulate) => {
            Err("the emulator is for `tessera run` and `tessera demo`".to_owned())
        }
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

/// Seconds above 0.
pub(super) fn budget(text: &str) -> Result<Duration, String> {
    text.parse::<f64>()
        .ok()
        .filter(|seconds| *seconds > 0.0)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "a budget is a number of seconds above 0".to_owned())
}
