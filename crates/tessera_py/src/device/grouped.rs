//! Products whose rows are groups of those of one array, of sizes that only the GPU knows.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use tessera::gpu::{EpilogueOperands, GemmBatch, GemmDesc, Operands, PlanLimits};
use tessera::{Bias, Device, Epilogue as Finishing, Layout};
use tessera_raw::{Factors, Strided};

use super::layout::layout;
use super::lender::{Lender, inexpressible};
use super::operand::{Operand, locate, pointer};
use super::prepared::PreparedMatrix;
use super::product::{Read, Request, check_out, launch, named, read};
use super::state;
use crate::array::single;
use crate::epilogue::{self, Epilogue};
use crate::failure::failure;
use crate::kind::Kind;
use crate::settings;

/// grouped_matmul(a, b, ends, /, out=None, *, accuracy=None, stream=None, dtype=None, epilogue=None)
/// --
///
/// Products of groups of the rows of one array on a GPU, each by a matrix of its own, as of a mixture of experts.
///
/// a has the shape (rows, k), b (groups, k, n) and the result (rows, n). ends has a number of int32 for each group, on
/// the GPU: the row before which it ends. A group begins where the one before it ends, the first at row 0, and may be
/// empty. All groups are one launch, and nothing waits for the numbers. Rows behind the last group are not written: in
/// a new array they are whatever was there. epilogue may have an activation and a bias of the shape (n,), or (groups, n)
/// for one of each group.
#[pyfunction]
#[pyo3(
    signature = (a, b, ends, /, out=None, *, accuracy=None, stream=None, dtype=None, epilogue=None),
    text_signature = "(a, b, ends, /, out=None, *, accuracy=None, stream=None, dtype=None, epilogue=None)"
)]
#[expect(clippy::too_many_arguments, reason = "each has a name")]
pub(crate) fn grouped_matmul<'py>(
    py: Python<'py>,
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    ends: &Bound<'py, PyAny>,
    out: Option<Bound<'py, PyAny>>,
    accuracy: Option<&str>,
    stream: Option<&Bound<'py, PyAny>>,
    dtype: Option<&Bound<'py, PyAny>>,
    epilogue: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    state::release();
    let epilogue = epilogue::given(epilogue)?;
    let accuracy = settings::accuracy(accuracy)?;
    if b.is_instance_of::<PreparedMatrix>() {
        let text = "b is a PreparedMatrix, which products of groups do not take: pass an array";
        return Err(PyTypeError::new_err(text));
    }
    for (name, array) in [("a", a), ("b", b), ("ends", ends)] {
        if locate(array, name)?.is_none() {
            let text = format!("{name} is in host memory: groups are of arrays on a GPU");
            return Err(PyTypeError::new_err(text));
        }
    }
    let out = out.map(single).transpose()?;
    let request = Request {
        a,
        b,
        c: None,
        out,
        factors: Factors::default(),
        accuracy,
        device: Device::Auto,
        stream,
        dtype,
        planned: None,
        prepared: None,
        epilogue,
    };
    let Read { lender, mut a, mut b, out, types, numbers, .. } = read(&request)?;
    let ends = ends_of(&lender, ends)?;
    let ([rows, k], [groups, of_b, n]) = (sizes(&a, "a")?, sizes(&b, "b")?);
    if of_b != k {
        let text = format!("a has {k} columns and the matrices of b {of_b} rows");
        return Err(PyValueError::new_err(text));
    }
    if ends.shape != [groups] || groups > 1 && !is_tight(&ends) {
        return Err(PyValueError::new_err(format!(
            "ends has the shape {:?}, it must be ({groups},) and contiguous: a number for each matrix of b",
            ends.shape
        )));
    }
    let shape = [rows, n];
    if let Some(out) = &out {
        let mut others = vec![("a", &a), ("b", &b), ("ends", &ends)];
        others.extend(named(&numbers));
        check_out(out, &shape, &others)?;
    }
    let (what, bias, bias_stride) = finishing(epilogue, &numbers, [groups, n])?;
    let is_new = out.is_none();
    let d = match out {
        Some(out) => out,
        None => lender.empty(&shape, Kind::of_dtype(types.c()))?,
    };
    if rows == 0 || n == 0 || groups == 0 {
        return lender.finished(d, is_new);
    }
    // Rows are read one after the other, and a matrix of b by rows or by columns.
    if by_rows(&a).is_none() {
        a = lender.contiguous(&a, "a")?;
    }
    if matrices(&b).is_none() {
        b = lender.contiguous(&b, "b")?;
    }
    let of_a = by_rows(&a).ok_or_else(|| inexpressible(&a, "a"))?;
    let (of_b, b_stride) = matrices(&b).ok_or_else(|| inexpressible(&b, "b"))?;
    let of_d = by_rows(&d).ok_or_else(|| inexpressible(&d, "out"))?;
    let desc = GemmDesc::new(types, rows, n, k)
        .with_layouts(of_a, of_b, of_d)
        .with_batch(GemmBatch::RowGroups { count: groups, b_stride })
        .with_accuracy(accuracy)
        .with_epilogue(what)
        .with_bias_stride(bias_stride);
    let limits = PlanLimits::default().for_addresses(&[a.address, b.address, d.address]);
    let device = lender.located.device;
    let plan = py.detach(|| state::plan(device, desc, limits)).map_err(failure)?;
    let operands = Operands { a: a.address, b: b.address, c: 0, d: d.address };
    let given = EpilogueOperands { bias, ..EpilogueOperands::default() };
    let (at, raw) = (ends.address, lender.stream);
    let mut used = vec![&a, &b, &d, &ends];
    used.extend(numbers.iter().flatten());
    launch(py, &lender, plan.workspace_bytes(), None, &used, |workspace| {
        // SAFETY: (1) to (3) of `launch`, of these operands and of the ends, which are as many as the groups.
        unsafe { plan.run_groups(raw.raw(), at, operands, given, workspace) }
    })?;
    lender.finished(d, is_new)
}

/// The ends of the groups, ready in the product's stream.
fn ends_of<'py>(lender: &Lender<'py>, ends: &Bound<'py, PyAny>) -> PyResult<Operand<'py>> {
    let located = locate(ends, "ends")?.filter(|it| it.device == lender.located.device);
    let Some(located) = located else {
        let text = format!("ends must be on cuda:{}, where a is", lender.located.device);
        return Err(PyTypeError::new_err(text));
    };
    let (leader, name) = (lender.located.library, "ends");
    let ends = Operand::read(ends, name, located, leader, &lender.context, lender.stream)?;
    if ends.kind != Kind::I32 {
        let text = format!("ends is of {}, it must be of int32", ends.kind.name());
        return Err(PyTypeError::new_err(text));
    }
    Ok(ends)
}

/// The shape of an array with as many dimensions as are wanted.
fn sizes<const DIMENSIONS: usize>(
    array: &Operand<'_>,
    name: &str,
) -> PyResult<[usize; DIMENSIONS]> {
    <[usize; DIMENSIONS]>::try_from(&array.shape[..]).map_err(|_| {
        PyValueError::new_err(format!(
            "{name} has the shape {:?}, it must have {DIMENSIONS} dimensions",
            array.shape
        ))
    })
}

/// Whether the elements of a line follow each other.
fn is_tight(line: &Operand<'_>) -> bool {
    line.strides.last() == Some(&line.kind.size().cast_signed())
}

/// A matrix of an array, from its last two dimensions.
fn matrix(array: &Operand<'_>) -> Option<Strided> {
    let ([.., rows, cols], [.., row_stride, col_stride]) = (&array.shape[..], &array.strides[..])
    else {
        return None;
    };
    let at = pointer(array.address);
    Some(Strided { at, rows: *rows, cols: *cols, row_stride: *row_stride, col_stride: *col_stride })
}

/// The layout of an array whose rows are contiguous.
fn by_rows(array: &Operand<'_>) -> Option<Layout> {
    let found = layout(&matrix(array)?, array.kind.size())?;
    (found.order == tessera::Order::RowMajor).then_some(found)
}

/// The layout of the matrices of a stack, and from one to the next in elements.
fn matrices(array: &Operand<'_>) -> Option<(Layout, usize)> {
    let size = array.kind.size();
    let found = layout(&matrix(array)?, size)?;
    let stride = usize::try_from(*array.strides.first()?).ok()?;
    stride.is_multiple_of(size).then_some((found, stride / size))
}

/// What is done to the sums, the address of the bias, and from that of a group to that of the next in elements.
fn finishing(
    given: Option<&Bound<'_, Epilogue>>,
    [bias, row_scale, column_scale, amax]: &[Option<Operand<'_>>; epilogue::ARRAYS],
    [groups, n]: [usize; 2],
) -> PyResult<(Finishing, u64, usize)> {
    let Some(given) = given else { return Ok((Finishing::NONE, 0, 0)) };
    if row_scale.is_some() || column_scale.is_some() || amax.is_some() {
        let text = "an epilogue of groups has a bias and an activation, and no scales or amax";
        return Err(PyValueError::new_err(text));
    }
    let what = |bias| Finishing::new(bias, given.get().function());
    let Some(bias) = bias else { return Ok((what(None), 0, 0)) };
    let size = bias.kind.size();
    let stride = match bias.shape[..] {
        [all] if all == n => 0,
        [each, all] if each == groups && all == n => bias.strides[0],
        _ => {
            return Err(PyValueError::new_err(format!(
                "the epilogue's bias has the shape {:?}, it must be ({n},) or ({groups}, {n})",
                bias.shape
            )));
        }
    };
    let stride = usize::try_from(stride).ok().filter(|stride| stride.is_multiple_of(size));
    match stride {
        Some(stride) if n <= 1 || is_tight(bias) => {
            Ok((what(Some(Bias::PerColumn)), bias.address, stride / size))
        }
        _ => Err(PyValueError::new_err(
            "the epilogue's bias is not contiguous: make a contiguous copy of it",
        )),
    }
}
