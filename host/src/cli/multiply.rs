//! `tessera multiply`: the product of two files.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use gemm_spec::{DType, Element, Layout, Order, Problem, Types, with_gemm_types};
use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder};

use super::npy::{self, Npy, NpyElement};
use super::output::{Progress, Replacement, advise, complain};
use super::{Exit, values};
use tessera::{Accuracy, CpuUnits, MatRef, Matrix};

use crate::error::Error;
use crate::measure::{DeviceChoice, Observer, Room};
use crate::memory::{allocate, reserve};
use crate::multiplier::Multiplier;
use crate::report::duration::seconds;
use crate::scalar::{Scalar, ScalarTypes};
use crate::verify::{Checker, Method, Report};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Left operand: a 2-D array of f32, f64, i32, i8, f16 or bf16, in C or Fortran order.
    #[arg(value_name = "A.npy")]
    a: PathBuf,
    /// Right operand, of the same type.
    #[arg(value_name = "B.npy")]
    b: PathBuf,
    /// Where the product goes, in C order; a file that exists is replaced when all is written.
    #[arg(short, long, value_name = "C.npy")]
    output: PathBuf,
    /// Type of the product, and of the old C: f32 is available for operands of f16 or bf16, whose sums are
    /// f32 [default: that of the operands, i32 for i8].
    #[arg(long, value_name = "TYPE", value_parser = values::dtype)]
    out_dtype: Option<DType>,
    /// Implementation: auto or a name from `tessera list`.
    #[arg(long, value_name = "NAME", default_value = "auto")]
    kernel: String,
    /// Multiply by the transpose of A.
    #[arg(long)]
    trans_a: bool,
    /// Multiply by the transpose of B.
    #[arg(long)]
    trans_b: bool,
    /// Scalar that multiplies A B.
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = values::factor,
          allow_negative_numbers = true)]
    alpha: f64,
    /// Scalar that multiplies the old C, which --c names; with 0 it is not read [default: 0].
    #[arg(long, value_name = "X", value_parser = values::factor, allow_negative_numbers = true)]
    beta: Option<f64>,
    /// The old C that --beta adds.
    #[arg(long, value_name = "C0.npy")]
    c: Option<PathBuf>,
    /// CPU threads [default: RAYON_NUM_THREADS, else one for each core].
    #[arg(long, value_name = "T", value_parser = values::threads)]
    threads: Option<NonZeroUsize>,
    /// Units of the CPU: vector; same-bits, which adds matrix units where they give the same bits; all; tf32 or
    /// bf16, which are all and may round factors of f32; exact-rounded, which is all and computes f64 as exact
    /// sums; or tiles, matrix units or their model for every product [default: TESSERA_CPU_UNITS, else what --accuracy allows].
    #[arg(long, value_name = "UNITS")]
    cpu_units: Option<CpuUnits>,
    /// Processor: auto, cpu, cuda or cuda:I.
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = values::processor)]
    device: DeviceChoice,
    /// How exact: fp32, or componentwise, which holds for each element whatever the range of the operands;
    /// tf32 and bf16 allow less: matrix units of a CPU then round factors of f32 (see docs/accuracy.md).
    #[arg(long, value_name = "MODE", default_value = "fp32")]
    accuracy: Accuracy,
    /// Check before writing: auto, full, freivalds, sample or none.
    #[arg(long, value_name = "METHOD", default_value = "none")]
    check: Method,
}

impl Args {
    /// The scalar that multiplies the old C.
    fn beta(&self) -> f64 {
        self.beta.unwrap_or(0.0)
    }
}

/// A matrix file and how it is meant.
struct Input<'p> {
    path: &'p Path,
    npy: Npy,
    transposed: bool,
}

impl<'p> Input<'p> {
    fn open(path: &'p Path, transposed: bool) -> anyhow::Result<Self> {
        Ok(Self { path, npy: Npy::open(path)?, transposed })
    }

    /// Rows and columns of the operand.
    fn dims(&self) -> (usize, usize) {
        let (rows, cols) = (self.npy.rows, self.npy.cols);
        if self.transposed { (cols, rows) } else { (rows, cols) }
    }
}

/// Every file, each of which was found usable, and their sizes fit together.
struct Inputs<'p> {
    /// What is multiplied, which says what the product is.
    types: Types,
    a: Input<'p>,
    b: Input<'p>,
    c: Option<Input<'p>>,
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    let inputs = open(args)?;
    let name = (args.kernel != "auto").then_some(args.kernel.as_str());
    let threads = values::thread_count(args.threads)?;
    let multiplier = Multiplier::open(name, args.device, args.accuracy, threads, args.cpu_units)?;
    if let Some(reason) = multiplier.unusable_figures() {
        advise(reason);
    }
    with_gemm_types!(inputs.types, T => product::<T>(args, inputs, &multiplier))
}

/// Opens the files and finds every mistake that their headers show.
fn open(args: &Args) -> anyhow::Result<Inputs<'_>> {
    let beta = args.beta();
    // A NaN adds the old C too.
    let reads_c = beta != 0.0;
    match &args.c {
        None if reads_c => {
            bail!("--beta {beta} adds an old C: name it with --c C0.npy, or leave --beta out")
        }
        Some(c) if args.beta.is_none() => {
            bail!(
                "--c {} adds nothing without --beta: give --beta 1, or leave --c out",
                c.display()
            )
        }
        _ => {}
    }
    let a = Input::open(&args.a, args.trans_a)?;
    let b = Input::open(&args.b, args.trans_b)?;
    let c = args.c.as_deref().filter(|_| reads_c);
    let c = c.map(|path| Input::open(path, false)).transpose()?;
    let factor = a.npy.dtype;
    let Some(usual) = Types::usual(factor, b.npy.dtype) else {
        bail!("{}", of_two_types(&a, &b));
    };
    let out = args.out_dtype.unwrap_or(usual.c());
    let Some(types) = usual.with_c(out) else {
        let a = a.path.display();
        let results = DType::ALL.into_iter().filter(|&c| usual.with_c(c).is_some());
        let mut results: Vec<_> = results.collect();
        // The usual one first.
        results.sort_by_key(|&c| c != usual.c());
        let results: Vec<_> = results.into_iter().map(DType::name).collect();
        bail!("{a} holds {factor}, whose products are {}, not {out}", results.join(" or "));
    };
    values::check_scalars(types, args.alpha, beta)?;
    if let Some(c) = c.as_ref().filter(|c| c.npy.dtype != out) {
        let (a, path, held) = (a.path.display(), c.path.display(), c.npy.dtype);
        let product = match args.out_dtype {
            Some(out) => format!(", the product is to be {out}"),
            None => String::new(),
        };
        bail!("{a} holds {factor} and {path} holds {held}{product}: convert it to {out}");
    }
    let ((m, k), (b_rows, n)) = (a.dims(), b.dims());
    if k != b_rows {
        let inner = tessera::Error::InnerDim { a_rows: m, a_cols: k, b_rows, b_cols: n };
        return Err(Error::from(inner)).with_context(|| {
            format!("{} and {} do not fit together", a.path.display(), b.path.display())
        });
    }
    if let Some(c) = &c
        && c.dims() != (m, n)
    {
        let (rows, cols) = c.dims();
        return Err(Error::from(tessera::Error::OuterDim { rows, cols, m, n }))
            .with_context(|| format!("{} does not fit the product", c.path.display()));
    }
    Ok(Inputs { types, a, b, c })
}

/// Why factors of two types are no product, and the conversion of one of them that loses nothing, where
/// there is one.
fn of_two_types(a: &Input<'_>, b: &Input<'_>) -> String {
    let (one, other) = (a.npy.dtype, b.npy.dtype);
    let (a, b) = (a.path.display(), b.path.display());
    let remedy = if one.holds(other) {
        format!("convert {b} to {one}")
    } else if other.holds(one) {
        format!("convert {a} to {other}")
    } else {
        let both = DType::ALL.into_iter().find(|wide| wide.holds(one) && wide.holds(other));
        format!("convert both to {}", both.unwrap_or(DType::F64))
    };
    format!("{a} holds {one} and {b} holds {other}, factors are of one type: {remedy}")
}

fn product<T: ScalarTypes<A: NpyElement, B: NpyElement, C: NpyElement>>(
    args: &Args,
    inputs: Inputs<'_>,
    multiplier: &Multiplier,
) -> anyhow::Result<Exit> {
    let Inputs { a, b, c, .. } = inputs;
    let ((m, k), (_, n)) = (a.dims(), b.dims());
    check_memory::<T>(m, n, k, args)?;
    // Before any work: a place that cannot be written is known now.
    let out = Replacement::new(&args.output)?;

    let mut progress = Progress::new();
    progress.step("reading");
    let (matrix_a, matrix_b) = (a.npy.read::<T::A>(a.path)?, b.npy.read::<T::B>(b.path)?);
    let mut product: Vec<T::C> = match c {
        Some(c) => row_major(c.npy.read(c.path)?)?,
        None => allocate(m, n, "the product")?,
    };
    let (a, b) = (oriented(&matrix_a, args.trans_a), oriented(&matrix_b, args.trans_b));
    let (alpha, beta) = (T::Acc::from_f64(args.alpha), T::Acc::from_f64(args.beta()));
    let problem = Problem::<T>::new(m, n, k).with_scalars(alpha, beta).with_layouts(
        a.layout(),
        b.layout(),
        Layout::row_major(n),
    );
    let kernel = multiplier.choose(&problem)?.id();

    let checked = args.check != Method::None;
    let mut before = Vec::new();
    if checked && beta != T::Acc::ZERO {
        before = reserve(m, n, "the old C")?;
        before.extend_from_slice(&product);
    }
    if beta == T::Acc::ZERO {
        // What nobody writes must not pass for a zero.
        product.fill(T::C::POISON);
    }
    progress.step("multiplying");
    let started = Instant::now();
    multiplier.gemm_slices(&problem, a.as_slice(), b.as_slice(), &mut product)?;
    let took = started.elapsed().as_secs_f64();
    let report = checked.then(|| {
        progress.step("checking");
        let (a, b, how) = (a.as_slice(), b.as_slice(), (args.check, 0));
        let factors = multiplier.error_of_factors(&problem)?;
        let checker = Checker::of_rounded_factors(&problem, a, b, &before, how, factors)?;
        Ok(checker.check(&product))
    });
    progress.step("writing");
    let exit = write_unless_wrong(report.as_ref(), out, m, n, &product)?;
    drop(progress);
    if exit != Exit::Wrong {
        let verdict = match report {
            Some(Ok(report)) => report.to_string(),
            _ => "not checked".to_owned(),
        };
        advise(&format!(
            "{}: {m} x {n} {}, by {kernel} in {} s, {verdict}",
            args.output.display(),
            T::C::DTYPE,
            seconds(took),
        ));
    }
    Ok(exit)
}

/// Puts the product in its place, unless the check has found it wrong. One that could not be checked is
/// not lost, but how the program ends says so.
fn write_unless_wrong<T: NpyElement>(
    report: Option<&Result<Report, Error>>,
    out: Replacement,
    m: usize,
    n: usize,
    product: &[T],
) -> anyhow::Result<Exit> {
    if let Some(Ok(report)) = report.filter(|report| report.as_ref().is_ok_and(|it| !it.ok)) {
        complain(&anyhow::anyhow!("the product is wrong, nothing was written: {report}"));
        return Ok(Exit::Wrong);
    }
    out.write_with(|file| npy::write(file, m, n, product))?;
    match report {
        Some(Err(error)) => {
            complain(&anyhow::anyhow!("the product was written without its check: {error}"));
            Ok(Exit::from(error))
        }
        _ => Ok(Exit::Success),
    }
}

/// The matrix or its transpose, in the same buffer.
fn oriented<T: Scalar>(matrix: &Matrix<T>, transposed: bool) -> MatRef<'_, T> {
    if transposed { matrix.view().transposed() } else { matrix.view() }
}

/// The elements in C order: where they already are, nothing is copied.
fn row_major<T: Scalar>(matrix: Matrix<T>) -> anyhow::Result<Vec<T>> {
    let (rows, cols) = (matrix.rows(), matrix.cols());
    if matrix.layout().order == Order::RowMajor {
        return Ok(matrix.into_vec());
    }
    let mut data = allocate(rows, cols, "the old C")?;
    let columns = ArrayView2::from_shape((rows, cols).f(), matrix.as_slice())?;
    ArrayViewMut2::from_shape((rows, cols), &mut data)?.assign(&columns);
    Ok(data)
}

/// Refuses before anything is allocated what the memory cannot hold.
fn check_memory<T: ScalarTypes>(m: usize, n: usize, k: usize, args: &Args) -> Result<(), Error> {
    let problem = Problem::<T>::new(m, n, k);
    // The old C is kept for the check.
    let of_c = if args.beta() != 0.0 && args.check != Method::None { 2 } else { 1 };
    let room = Room { sets: 1, of_c, check: args.check };
    room.check(&problem, &room.of_a_product(&problem))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::VerifyError;

    /// The product of (1 2) and (3 4)^T is 11, and the file says so or stays what it was.
    #[test]
    fn a_wrong_product_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.npy");
        std::fs::write(&path, "old").unwrap();
        let problem = Problem::<f32>::new(1, 1, 2);
        let checker =
            Checker::new(&problem, &[1.0, 2.0], &[3.0, 4.0], &[], Method::Full, 0).unwrap();
        let finish = |product: f32| {
            let out = Replacement::new(&path).unwrap();
            let report = Ok(checker.check(&[product]));
            write_unless_wrong(Some(&report), out, 1, 1, &[product]).unwrap()
        };
        assert_eq!(finish(12.0), Exit::Wrong);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing half-written");
        assert_eq!(finish(11.0), Exit::Success);
        assert!(std::fs::read(&path).unwrap().ends_with(&11f32.to_le_bytes()));
    }

    /// Hours of work are not lost for want of memory for a check.
    #[test]
    fn a_product_that_cannot_be_checked_is_written_and_not_fine() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.npy");
        for (error, exit) in [
            (VerifyError::Memory { what: "a check", needed: 1 }, Exit::OutOfMemory),
            (VerifyError::Range { magnitude: 1e200 }, Exit::Usage),
        ] {
            let out = Replacement::new(&path).unwrap();
            let report = Err(Error::from(error));
            assert_eq!(write_unless_wrong(Some(&report), out, 1, 1, &[7f32]).unwrap(), exit);
            assert!(std::fs::read(&path).unwrap().ends_with(&7f32.to_le_bytes()));
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn an_old_c_in_fortran_order_becomes_c_order() {
        let fortran =
            Matrix::from_vec(vec![1.0f32, 4.0, 2.0, 5.0, 3.0, 6.0], 2, 3, Order::ColMajor);
        assert_eq!(row_major(fortran.unwrap()).unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    }
}
