//! A product of arrays on a GPU, from arguments to result.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tessera::gpu::{EpilogueOperands, Limbs, Plan, PlanLimits, PreparedFactor, Workspace};
use tessera::{Accuracy, DType, Device, Error, Types};
use tessera_raw::Factors;

use super::layout::{Arranged, Beside, Extent, NAMES, Stacks, sizes};
use super::lender::{Lender, Scratch, inexpressible, kind_named};
use super::operand::{Located, Operand, locate, pointer};
use super::prepared::PreparedMatrix;
use super::{state, streams};
use crate::dlpack::contiguous;
use crate::epilogue::{self, Epilogue};
use crate::failure::failure;
use crate::kind::Kind;
use crate::shapes::{Form, Shapes, broadcast};

/// What a program asks for.
pub(crate) struct Request<'a, 'py> {
    pub(crate) a: &'a Bound<'py, PyAny>,
    pub(crate) b: &'a Bound<'py, PyAny>,
    pub(crate) c: Option<&'a Bound<'py, PyAny>>,
    pub(crate) out: Option<Bound<'py, PyAny>>,
    pub(crate) factors: Factors,
    pub(crate) accuracy: Accuracy,
    pub(crate) device: Device,
    pub(crate) stream: Option<&'a Bound<'py, PyAny>>,
    pub(crate) dtype: Option<&'a Bound<'py, PyAny>>,
    /// The types of the plan that it is for, if it is for one.
    pub(crate) planned: Option<Types>,
    /// What B was prepared to, if it was.
    pub(crate) prepared: Option<&'a PreparedMatrix>,
    pub(crate) epilogue: Option<&'a Bound<'py, Epilogue>>,
}

impl Request<'_, '_> {
    /// What B was split into before, if it was.
    pub(super) fn limbs(&self) -> Option<Limbs> {
        self.prepared.map(PreparedMatrix::limbs)
    }

    /// Where they are.
    pub(super) fn factor(&self) -> Option<PreparedFactor> {
        self.prepared.map(PreparedMatrix::factor)
    }
}

/// The operands of a product, ready in its stream.
pub(super) struct Read<'py> {
    pub(super) lender: Lender<'py>,
    pub(super) a: Operand<'py>,
    pub(super) b: Operand<'py>,
    pub(super) c: Option<Operand<'py>>,
    pub(super) out: Option<Operand<'py>>,
    pub(super) types: Types,
    /// The epilogue's arrays.
    pub(super) numbers: [Option<Operand<'py>>; epilogue::ARRAYS],
}

/// Factors on a GPU are real.
pub(super) fn real(factors: Factors) -> PyResult<[f64; 2]> {
    let Factors { alpha: [alpha, of_alpha], beta: [beta, of_beta] } = factors;
    if of_alpha != 0.0 || of_beta != 0.0 {
        return Err(PyTypeError::new_err("alpha and beta of a product on a GPU are real"));
    }
    Ok([alpha, beta])
}

/// Where all operands are.
pub(super) fn one_device(
    operands: &[(&'static str, Option<&Bound<'_, PyAny>>)],
    device: Device,
) -> PyResult<Vec<Option<Located>>> {
    let mut found = Vec::with_capacity(operands.len());
    for &(name, object) in operands {
        found.push(match object {
            Some(object) => locate(object, name)?,
            None => None,
        });
    }
    let at = |which: usize| match found[which] {
        Some(located) => format!("on cuda:{}", located.device),
        None => "in host memory".to_owned(),
    };
    let given = (0..operands.len()).filter(|&which| operands[which].1.is_some());
    let given: Vec<usize> = given.collect();
    let key = |which: usize| found[which].map(|located| located.device);
    let Some(&first) = given.first() else { return Ok(found) };
    if let Some(&other) = given.iter().find(|&&other| key(other) != key(first)) {
        return Err(PyTypeError::new_err(format!(
            "{} is {} and {} {}: copy one of them to where the other is",
            operands[first].0,
            at(first),
            operands[other].0,
            at(other),
        )));
    }
    let wanted = match device {
        Device::Cuda(index) => Some(index),
        Device::Cpu => None,
        Device::Auto | _ => key(first),
    };
    if wanted != key(first) {
        let named = wanted.map_or_else(|| "cpu".to_owned(), |index| format!("cuda:{index}"));
        return Err(PyValueError::new_err(format!(
            "{} is {} and device is {named:?}: arrays on a GPU are multiplied where they are",
            operands[first].0,
            at(first),
        )));
    }
    Ok(found)
}

/// The types of a product of such factors, whose result is of the usual type or of the wanted one.
pub(super) fn types(a: Kind, b: Kind, wanted: Option<Kind>) -> PyResult<Types> {
    if a != b {
        return Err(PyTypeError::new_err(format!(
            "a is of {} and b of {}: on a GPU both are of one type; convert one of them",
            a.name(),
            b.name()
        )));
    }
    let refused = |of: Kind| {
        PyTypeError::new_err(format!(
            "there are no products of {} with a result of {} on a GPU here",
            a.name(),
            of.name()
        ))
    };
    let wanted = wanted.unwrap_or(a);
    let all = (a.on_gpu(), b.on_gpu(), wanted.on_gpu());
    let (Some(of_a), Some(of_b), Some(of_c)) = all else { return Err(refused(wanted)) };
    let is_it = |types: &Types| (types.a(), types.b(), types.c()) == (of_a, of_b, of_c);
    Types::ALL.into_iter().find(is_it).ok_or_else(|| refused(wanted))
}

/// Finds and reads the operands.
pub(super) fn read<'py>(request: &Request<'_, 'py>) -> PyResult<Read<'py>> {
    let Request { a, b, c, out, device, stream, dtype, .. } = request;
    let arrays = request.epilogue.map(|epilogue| epilogue.get().arrays(epilogue.py()));
    let arrays = arrays.unwrap_or_default();
    let mut named = vec![("a", Some(*a)), ("b", Some(*b)), ("c", *c), ("out", out.as_ref())];
    named.extend(epilogue::NAMES.into_iter().zip(arrays.each_ref().map(Option::as_ref)));
    let found = one_device(&named, *device)?;
    let [Some(of_a), Some(of_b), of_c, of_out, ref of_numbers @ ..] = found[..] else {
        return Err(PyTypeError::new_err("a and b must be on a GPU"));
    };
    let lender = Lender::new(a, of_a, *stream)?;
    let read = |object: &Bound<'py, PyAny>, name: &str, located: Located| {
        let object = lender.plain(object, located.library, name)?;
        Operand::read(&object, name, located, of_a.library, &lender.context, lender.stream)
    };
    let (a, b) = (read(a, "a", of_a)?, read(b, "b", of_b)?);
    if let Some(prepared) = request.prepared {
        prepared.check(&b)?;
    }
    let out = match out.as_ref().zip(of_out) {
        Some((out, located)) => Some(writable(read(out, "out", located)?)?),
        None => None,
    };
    let c = match c.zip(of_c) {
        Some((c, located)) => Some(read(c, "c", located)?),
        None => None,
    };
    let mut numbers = [const { None }; epilogue::ARRAYS];
    for (((number, array), located), name) in
        numbers.iter_mut().zip(&arrays).zip(of_numbers).zip(epilogue::NAMES)
    {
        if let Some((array, located)) = array.as_ref().zip(*located) {
            *number = Some(read(array, name, located)?);
        }
    }
    let wanted = match (dtype, &out) {
        (Some(dtype), _) => Some(kind_named(dtype)?),
        (None, Some(out)) => Some(out.kind),
        (None, None) => None,
    };
    let types = match request.planned {
        None => types(a.kind, b.kind, wanted)?,
        Some(planned) if [a.kind, b.kind] == [planned.a(), planned.b()].map(Kind::of_dtype) => {
            planned
        }
        Some(planned) => {
            let (a, b) = (a.kind.name(), b.kind.name());
            let text = format!("the arrays are of {a} and {b}, the plan of {planned}");
            return Err(PyTypeError::new_err(text));
        }
    };
    let result = Kind::of_dtype(types.c());
    for (name, other) in [("out", &out), ("c", &c)] {
        if let Some(other) = other
            && other.kind != result
        {
            let (own, result) = (other.kind.name(), result.name());
            return Err(PyTypeError::new_err(format!(
                "{name} is of {own}, the product of {result}"
            )));
        }
    }
    let sums = Kind::of_dtype(types.acc().dtype());
    let [.., amax] = &numbers;
    if let Some(amax) = amax {
        epilogue::check_amax(Some(amax.kind), &amax.shape, amax.is_read_only())?;
    }
    for ((number, name), wanted) in numbers.iter().zip(epilogue::NAMES).zip([result, sums, sums]) {
        if let Some(number) = number
            && number.kind != wanted
        {
            let (own, wanted) = (number.kind.name(), wanted.name());
            return Err(PyTypeError::new_err(format!(
                "{name} is of {own}, it must be of {wanted}"
            )));
        }
    }
    Ok(Read { lender, a, b, c, out, types, numbers })
}

/// What is done to a product, and where the numbers for it are on the device.
pub(super) fn epilogue_of(
    epilogue: Option<&Bound<'_, Epilogue>>,
    numbers: &[Option<Operand<'_>>; epilogue::ARRAYS],
    shapes: &Shapes,
) -> PyResult<(tessera::Epilogue, EpilogueOperands)> {
    let Some(epilogue) = epilogue else {
        return Ok((tessera::Epilogue::NONE, EpilogueOperands::default()));
    };
    let [read @ .., amax] = numbers;
    let forms = read.each_ref().map(|number| number.as_ref().map(Operand::form));
    let (what, lines) = epilogue.get().along(forms, shapes.axes(), false)?;
    for ((line, number), name) in lines.iter().zip(read).zip(epilogue::NAMES) {
        if let Some(number) = number
            && line.count > 1
            && usize::try_from(line.stride) != Ok(number.kind.size())
        {
            return Err(PyValueError::new_err(format!(
                "{name} is not contiguous: make a contiguous copy of it"
            )));
        }
    }
    let [bias, row_scales, column_scales] = lines.map(|line| line.at.addr() as u64);
    let amax = amax.as_ref().map_or(0, |amax| amax.address);
    let numbers =
        EpilogueOperands { bias, row_scales, column_scales, amax, ..EpilogueOperands::default() };
    Ok((what, numbers))
}

fn writable(out: Operand<'_>) -> PyResult<Operand<'_>> {
    if out.is_read_only() {
        return Err(PyValueError::new_err("out must not be written: it is read-only"));
    }
    Ok(out)
}

/// What a product is besides its operands.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    pub(super) types: Types,
    pub(super) factors: [f64; 2],
    pub(super) accuracy: Accuracy,
    pub(super) epilogue: tessera::Epilogue,
    pub(super) prepared: Option<Limbs>,
}

/// Calls with the stacks of a product, whose D and C are of these forms.
fn with_stacks<R>(
    shapes: &Shapes,
    terms: Terms,
    (d, c): (Form<'_>, Option<Form<'_>>),
    call: impl FnOnce(&Stacks<'_>) -> R,
) -> PyResult<R> {
    let Terms { types, factors: [alpha, beta], accuracy, epilogue, prepared } = terms;
    let ([a, b, of_d], batch) = shapes.products(d.at, d.strides);
    let c = match c {
        Some(c) => {
            let strides = broadcast(c, "c", &shapes.result())?;
            let ([_, _, of_c], batch) = shapes.products(c.at, &strides);
            Some((of_c, batch.c))
        }
        None => None,
    };
    let (of_c, c_strides) = match &c {
        Some((of_c, strides)) => (*of_c, &strides[..]),
        None => (of_d, &batch.c[..]),
    };
    let stacks = Stacks {
        types,
        matrices: [a, b, of_c, of_d],
        stack: &batch.shape,
        strides: [&batch.a, &batch.b, c_strides, &batch.c],
        alpha,
        beta,
        accuracy,
        epilogue,
        prepared,
    };
    Ok(call(&stacks.folded()))
}

/// The launches of a product of forms; an operand that no leading dimension expresses is an error.
pub(super) fn arranged(
    shapes: &Shapes,
    terms: Terms,
    forms: (Form<'_>, Option<Form<'_>>),
    limits: PlanLimits,
) -> PyResult<Arranged> {
    let found = with_stacks(shapes, terms, forms, |stacks| stacks.arranged(limits))?;
    let found = found.map_err(|at| {
        PyValueError::new_err(format!(
            "{} is no stack of matrices with a leading dimension: make a contiguous copy of it",
            NAMES[at]
        ))
    })?;
    // Each launch would begin at 0.
    if terms.epilogue.amax && !found.outer.is_empty() {
        return Err(PyValueError::new_err(
            "the epilogue's amax is of a stack that takes several launches: make contiguous copies of a and b",
        ));
    }
    Ok(found)
}

/// Fails where an out has another shape than the product, shares memory with what is read, or with itself.
pub(super) fn check_out(
    out: &Operand<'_>,
    shape: &[usize],
    others: &[(&str, &Operand<'_>)],
) -> PyResult<()> {
    if out.shape != shape {
        return Err(PyValueError::new_err(format!(
            "out has the shape {:?}, the product {shape:?}",
            out.shape
        )));
    }
    let is_broadcast =
        out.shape.iter().zip(&out.strides).any(|(&count, &stride)| count > 1 && stride == 0);
    if is_broadcast && !out.shape.contains(&0) {
        return Err(PyValueError::new_err("out has elements that are the same in memory"));
    }
    let own = extent(out);
    for (name, other) in others {
        let is_same = *name == "c"
            && (other.address, &other.shape, &other.strides)
                == (out.address, &out.shape, &out.strides);
        if !is_same && own.may_overlap(&extent(other)) {
            return Err(PyValueError::new_err(format!(
                "out shares memory with {name}: on a GPU it must be apart"
            )));
        }
    }
    Ok(())
}

fn extent<'a>(of: &'a Operand<'_>) -> Extent<'a> {
    let (address, size) = (of.address, of.kind.size());
    Extent { address, shape: &of.shape, strides: &of.strides, size }
}

/// Queues the launches of a plan in the stream of a product, and keeps what they use; the operands are followed by
/// the epilogue's arrays.
pub(super) fn launch_plan(
    py: Python<'_>,
    lender: &Lender<'_>,
    (plan, beside): (&Plan, Beside),
    arranged: &Arranged,
    given: Option<Workspace>,
    operands: &[&Operand<'_>],
) -> PyResult<()> {
    let stream = lender.stream;
    launch(py, lender, plan.workspace_bytes(), given, operands, |workspace| {
        // SAFETY: (1) to (3) of `launch`. The limbs are those of B, which was found to be what was split; the splitting
        // is over, nobody writes them, and they are freed by a call of the driver's that waits for the stream.
        unsafe { arranged.launch(plan, stream.raw(), beside, workspace) }
    })
}

/// Calls what queues launches in the stream of a product with a workspace of that many bytes or the one that is given,
/// and keeps what they use. What a plan asks of its caller holds then:
///
/// 1. The operands, the epilogue's numbers among them, are arrays of their libraries in the primary context of the
///    device, which is the plan's, and are as long as their shapes and strides say; D was checked to overlap none that
///    is read but where it is C, or is new.
/// 2. The workspace is the library's, in the stream's order, or the stream's own, or the program's.
/// 3. The arrays are kept until the stream has passed the launches: by the library's allocator, which reuses memory in
///    the stream's order, or by what is kept here. That nobody else writes them meanwhile is what every array library
///    asks of its callers.
pub(super) fn launch(
    py: Python<'_>,
    lender: &Lender<'_>,
    bytes: u64,
    given: Option<Workspace>,
    operands: &[&Operand<'_>],
    run: impl Fn(Workspace) -> Result<(), Error> + Send + Sync,
) -> PyResult<()> {
    let (context, stream, device) = (&lender.context, lender.stream, lender.located.device);
    match given {
        Some(workspace) => py.detach(|| run(workspace)).map_err(failure)?,
        None => match lender.scratch(bytes)? {
            Scratch::None => py.detach(|| run(Workspace::NONE)).map_err(failure)?,
            Scratch::Lent(workspace, _memory) => {
                py.detach(|| run(workspace)).map_err(failure)?;
            }
            Scratch::Own => {
                py.detach(|| state::with_workspace(context, device, stream, bytes, run))?
            }
        },
    }
    lender.used(operands)?;
    let kept: Vec<Py<PyAny>> =
        operands.iter().filter_map(|it| it.kept.clone()).map(Bound::unbind).collect();
    // What a graph uses is the program's to keep.
    if !kept.is_empty() && !streams::is_capturing(context, stream)? {
        state::keep(context, streams::record(context, stream)?, kept);
    }
    Ok(())
}

/// The arrays of an epilogue that there are, by their names.
pub(super) fn named<'a, 'py>(
    numbers: &'a [Option<Operand<'py>>; epilogue::ARRAYS],
) -> impl Iterator<Item = (&'static str, &'a Operand<'py>)> {
    let pairs = epilogue::NAMES.into_iter().zip(numbers);
    pairs.filter_map(|(name, number)| Some((name, number.as_ref()?)))
}

/// Computes a product.
pub(crate) fn matmul<'py>(
    py: Python<'py>,
    request: &Request<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    state::release();
    let factors = real(request.factors)?;
    let Read { lender, mut a, mut b, c, out, types, numbers } = read(request)?;
    let mut shapes = Shapes::of(a.form(), b.form())?;
    let shape = shapes.result();
    if let Some(out) = &out {
        let mut others = vec![("a", &a), ("b", &b)];
        others.extend(c.as_ref().map(|c| ("c", c)));
        others.extend(named(&numbers));
        check_out(out, &shape, &others)?;
    }
    let (epilogue, given) = epilogue_of(request.epilogue, &numbers, &shapes)?;
    let beside = Beside { numbers: given, prepared: request.factor() };
    let result = Kind::of_dtype(types.c());
    let is_new = out.is_none();
    let mut d = match out {
        Some(out) => out,
        None => lender.empty(&shape, result)?,
    };
    if shape.contains(&0) && !epilogue.amax {
        return lender.finished(d, is_new);
    }
    let (accuracy, prepared) = (request.accuracy, request.limbs());
    let terms = Terms { types, factors, accuracy, epilogue, prepared };
    // Copies are made where no leading dimension expresses an operand. An out is then written at the end.
    let without_c = Terms { factors: [factors[0], 0.0], ..terms };
    let (mut copied, mut copied_to) = ([false; 4], None);
    while let Some(at) =
        with_stacks(&shapes, without_c, (d.form(), None), |stacks| stacks.inexpressible())?
    {
        let operand = [&a, &b, &d, &d][at];
        if std::mem::replace(&mut copied[at], true) {
            return Err(inexpressible(operand, NAMES[at]));
        }
        match at {
            0 => a = lender.contiguous(&a, NAMES[at])?,
            1 => b = lender.contiguous(&b, NAMES[at])?,
            _ if lender.copies(&d) => {
                let written = lender.empty(&shape, result)?;
                copied_to = Some(std::mem::replace(&mut d, written));
            }
            _ => return Err(inexpressible(&d, NAMES[at])),
        }
        shapes = Shapes::of(a.form(), b.form())?;
    }
    let mut of_c = c.as_ref().map(Operand::form);
    let lacks = with_stacks(&shapes, terms, (d.form(), of_c), |stacks| stacks.inexpressible())?;
    if lacks == Some(2)
        && let Some(c) = &c
    {
        // The result's place is its copy.
        lender.copy(&d, c, NAMES[2])?;
        of_c = None;
    }
    let arranged = arranged(&shapes, terms, (d.form(), of_c), PlanLimits::default())?;
    let device = lender.located.device;
    let plan =
        py.detach(|| state::plan(device, arranged.desc, arranged.limits)).map_err(failure)?;
    let mut operands = vec![&a, &b, &d];
    operands.extend(&c);
    operands.extend(numbers.iter().flatten());
    launch_plan(py, &lender, (&plan, beside), &arranged, None, &operands)?;
    if let Some(out) = copied_to {
        lender.copy(&out, &d, "the result")?;
        return Ok(out.object);
    }
    lender.finished(d, is_new)
}

/// How a product would be computed, as a dictionary.
pub(crate) fn explain<'py>(
    py: Python<'py>,
    request: &Request<'_, 'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let Read { lender, a, b, types, .. } = read(request)?;
    let mut shapes = Shapes::of(a.form(), b.form())?;
    let shape = shapes.result();
    let strides = contiguous(&shape, sizes(types)[3].cast_signed());
    // Aligned as a new array is.
    let new = pointer(256);
    let d = Form { at: new, shape: &shape, strides: &strides };
    let (accuracy, epilogue) = (request.accuracy, tessera::Epilogue::NONE);
    let prepared = request.limbs();
    let terms = Terms { types, factors: [1.0, 0.0], accuracy, epilogue, prepared };
    let mut forms = [a.form(), b.form()];
    let copies = [&a, &b].map(|it| contiguous(&it.shape, it.kind.size().cast_signed()));
    let mut copied = Vec::new();
    while let Some(at) = with_stacks(&shapes, terms, (d, None), |stacks| stacks.inexpressible())? {
        let operand = [&a, &b][at.min(1)];
        if copied.contains(&NAMES[at]) || !lender.copies(operand) {
            return Err(inexpressible(operand, NAMES[at]));
        }
        copied.push(NAMES[at]);
        forms[at.min(1)] = Form { at: new, strides: &copies[at.min(1)], ..forms[at.min(1)] };
        shapes = Shapes::of(forms[0], forms[1])?;
    }
    let arranged = arranged(&shapes, terms, (d, None), PlanLimits::default())?;
    let device = lender.located.device;
    let plan =
        py.detach(|| state::plan(device, arranged.desc, arranged.limits)).map_err(failure)?;
    let told = PyDict::new(py);
    let ([mut m, n, k], mut products) = (shapes.sizes(), shapes.count());
    if prepared.is_some() {
        (m, products) = (arranged.desc.m, arranged.products());
    }
    told.set_item("device", format!("cuda:{device}"))?;
    told.set_item("by", plan.kernel().spec().id)?;
    told.set_item("products", products)?;
    told.set_item("m", m)?;
    told.set_item("n", n)?;
    told.set_item("k", k)?;
    told.set_item("types", PyTuple::new(py, [types.a(), types.b(), types.c()].map(DType::name))?)?;
    told.set_item("copied", copied)?;
    told.set_item("workspace_bytes", plan.workspace_bytes())?;
    told.set_item("plan", plan.explain())?;
    Ok(told)
}
