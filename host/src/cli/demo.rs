//! `tessera demo`: the book's 4 x 4 example, and which block computes what.

mod svg;
mod trace;

use std::fmt::{self, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use anyhow::bail;
use cuda_std::emulate::{Event, Observer};
use gemm_spec::{KernelSpec, Problem, Unsupported};
use kernels_gpu::Kernel;
use trace::Trace;

use super::output::{Replacement, complain, print};
use super::{Exit, values};
use crate::emulate;
use crate::error::Error;
use crate::measure::DeviceChoice;
use crate::multiplier::Multiplier;
use crate::registry::{self, Implementation};
use tessera::{Accuracy, Matrix};

/// Where the emulator's results come from, in words.
const ON_THE_EMULATOR: &str = "on the CPU emulator";

/// Edge of the example's matrices.
const N: usize = 4;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Width of the tiles: the kernel is tiledW.
    #[arg(long, value_name = "W", default_value = "2", value_parser = values::tile)]
    tile: u32,
    /// Processor: auto, cpu or emulate (both the emulator), cuda or cuda:I.
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = values::device)]
    device: DeviceChoice,
    /// Show the run on the emulator step by step: who loads what, the barriers, the products.
    #[arg(long)]
    trace: bool,
    /// Draw the same steps into this file, as SVG.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl Args {
    /// The width of the tiles, where the run is to be watched.
    fn traced(&self) -> anyhow::Result<Option<usize>> {
        if !self.trace && self.svg.is_none() {
            return Ok(None);
        }
        if let DeviceChoice::Cuda(_) = self.device {
            bail!("--trace and --svg watch the emulator; leave --device out");
        }
        let width = self.tile as usize;
        if !(2..=N).contains(&width) {
            bail!("--trace and --svg show tiles of 2 and 4; tiles of {width} are larger than C");
        }
        Ok(Some(width))
    }
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    let traced = args.traced()?;
    let file = args.svg.as_deref().map(Replacement::new).transpose()?;
    let Implementation::Gpu(spec) = registry::find(&format!("tiled{}", args.tile))? else {
        bail!("tiled{} is no kernel", args.tile);
    };
    let a = Matrix::from_fn(N, N, |row, _| row as f32)?;
    let b = Matrix::from_fn(N, N, |_, col| col as f32)?;
    let (c, place, trace) = match traced {
        None => {
            let (c, place) = product(spec, args.device, &a, &b)?;
            (c, place, None)
        }
        Some(width) => {
            let (c, trace) = watched(spec, width, &a, &b)?;
            (c, ON_THE_EMULATOR.to_owned(), Some(trace))
        }
    };

    let right = Multiplier::named("serial")?.multiply(&a, &b)?;
    if c != right {
        complain(&anyhow::anyhow!("{} gives {c:?}, serial gives {right:?}", spec.id));
        return Ok(Exit::Wrong);
    }
    let mut text = String::new();
    writeln!(text, "A, A[i][j] = i:\n{}", grid(|row, col| a.get(row, col)))?;
    writeln!(text, "B, B[i][j] = j:\n{}", grid(|row, col| b.get(row, col)))?;
    let result = grid(|row, col| c.get(row, col));
    writeln!(text, "The result of Matrix multiplication is:\n{result}")?;
    writeln!(text, "Computed by {} {place}; serial gives the same.\n", spec.id)?;
    blocks(&mut text, spec.spec())?;
    if let Some(trace) = &trace {
        if args.trace {
            write!(text, "\nStep by step, thread by thread (x,y):\n\n{}", trace.text()?)?;
        }
        if let Some(file) = file {
            file.write(svg::draw(trace)?.as_bytes())?;
        }
    }
    print(&text)?;
    Ok(Exit::Success)
}

/// The product by the kernel itself, and where it ran.
fn product(
    spec: Kernel,
    device: DeviceChoice,
    a: &Matrix<f32>,
    b: &Matrix<f32>,
) -> Result<(Matrix<f32>, String), Error> {
    if !matches!(device, DeviceChoice::Cpu | DeviceChoice::Emulate) {
        let accuracy = Accuracy::default();
        let multiplier = Multiplier::open(Some(spec.spec().id), device, accuracy, None, None);
        match multiplier.and_then(|multiplier| multiplier.multiply(a, b)) {
            Ok(c) => return Ok((c, "on the GPU".to_owned())),
            Err(Error::Product {
                error: tessera::Error::NoDevice { .. } | tessera::Error::Unsupported { .. },
            }) if device == DeviceChoice::Auto => {}
            Err(error) => return Err(error),
        }
    }
    let mut c = Matrix::zeros(N, N)?;
    let problem = Problem::<f32>::new(N, N, N);
    let elements = c.view_mut().into_slice();
    emulate::run(spec, &problem, a.as_slice(), b.as_slice(), elements)?;
    Ok((c, ON_THE_EMULATOR.to_owned()))
}

/// The product on the emulator, and what its threads did.
fn watched(
    spec: Kernel,
    width: usize,
    a: &Matrix<f32>,
    b: &Matrix<f32>,
) -> anyhow::Result<(Matrix<f32>, Trace)> {
    let mut c = Matrix::zeros(N, N)?;
    let elements: &mut [f32] = c.view_mut().into_slice();
    let memory = trace::Memory { a, b, c: elements.as_ptr().addr() };
    let log = Log::default();
    let problem = Problem::<f32>::new(N, N, N);
    let options = emulate::Options::default();
    emulate::run_observed(options, spec, &problem, a.as_slice(), b.as_slice(), elements, &log)?;
    let events = log.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    let trace = Trace::new(width, &events, &memory)?;
    Ok((c, trace))
}

/// Keeps every event of a run.
#[derive(Default)]
struct Log(Mutex<Vec<Event>>);

impl Observer for Log {
    fn observe(&self, event: Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}

/// The block that owns element (row, col) of C, as x and y.
fn owner(spec: &KernelSpec, row: usize, col: usize) -> (usize, usize) {
    spec.launch.tile().map_or((0, 0), |tile| (col / tile.n as usize, row / tile.m as usize))
}

/// Which block owns which element, as a picture and as lists.
fn blocks(text: &mut String, spec: &KernelSpec) -> anyhow::Result<()> {
    let grid_of_blocks = spec.grid(N, N).map_err(unsupported(spec))?;
    let block = spec.block(N, N).map_err(unsupported(spec))?;
    writeln!(
        text,
        "The result is cut into {} x {} blocks of {} x {} threads; Block(x,y) owns:",
        grid_of_blocks.x, grid_of_blocks.y, block.x, block.y
    )?;
    let name = |(x, y): (usize, usize)| format!("Block({x},{y})");
    writeln!(text, "{}", grid(|row, col| Some(name(owner(spec, row, col)))))?;
    for y in 0..grid_of_blocks.y as usize {
        for x in 0..grid_of_blocks.x as usize {
            let elements: Vec<String> = (0..N)
                .flat_map(|row| (0..N).map(move |col| (row, col)))
                .filter(|&(row, col)| owner(spec, row, col) == (x, y))
                .map(|(row, col)| format!("C[{row}][{col}]"))
                .collect();
            writeln!(text, "{}: {}", name((x, y)), elements.join(" "))?;
        }
    }
    Ok(())
}

fn unsupported(spec: &KernelSpec) -> impl FnOnce(Unsupported) -> Error {
    let kernel = spec.id;
    move |reason| tessera::Error::Unsupported { kernel, reason }.into()
}

/// Four lines of four values in aligned columns.
fn grid<V: fmt::Display>(value: impl Fn(usize, usize) -> Option<V>) -> String {
    let cell = |row, col| value(row, col).map_or_else(String::new, |value| value.to_string());
    let cells: Vec<Vec<String>> =
        (0..N).map(|row| (0..N).map(|col| cell(row, col)).collect()).collect();
    let width = cells.iter().flatten().map(String::len).max().unwrap_or_default();
    cells
        .iter()
        .map(|line| {
            let padded: Vec<_> = line.iter().map(|cell| format!("{cell:>width$}")).collect();
            format!("  {}\n", padded.join("  "))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_owns_as_many_elements_as_it_has_threads() {
        for spec in kernels_gpu::KERNELS.iter().filter(|spec| spec.id.starts_with("tiled")) {
            let block = spec.block(N, N).unwrap();
            let mine = (0..N * N).filter(|at| owner(spec, at / N, at % N) == (0, 0)).count();
            let threads = (block.x as usize).min(N) * (block.y as usize).min(N);
            assert_eq!(mine, threads, "{}", spec.id);
        }
    }
}
