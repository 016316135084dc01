//! GPU kernels on the CPU emulator: the same sources, with no GPU needed.

use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

use cuda_std::emulate::{self, Buffer, Defect, Launch, Observer, Strict, TensorMap};
use gemm_spec::plan::{self, Addresses, Arguments, Band, Kept, MapDesc, Old, Planner, Step};
use gemm_spec::split::Panel;
use gemm_spec::{
    Batch, BatchShare, DeviceLimits, Element, Epilogue, GemmTypes, KernelSpec, Operand,
    OperandAccess, Order, Problem,
};
use kernels_gpu::{EmulatedCall, Kernel};
use tessera::select::DeviceModel;

use crate::error::Error;
use crate::scalar::ScalarTypes;

/// What the emulator allows a kernel: the instructions of compute capability 9.0, and a block as large as any
/// device takes.
pub const LIMITS: DeviceLimits = DeviceLimits {
    compute_capability: (9, 0),
    max_threads_per_block: 1024,
    max_shared_bytes: 227 * 1024,
    multiprocessors: 132,
};

/// How a kernel is emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether accesses and barriers are checked; `docs/emulator.md` says for what.
    pub checked: bool,
    /// A barrier that every thread passes without waiting, counted from 0: a planted fault, to see
    /// that the checks find it.
    pub skip_barrier: Option<u32>,
    /// A defect of an instruction, of those of compute capability 9.0 and a block's barrier: a planted fault, too.
    pub defect: Option<Defect>,
    /// When threads run, and when copies and products are done.
    pub order: emulate::Order,
    /// SMs of the device: persistent kernels have no more blocks, which so have more tiles.
    pub multiprocessors: u32,
    /// What is checked beyond the usual.
    pub strict: Strict,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            checked: true,
            skip_barrier: None,
            defect: None,
            order: emulate::Order::Late,
            multiprocessors: LIMITS.multiprocessors,
            strict: Strict::default(),
        }
    }
}

/// Computes `C = alpha * A * B + beta * C` with a kernel of the registry, block by block on the CPU.
///
/// It shows what the kernel's own source computes, not how long it takes: an emulated thread is
/// thousands of times slower than a real one. Accesses and barriers are checked.
///
/// # Errors
/// [`tessera::Error::Shape`] where a buffer is too short and [`tessera::Error::Unsupported`] where the kernel cannot do
/// the problem, C then being unchanged; [`Error::Emulation`] where the kernel itself goes wrong.
pub fn run<T: ScalarTypes>(
    spec: Kernel,
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
) -> Result<(), Error> {
    run_with(Options::default(), spec, problem, a, b, c)
}

/// As [`run`], with checks turned off or a fault planted.
///
/// # Errors
/// As [`run`].
pub fn run_with<T: ScalarTypes>(
    options: Options,
    spec: Kernel,
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
) -> Result<(), Error> {
    run_kernel((options, None), spec, problem, a, b, c, Extras::NONE)
}

/// As [`run_with`], and tells an observer what each thread of the kernel does.
///
/// # Errors
/// As [`run`].
pub fn run_observed<T: ScalarTypes>(
    options: Options,
    spec: Kernel,
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    observer: &dyn Observer,
) -> Result<(), Error> {
    run_kernel((options, Some(observer)), spec, problem, a, b, c, Extras::NONE)
}

/// What a fused epilogue is given, in host memory.
pub struct Fused<'a, T: GemmTypes> {
    /// What is done.
    pub epilogue: Epilogue,
    /// What beta multiplies where it is not C, and from one of its rows to the next.
    pub old: Option<(&'a [T::C], usize)>,
    /// The bias.
    pub bias: &'a [T::C],
    /// The factors of the rows.
    pub row_scales: &'a [T::Acc],
    /// The factors of the columns.
    pub column_scales: &'a [T::Acc],
    /// The bits of the largest magnitude, zero before.
    pub amax: &'a mut [u32; 1],
    /// Alpha and beta, where they are in device memory.
    pub scalars: &'a [T::Acc],
    /// From the bias of one product to that of the next.
    pub bias_stride: usize,
}

/// Products that have groups of rows of one A and one C.
#[derive(Clone, Copy)]
pub struct RowGroups<'a> {
    /// The rows before which each ends.
    pub ends: &'a [u32],
    /// From the B of one to that of the next, in elements.
    pub b_stride: usize,
}

/// What a kernel is given besides the operands.
struct Extras<'a, T: GemmTypes> {
    fused: Option<Fused<'a, T>>,
    groups: Option<RowGroups<'a>>,
    splitting: Splitting,
}

/// How a kernel that multiplies limbs is given them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Splitting {
    /// The factor whose limbs a plan of its own makes first.
    pub kept: Option<Operand>,
    /// How many rows and columns are split at a time, where that is not for the plan to decide. All of a factor that is
    /// kept.
    pub panel: Option<Panel>,
}

impl<T: GemmTypes> Extras<'_, T> {
    const NONE: Self =
        Self { fused: None, groups: None, splitting: Splitting { kept: None, panel: None } };
}

/// As [`run_with`], by a kernel that fuses an epilogue. The epilogue's numbers are as many as it reads.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// Where the kernel fuses none.
pub fn run_fused<T: ScalarTypes>(
    options: Options,
    spec: Kernel,
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    fused: Fused<'_, T>,
) -> Result<(), Error> {
    assert!(spec.fuses, "{} fuses no epilogue", spec.id);
    let extras = Extras { fused: Some(fused), ..Extras::NONE };
    run_kernel((options, None), spec, problem, a, b, c, extras)
}

/// As [`run_fused`], of products that have groups of the problem's rows.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// Where the kernel takes no groups, or there are fewer elements of B than the products have.
pub fn run_groups<T: ScalarTypes>(
    options: Options,
    spec: Kernel,
    problem: &Problem<T>,
    (a, b): (&[T::A], &[T::B]),
    c: &mut [T::C],
    groups: RowGroups<'_>,
    fused: Fused<'_, T>,
) -> Result<(), Error> {
    assert!(spec.row_groups, "{} takes no groups of rows", spec.id);
    let extras = Extras { fused: Some(fused), groups: Some(groups), ..Extras::NONE };
    run_kernel((options, None), spec, problem, a, b, c, extras)
}

/// As [`run_with`], by a kernel that multiplies limbs.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// Where the kernel multiplies no limbs.
pub fn run_split<T: ScalarTypes>(
    options: Options,
    spec: Kernel,
    problem: &Problem<T>,
    (a, b): (&[T::A], &[T::B]),
    c: &mut [T::C],
    splitting: Splitting,
) -> Result<(), Error> {
    let extras = Extras { splitting, ..Extras::NONE };
    run_kernel((options, None), spec, problem, a, b, c, extras)
}

fn run_kernel<T: ScalarTypes>(
    (options, observer): (Options, Option<&dyn Observer>),
    spec: Kernel,
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    Extras { fused, groups, splitting: Splitting { kept, panel } }: Extras<'_, T>,
) -> Result<(), Error> {
    problem.check_buffers(a.len(), b.len(), c.len())?;
    let refused =
        |reason| Error::from(tessera::Error::Unsupported { kernel: spec.spec().id, reason });
    let [a_len, b_len, c_len] = [
        problem.required_len(Operand::A)?,
        problem.required_len(Operand::B)?,
        problem.required_len(Operand::C)?,
    ];
    let count = groups.map_or(1, |groups| groups.ends.len());
    let b_len = b_len + groups.map_or(0, |groups| (count.max(1) - 1) * groups.b_stride);
    let (a, b, c) = (&a[..a_len], &b[..b_len], &mut c[..c_len]);
    // What may not be read is what nobody has written.
    let apart = fused.as_ref().is_some_and(|fused| fused.old.is_some());
    let reads_factors = problem.alpha != T::Acc::ZERO;
    let device_scalars = fused.as_ref().is_some_and(|fused| fused.epilogue.device_scalars);
    let reads_c = (problem.beta != T::Acc::ZERO || device_scalars) && !apart;
    let operand = |buffer: Buffer, number: usize, which: Operand, is_read: bool| {
        let (rows, cols) = problem.dims(which);
        let (layout, size) = (problem.layout(which), T::TYPES.of(which).size());
        let line = if layout.order == Order::RowMajor { cols } else { rows };
        let buffer = buffer.in_window(number);
        // Several matrices have no pitch of their own, and where there is nothing between lines they may be read
        // as one piece.
        let grouped = matches!(
            spec.spec().operands,
            OperandAccess::Batched(BatchShare::Threads | BatchShare::Warps)
        );
        let in_one_piece = grouped && line == layout.ld;
        let several = !problem.batch.is_one() || which == Operand::B && count > 1;
        let buffer = if !several && !in_one_piece {
            buffer.with_lines(line * size, layout.ld * size)
        } else {
            buffer
        };
        if is_read { buffer } else { buffer.unwritten() }
    };
    // What is kept is made whatever alpha is.
    let reads = |factor| reads_factors || kept == Some(factor);
    let a_buffer = operand(Buffer::input("A", a), 0, Operand::A, reads(Operand::A));
    let b_buffer = operand(Buffer::input("B", b), 1, Operand::B, reads(Operand::B));
    let c_buffer = operand(Buffer::output("C", c), 2, Operand::C, reads_c);
    // Exposed after the last borrow: what is accessed in the buffers is borrowed by nobody else.
    let _ = (a.as_ptr().expose_provenance(), b.as_ptr().expose_provenance());
    let _ = c.as_mut_ptr().expose_provenance();
    let addresses = Addresses {
        a: a_buffer.address as u64,
        b: b_buffer.address as u64,
        c: c_buffer.address as u64,
    };
    let band = Band::whole(problem.m);
    let limits = DeviceLimits { multiprocessors: options.multiprocessors, ..LIMITS };
    let launched = match groups {
        Some(RowGroups { ends, b_stride }) => {
            problem.with_batch(Batch { count: ends.len(), a_stride: 0, b_stride, c_stride: 0 })
        }
        None => *problem,
    };
    let planner = Planner::new(spec.spec(), &launched, addresses, &limits, band)
        .map_err(refused)?
        .with_ranges(DeviceModel::new(limits, 0).ranges(spec.spec(), problem));
    let (mut planner, mut numbers) = match fused {
        Some(fused) => {
            let (fused, numbers) = fused.placed(problem, addresses.c);
            (planner.with_fused(fused), numbers)
        }
        None => (planner, Vec::new()),
    };
    if let Some(RowGroups { ends, .. }) = groups {
        let _ = ends.as_ptr().expose_provenance();
        let ends = Buffer::input("the ends of groups", ends).in_window(10);
        planner = planner.with_row_groups(ends.address as u64);
        numbers.push(ends);
    }
    if let Some(panel) = panel {
        planner = planner.with_panel(panel);
    }
    // What no step has written is no number that a product could give.
    let unwritten = |bytes: u64| vec![0x7fd0_dead_7fd0_dead_u64; in_memory(bytes.div_ceil(8))];
    let mut limbs = Vec::new();
    let mut steps = Vec::new();
    if let Some(factor) = kept {
        limbs = unwritten(planner.kept_bytes(factor).expect("the kernel multiplies limbs"));
        let buffer = Buffer::output("what is kept", &mut limbs).in_window(11).unwritten();
        let address = buffer.address as u64;
        numbers.push(buffer);
        steps.extend(planner.keep(factor, address).steps);
        planner = planner.with_kept(Kept { factor, address });
    }
    let mut workspace = unwritten(planner.workspace_bytes());
    let workspace_buffer = Buffer::output("workspace", &mut workspace).in_window(3).unwritten();
    let _ = (workspace.as_mut_ptr().expose_provenance(), limbs.as_mut_ptr().expose_provenance());
    steps.extend(planner.plan(workspace_buffer.address as u64).map_err(refused)?.steps);
    let buffers = [a_buffer, b_buffer, c_buffer, workspace_buffer];
    let holding = |address: usize| {
        let holds = |buffer: &&Buffer| address.wrapping_sub(buffer.address) < buffer.bytes;
        let found = buffers.iter().chain(&numbers).find(holds);
        found.expect("invariant: a plan writes what it was given")
    };
    for step in &steps {
        match step {
            &Step::Fill { address, bytes, value } => {
                let (address, bytes) = (in_memory(address), in_memory(bytes));
                let buffer = holding(address);
                let to = with_exposed_provenance_mut::<u8>(buffer.in_memory(address));
                // SAFETY: a part of the workspace or of what is kept, by the plan; nothing else uses it now.
                unsafe { to.write_bytes(value, bytes) };
                buffer.note_written(address, bytes);
            }
            &Step::Copy { from, to, bytes } => {
                let [from, to, bytes] = [from, to, bytes].map(in_memory);
                let source = with_exposed_provenance::<u8>(holding(from).in_memory(from));
                let buffer = holding(to);
                let target = with_exposed_provenance_mut::<u8>(buffer.in_memory(to));
                // SAFETY: from what is kept to the workspace, by the plan; nothing else uses them now.
                unsafe { target.copy_from_nonoverlapping(source, bytes) };
                buffer.note_written(to, bytes);
            }
            Step::Launch(launch) => {
                let buffers = buffers.iter().chain(&numbers).cloned();
                let shape = buffers.fold(shape(launch, spec.spec()), Launch::with_buffer);
                let shape = Launch {
                    checked: options.checked,
                    skip_barrier: options.skip_barrier,
                    defect: options.defect,
                    order: options.order,
                    strict: options.strict,
                    ..shape
                };
                // SAFETY: the operands are in the buffers, which were checked against the problem and
                // are borrowed until this returns, C exclusively; the workspace is as large as the plan
                // asks for; grid, block and shared memory are the plan's.
                let call = unsafe { call(launch) };
                match observer {
                    None => emulate::run(&shape, || call.call()),
                    Some(observer) => emulate::run_observed(&shape, observer, || call.call()),
                }
                .map_err(|fault| Error::Emulation {
                    kernel: spec.spec().id,
                    fault: Box::new(fault),
                })?;
            }
        }
    }
    Ok(())
}

impl<T: GemmTypes> Fused<'_, T> {
    /// The same in buffers of a launch whose C is at an address.
    fn placed(self, problem: &Problem<T>, c: u64) -> (plan::Fused, Vec<Buffer>) {
        let Self { epilogue, old, bias, row_scales, column_scales, amax, .. } = self;
        let Self { scalars, bias_stride, .. } = self;
        let (old, old_ld) = old.unwrap_or((&[], problem.c.ld));
        let _ = (old.as_ptr().expose_provenance(), bias.as_ptr().expose_provenance());
        let _ = row_scales.as_ptr().expose_provenance();
        let _ = (column_scales.as_ptr().expose_provenance(), scalars.as_ptr().expose_provenance());
        let mut buffers = vec![
            Buffer::input("the old C", old).in_window(4),
            Buffer::input("the bias", bias).in_window(5),
            Buffer::input("the row scales", row_scales).in_window(6),
            Buffer::input("the column scales", column_scales).in_window(7),
            Buffer::output("the largest magnitude", amax.as_mut_slice()).in_window(8),
            Buffer::input("alpha and beta", scalars).in_window(9),
        ];
        let _ = amax.as_mut_ptr().expose_provenance();
        let [of_old, bias, row_scales, column_scales, amax, scalars] =
            [0, 1, 2, 3, 4, 5].map(|at: usize| buffers[at].address as u64);
        let old = if old.is_empty() {
            buffers.remove(0);
            Old { address: c, ld: problem.c.ld, stride: problem.batch.c_stride }
        } else {
            Old { address: of_old, ld: old_ld, stride: 0 }
        };
        let fused = plan::Fused {
            epilogue,
            old,
            bias,
            bias_stride,
            row_scales,
            column_scales,
            amax,
            scalars,
        };
        (fused, buffers)
    }
}

/// An address or a length of a plan, whose operands and workspace are in this process's memory.
fn in_memory(number: u64) -> usize {
    usize::try_from(number).expect("invariant: what is in memory has an address")
}

/// The shape of a launch of a plan with that kernel.
fn shape<T: GemmTypes>(launch: &plan::Launch<T>, spec: &KernelSpec) -> Launch {
    let (grid, block) = (launch.grid, launch.block);
    let shape = Launch::new((grid.x, grid.y, grid.z), (block.x, block.y, 1))
        .with_shared_bytes(launch.shared_bytes as usize);
    let shape = Launch { cluster: launch.cluster, ..shape };
    match &launch.arguments {
        Arguments::Tma(tma) => with_maps(shape, &tma.maps),
        Arguments::TmaSimt(tma) => with_maps(shape, &tma.maps),
        Arguments::Limbs(_) | Arguments::Fallback(_) => shape.asynchronous(),
        Arguments::Batched(_)
            if matches!(spec.operands, OperandAccess::Batched(BatchShare::Limbs)) =>
        {
            shape.asynchronous()
        }
        Arguments::Gemm(_)
        | Arguments::Batched(_)
        | Arguments::SumRanges(_)
        | Arguments::Pad(_)
        | Arguments::SplitKMajor(_)
        | Arguments::RowAmax(_)
        | Arguments::SplitMnMajor(_)
        | Arguments::Probe(_)
        | Arguments::RowExponents(_) => shape,
    }
}

/// The same with the maps that are the entry's first parameters.
fn with_maps(shape: Launch, maps: &[MapDesc]) -> Launch {
    let map = |map: &MapDesc| TensorMap {
        address: in_memory(map.address),
        element_bytes: map.dtype.size(),
        dims: map.dims,
        pitch: map.pitch,
        matrices: map
            .matrices
            .map(|plan::Matrices { count, stride }| emulate::Matrices { count, stride }),
        box_dims: map.box_dims,
        swizzle: match map.swizzle {
            plan::Swizzle::None => emulate::Swizzle::None,
            plan::Swizzle::B128 => emulate::Swizzle::B128,
        },
    };
    Launch { maps: maps.iter().map(map).collect(), ..shape.asynchronous() }
}

/// The entry of a launch with its arguments.
///
/// # Safety
/// The entry's obligations hold for them as long as it is called.
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one argument for every list of parameters"
)]
unsafe fn call<T: GemmTypes>(launch: &plan::Launch<T>) -> EmulatedCall {
    let entry = kernels_gpu::emulated_entry(launch.symbol)
        .expect("invariant: each entry of a kernel is also a function");
    // SAFETY: the plan's parameters for this entry, for which its obligations hold as long as it is called; the maps
    // among them are the launch's.
    let call = unsafe {
        match &launch.arguments {
            Arguments::Gemm(params) => EmulatedCall::new(entry, *params),
            Arguments::Batched(params) => EmulatedCall::new(entry, *params),
            Arguments::SumRanges(params) => EmulatedCall::new(entry, *params),
            Arguments::Tma(tma) => EmulatedCall::new(entry, tma.params),
            Arguments::TmaSimt(tma) => EmulatedCall::new(entry, tma.params),
            Arguments::Limbs(params) => EmulatedCall::new(entry, *params),
            Arguments::Pad(params) => EmulatedCall::new(entry, *params),
            Arguments::SplitKMajor(params) => EmulatedCall::new(entry, *params),
            Arguments::RowAmax(params) => EmulatedCall::new(entry, *params),
            Arguments::SplitMnMajor(params) => EmulatedCall::new(entry, *params),
            Arguments::Probe(params) => EmulatedCall::new(entry, *params),
            Arguments::RowExponents(params) => EmulatedCall::new(entry, *params),
            Arguments::Fallback(params) => EmulatedCall::new(entry, *params),
        }
    };
    call.expect("invariant: a plan pairs an entry with its parameters")
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use cuda_std::emulate::{Access, AccessKind, EmulationError};
    use gemm_spec::{Layout, Operand, Unsupported};
    use kernels_gpu::KERNELS;

    use super::*;
    use crate::scalar::Scalar;

    #[test]
    fn every_kernel_of_integers_gives_the_product_of_padded_operands() {
        let (m, n, k) = (5, 7, 9);
        let problem = Problem::<i32>::new(m, n, k).with_scalars(2, -1).with_layouts(
            Layout::row_major(k + 1),
            Layout::row_major(n + 2),
            Layout::row_major(n + 3),
        );
        let a: Vec<i32> = (0..60).map(|at| at % 11 - 5).collect();
        let b: Vec<i32> = (0..90).map(|at| at % 13 - 6).collect();
        let before: Vec<i32> = (0..60).map(|at| 1000 + at).collect();
        for spec in KERNELS.iter().copied().filter(|spec| spec.entry(gemm_spec::Types::I32).is_ok())
        {
            let mut c = before.clone();
            run(spec, &problem, &a, &b, &mut c).unwrap();
            for (at, &value) in c.iter().enumerate() {
                let (row, col) = (at / (n + 3), at % (n + 3));
                let inside = row < m && col < n;
                let sum: i32 = (0..k)
                    .filter(|_| inside)
                    .map(|step| a[row * (k + 1) + step] * b[step * (n + 2) + col])
                    .sum();
                let want = if inside { 2 * sum - before[at] } else { before[at] };
                assert_eq!(value, want, "{} at ({row}, {col})", spec.id);
            }
        }
    }

    /// The source line of an access, which must be one of the tiled kernel.
    fn source(access: &Access) -> &'static str {
        let at = access.site.at;
        assert!(at.file().ends_with("kernels-gpu/src/tiled.rs"), "{at}");
        let text = include_str!("../../kernels-gpu/src/tiled.rs");
        text.lines().nth(at.line() as usize - 1).unwrap_or_default()
    }

    /// Runs a tiled kernel on three tiles of k with one barrier skipped.
    fn skipping<T: ScalarTypes<A = T, B = T, C = T> + Scalar>(
        spec: Kernel,
        barrier: u32,
    ) -> Option<EmulationError> {
        let side = spec.launch.tile()?.m as usize;
        let problem = Problem::<T>::new(side, side, 3 * side);
        let (a, b) = (vec![T::ONE; 3 * side * side], vec![T::ONE; 3 * side * side]);
        let mut c = vec![T::ZERO; side * side];
        let options = Options { skip_barrier: Some(barrier), ..Options::default() };
        match run_with(options, spec, &problem, &a, &b, &mut c) {
            Ok(()) => None,
            Err(Error::Emulation { fault, .. }) => Some(*fault),
            Err(error) => panic!("{error}"),
        }
    }

    /// Each barrier of each tiled kernel, taken away, is a race between the write of a tile and its
    /// use, at the lines of the two. Only after the very last is nothing left to order.
    #[test]
    fn no_barrier_of_the_tiled_kernels_can_be_missed() {
        for spec in KERNELS.iter().copied().filter(|spec| spec.id.starts_with("tiled")) {
            for (barrier, kinds) in [
                // Before use: the reader is ahead of the writer.
                (0, (AccessKind::Read, AccessKind::Write)),
                (2, (AccessKind::Read, AccessKind::Write)),
                (4, (AccessKind::Read, AccessKind::Write)),
                // Before overwrite: the writer is ahead of the reader.
                (1, (AccessKind::Write, AccessKind::Read)),
                (3, (AccessKind::Write, AccessKind::Read)),
            ] {
                let found = [
                    skipping::<f32>(spec, barrier),
                    skipping::<f64>(spec, barrier),
                    skipping::<i32>(spec, barrier),
                ];
                for found in found {
                    let Some(EmulationError::Race { first, second, .. }) = found else {
                        panic!("{}, barrier {barrier}: {found:?}", spec.id);
                    };
                    assert_eq!((first.kind, second.kind), kinds, "{} {barrier}", spec.id);
                    assert_ne!(first.site.thread, second.site.thread);
                    for access in [first, second] {
                        let code = match access.kind {
                            AccessKind::Read => ".read()",
                            AccessKind::Write | AccessKind::Atomic => "_slot.write(",
                        };
                        assert!(source(&access).contains(code), "{access}");
                    }
                }
            }
            assert_eq!(skipping::<f32>(spec, 5), None, "{}", spec.id);
        }
    }

    /// A stage of the asynchronous kernels is read before it has landed for all, or filled while
    /// others read it, where a barrier is missing.
    #[test]
    fn no_barrier_of_the_asynchronous_kernels_can_be_missed() {
        for spec in KERNELS.iter().copied().filter(|spec| spec.id.starts_with("async_copy")) {
            let tile = spec.launch.tile().unwrap();
            let (m, n) = (tile.m as usize, tile.n as usize);
            // Rounds of up to 16 steps, and steps of no whole tile at the end.
            for (k, barriers) in [(51, &[0, 1, 2, 5][..]), (19, &[0][..])] {
                let problem = Problem::<f32>::new(m, n, k);
                let (a, b, mut c) = (vec![1.0; m * k], vec![1.0; k * n], vec![0.0; m * n]);
                let mut run = |skip_barrier| {
                    let options = Options { skip_barrier, ..Options::default() };
                    run_with(options, spec, &problem, &a, &b, &mut c)
                };
                run(None).unwrap();
                for &barrier in barriers {
                    let found = run(Some(barrier)).unwrap_err();
                    let Error::Emulation { fault, .. } = found else { panic!("{found}") };
                    let expected = matches!(
                        *fault,
                        EmulationError::Race { .. }
                            | EmulationError::PendingCopy { .. }
                            | EmulationError::Uninitialised { .. }
                    );
                    assert!(expected, "{} k = {k}, barrier {barrier}: {fault}", spec.id);
                }
            }
        }
    }

    /// The sums of slices take the place of the stages and are read by others: one range of k, which is
    /// one stage or the rest of one, then the barriers before and after the sums.
    #[test]
    fn no_barrier_around_the_sums_of_slices_can_be_missed() {
        for (id, barriers) in [
            ("split_k_32x64", [1, 2, 3]),
            ("split_k_64x64", [0, 2, 3]),
            ("split_k_32x128", [0, 2, 3]),
        ] {
            let spec = KERNELS.iter().copied().find(|spec| spec.id == id).unwrap();
            let tile = spec.launch.tile().unwrap();
            let (m, n, k) = (tile.m as usize, tile.n as usize, 16);
            let problem = Problem::<f32>::new(m, n, k);
            let (a, b, mut c) = (vec![1.0; m * k], vec![1.0; k * n], vec![0.0; m * n]);
            let mut run = |skip_barrier| {
                let options = Options { skip_barrier, ..Options::default() };
                run_with(options, spec, &problem, &a, &b, &mut c)
            };
            run(None).unwrap();
            for barrier in barriers {
                let found = run(Some(barrier)).err();
                assert!(matches!(found, Some(Error::Emulation { .. })), "{id}, barrier {barrier}");
            }
        }
    }

    /// What the checks cost and how a report reads, for `docs/emulator.md`.
    #[test]
    #[ignore = "a measurement: run it alone, with --nocapture"]
    fn cost_of_the_checks() {
        const N: usize = 256;
        /// Of each kind, in turn.
        const RUNS: usize = 7;
        let spec = KERNELS.iter().copied().find(|spec| spec.id == "tiled32").unwrap();
        let problem = Problem::<f32>::new(N, N, N);
        let (a, b, mut c) = (vec![1.0; N * N], vec![1.0; N * N], vec![0.0; N * N]);
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..RUNS {
            for (times, checked) in times.iter_mut().zip([false, true]) {
                let started = Instant::now();
                let options = Options { checked, ..Options::default() };
                run_with(options, spec, &problem, &a, &b, &mut c).unwrap();
                times.push(started.elapsed());
            }
        }
        for (mut times, checked) in times.into_iter().zip(["without checks", "with checks"]) {
            times.sort_unstable();
            let (median, least, most) = (times[RUNS / 2], times[0], times[RUNS - 1]);
            println!(
                "tiled32 f32 n={N}, {checked}: {median:.2?}, the median of {RUNS} runs from {least:.2?} to {most:.2?}"
            );
        }
        assert!(c.iter().all(|&value| value == N as f32));
        let options = Options { skip_barrier: Some(1), ..Options::default() };
        let report = run_with(options, spec, &problem, &a, &b, &mut c).unwrap_err();
        println!("its second barrier missing: {report}");
    }

    #[test]
    fn what_a_kernel_cannot_do_leaves_c_alone() {
        let spec = KERNELS.iter().copied().find(|spec| spec.id == "single_block").unwrap();
        let mut c = vec![7f32; 33 * 32];
        let wide = Problem::<f32>::new(33, 32, 1);
        let refused = run(spec, &wide, &[1.0; 33], &[1.0; 32], &mut c);
        assert!(matches!(
            refused,
            Err(Error::Product {
                error: tessera::Error::Unsupported { reason: Unsupported::SingleBlock { .. }, .. }
            })
        ));
        let transposed = Problem { b: Layout::col_major(4), ..Problem::<f32>::new(4, 4, 4) };
        assert!(matches!(
            run(spec, &transposed, &[1.0; 16], &[1.0; 16], &mut c),
            Err(Error::Product {
                error: tessera::Error::Unsupported {
                    reason: Unsupported::Order { operand: Operand::B },
                    ..
                }
            })
        ));
        assert!(matches!(
            run(spec, &Problem::<f32>::new(4, 4, 4), &[1.0; 15], &[1.0; 16], &mut c),
            Err(Error::Product { error: tessera::Error::Shape(_) })
        ));
        assert!(c.iter().all(|&value| value == 7.0));
    }
}
