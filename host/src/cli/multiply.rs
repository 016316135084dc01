//! `tessera multiply`: the product of two files.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use gemm_spec::{DType, Element, Layout, Order, Problem};
use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder};

use super::npy::{self, Npy, NpyElement, NpyFactor};
use super::output::{Progress, Replacement, advise, complain};
use super::{Exit, values};
use tessera::{Accuracy, MatMut, MatRef, Matrix};

use crate::error::Error;
use crate::machine::available_memory;
use crate::memory::{allocate, reserve, short};
use crate::multiplier::Multiplier;
use crate::report::duration::seconds;
use crate::run::{DeviceChoice, Observer};
use crate::scalar::{Scalar, with_type};
use crate::verify::{Checker, Method, Report};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Left factor: a 2-D array of f32, f64, i32, i8, f16 or bf16, in C or Fortran order.
    #[arg(value_name = "A.npy")]
    a: PathBuf,
    /// Right factor, of the same type.
    #[arg(value_name = "B.npy")]
    b: PathBuf,
    /// Where the product goes, in C order; a file that exists is replaced when all is written.
    #[arg(short, long, value_name = "C.npy")]
    output: PathBuf,
    /// Type of the product, and of the old C: f32 is to be had of factors of f16 or bf16, whose sums are
    /// f32 [default: that of the factors, i32 for i8].
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
    /// Factor of the product.
    #[arg(long, value_name = "X", default_value_t = 1.0, allow_negative_numbers = true)]
    alpha: f64,
    /// Factor of the old C, which --c names; with 0 it is not read.
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    beta: f64,
    /// The old C that --beta adds.
    #[arg(long, value_name = "C0.npy")]
    c: Option<PathBuf>,
    /// Processor: auto, cpu, cuda or cuda:I.
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = values::processor)]
    device: DeviceChoice,
    /// How exact: fp32, or componentwise, which holds for each element whatever the range of the factors;
    /// tf32 and bf16 allow less, and choose as fp32 so far (see docs/accuracy.md).
    #[arg(long, value_name = "CONTRACT", default_value = "fp32")]
    accuracy: Accuracy,
    /// Check before writing: auto, full, freivalds, sample or none.
    #[arg(long, value_name = "METHOD", default_value = "none")]
    check: Method,
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
    dtype: DType,
    a: Input<'p>,
    b: Input<'p>,
    c: Option<Input<'p>>,
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    let inputs = open(args)?;
    let name = (args.kernel != "auto").then_some(args.kernel.as_str());
    let multiplier = Multiplier::open(name, args.device, args.accuracy, None)?;
    if let Some(reason) = multiplier.unusable_figures() {
        advise(reason);
    }
    with_type!(inputs.dtype, T => product::<T>(args, inputs, &multiplier))
}

/// Opens the files and finds every mistake that their headers show.
fn open(args: &Args) -> anyhow::Result<Inputs<'_>> {
    // A NaN adds the old C too.
    let reads_c = args.beta != 0.0;
    if reads_c && args.c.is_none() {
        bail!("--beta {} adds an old C: name it with --c C0.npy, or leave --beta out", args.beta);
    }
    let a = Input::open(&args.a, args.trans_a)?;
    let b = Input::open(&args.b, args.trans_b)?;
    let c = args.c.as_deref().map(|path| Input::open(path, false)).transpose()?;
    let factor = a.npy.dtype;
    let out = args.out_dtype.unwrap_or(factor.out());
    let Some(dtype) = factor.with_out(out) else {
        let a = a.path.display();
        let types = DType::ALL.into_iter().filter(|dtype| dtype.factor() == factor);
        let types: Vec<_> = types.map(|dtype| dtype.out().name()).collect();
        bail!("{a} holds {factor}, whose products are {}, not {out}", types.join(" or "));
    };
    values::check_scalars(dtype, args.alpha, args.beta)?;
    let others = std::iter::once((&b, factor)).chain(c.iter().map(|c| (c, out)));
    for (other, needed) in others {
        let (path, held) = (other.path.display(), other.npy.dtype);
        if held != needed {
            let a = a.path.display();
            let product = match args.out_dtype {
                Some(out) => format!(", the product is to be {out}"),
                None => String::new(),
            };
            bail!("{a} holds {factor} and {path} holds {held}{product}: convert it to {needed}");
        }
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
    Ok(Inputs { dtype, a, b, c: c.filter(|_| reads_c) })
}

fn product<T: NpyFactor<Out: NpyElement>>(
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
    let (matrix_a, matrix_b) = (a.npy.read::<T>(a.path)?, b.npy.read::<T>(b.path)?);
    let mut product: Vec<T::Out> = match c {
        Some(c) => row_major(c.npy.read(c.path)?)?,
        None => allocate(m, n, "the product")?,
    };
    let (a, b) = (oriented(&matrix_a, args.trans_a), oriented(&matrix_b, args.trans_b));
    let (alpha, beta) = (T::factor(args.alpha), T::factor(args.beta));
    let problem = Problem::new(m, n, k).with_scalars(alpha, beta).with_layouts(
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
        product.fill(T::Out::POISON);
    }
    progress.step("multiplying");
    let started = Instant::now();
    multiplier.gemm(alpha, a, b, beta, MatMut::new(&mut product, m, n, problem.c)?)?;
    let took = started.elapsed().as_secs_f64();
    let report = if checked {
        progress.step("checking");
        let checker = Checker::new(&problem, a.as_slice(), b.as_slice(), &before, args.check, 0)
            .map_err(|error| Error::Check { reason: error.to_string() })?;
        Some(checker.check(&product))
    } else {
        None
    };
    progress.step("writing");
    let exit = write_if_right(report.as_ref(), out, m, n, &product)?;
    drop(progress);
    if exit == Exit::Fine {
        advise(&format!(
            "{}: {m} x {n} {}, by {kernel} in {} s, {}",
            args.output.display(),
            T::Out::DTYPE,
            seconds(took),
            report.map_or_else(|| "not checked".to_owned(), |report| report.to_string())
        ));
    }
    Ok(exit)
}

/// Puts the product in its place, unless the check has found it wrong.
fn write_if_right<T: NpyElement>(
    report: Option<&Report>,
    mut out: Replacement,
    m: usize,
    n: usize,
    product: &[T],
) -> anyhow::Result<Exit> {
    if let Some(report) = report.filter(|report| !report.ok) {
        complain(&anyhow::anyhow!("the product is wrong, nothing was written: {report}"));
        return Ok(Exit::Wrong);
    }
    npy::write(out.writer(), m, n, product).context("cannot write the product")?;
    out.commit()?;
    Ok(Exit::Fine)
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
fn check_memory<T: Scalar>(m: usize, n: usize, k: usize, args: &Args) -> Result<(), Error> {
    let [m, n, k] = [m, n, k].map(|size| size as u128);
    // The old C is kept for the check.
    let copies = if args.beta != 0.0 && args.check != Method::None { 2 } else { 1 };
    let factors = (m * k).saturating_add(k * n).saturating_mul(size_of::<T>() as u128);
    let result = (m * n).saturating_mul(copies * size_of::<T::Out>() as u128);
    let needed = factors.saturating_add(result);
    match available_memory().map(u128::from) {
        Some(available) if needed > available => {
            Err(short(format!("a product of {m} x {n} x {k}"), needed))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            write_if_right(Some(&checker.check(&[product])), out, 1, 1, &[product]).unwrap()
        };
        assert_eq!(finish(12.0), Exit::Wrong);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing half-written");
        assert_eq!(finish(11.0), Exit::Fine);
        assert!(std::fs::read(&path).unwrap().ends_with(&11f32.to_le_bytes()));
    }

    #[test]
    fn an_old_c_in_fortran_order_becomes_c_order() {
        let fortran =
            Matrix::from_vec(vec![1.0f32, 4.0, 2.0, 5.0, 3.0, 6.0], 2, 3, Order::ColMajor);
        assert_eq!(row_major(fortran.unwrap()).unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    }
}
