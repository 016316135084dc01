//! Products whose operands are on the device already: picked and loaded once, launched often.

mod given;
mod prepared;

use std::fmt;
use std::sync::Arc;

use cuda_lazy::{CaptureMode, DevicePtr, FunctionAttribute, LineCopy, RawStream};
use gemm_spec::plan::{Addresses, Band, Fused, Kept, Old, Planner};
use gemm_spec::{Activation, Arch, Bias, Epilogue, Unsupported, with_gemm_types};
use kernels_gpu::{Kernel, Module};

use self::given::Given;
use super::choice::{Choice, Exchange};
use super::context::Context;
use super::desc::{Described, GemmBatch, GemmDesc, Preparation};
use super::finish::{Finished, sums_bytes, without_epilogue};
use super::launch::Launcher;
use super::operands::{EpilogueOperands, Operands, PlanLimits, Workspace};
use super::refused;
use crate::accuracy::Accuracy;
use crate::element::GemmTypes;
use crate::error::Error;
use crate::operand_fault::OperandFault;

/// What holds for each result of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// Whether each element of D is one chain of fused multiply-adds over k in order, rounded once, so that
    /// its bits are those of every other kernel that promises this, and up to k = 128 those of the CPU engine, whose
    /// chains are no longer.
    pub is_chain: bool,
    /// The strictest contract that the kernel keeps.
    pub accuracy: Accuracy,
    /// Ranges of k that are summed apart and added in order.
    pub ranges: u32,
}

impl fmt::Display for Promises {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match (self.is_chain, self.ranges) {
            (true, _) => "one chain of fused multiply-adds over k".to_owned(),
            (false, 1) => "sums in an order of the kernel's own".to_owned(),
            (false, ranges) => format!("sums of {ranges} ranges of k, added in order"),
        };
        write!(f, "{order}; {} accuracy; the same bits each time", self.accuracy)
    }
}

/// A product on the device, ready to be launched: the kernel is picked, its code is loaded.
///
/// What is picked is a pure function of the descriptor, the device and the limits. It depends neither on how
/// much memory is free nor on addresses or streams: two plans of the same descriptor on devices of one kind
/// give the same bits.
///
/// [`Plan::run`] launches and does no more, so that it can be captured in a CUDA graph. A plan is cheap to
/// clone, any number of threads may run it at once, and it keeps its context's modules alive.
///
/// ```no_run
/// // Not run: it needs a GPU. docs/embed.md has the whole program.
/// use tessera::Types;
/// use tessera::gpu::{Context, GemmDesc, Plan, PlanLimits, Workspace};
///
/// let context = Context::current()?;
/// let plan = Plan::new(&context, GemmDesc::new(Types::F32, 64, 64, 64), PlanLimits::default())?;
/// # let (a, b, d, workspace, stream) = (0, 0, 0, Workspace::NONE, std::ptr::null_mut());
/// // SAFETY: A, B and D are matrices of 64 x 64 that nothing but this stream's work uses.
/// unsafe { plan.run(stream, a, b, 0, d, workspace)? };
/// # Ok::<(), tessera::Error>(())
/// ```
#[derive(Clone)]
pub struct Plan(Arc<Planned>);

/// Threads may share a plan.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Plan>();
};

struct Planned {
    context: Context,
    desc: GemmDesc,
    limits: PlanLimits,
    carried: Carried,
}

/// How a product is carried out.
enum Carried {
    /// By launches of a kernel, which do all of it.
    Whole(Box<Choice>),
    /// By a plan without its epilogue, and a launch that finishes its sums.
    Finished(Finished),
}

impl Plan {
    /// Picks the kernel for a product and has the driver load it, which may take seconds where it compiles
    /// PTX. It may be called while a stream is captured: nothing is put into any stream.
    ///
    /// # Errors
    /// [`Error::Descriptor`] where layouts, strides and scalars do not fit, [`Error::NoKernel`] where no
    /// kernel computes such a product within the limits, and what loading a kernel may answer.
    pub fn new(context: &Context, desc: GemmDesc, limits: PlanLimits) -> Result<Self, Error> {
        Self::make(context, desc, limits, None)
    }

    /// The same for one kernel, whether it suits the product or not.
    ///
    /// # Errors
    /// As [`Plan::new`]; [`Error::Unsupported`] where the kernel cannot compute such a product,
    /// [`Error::Accuracy`] where it does not keep to the descriptor's accuracy.
    pub fn with_kernel(
        context: &Context,
        desc: GemmDesc,
        limits: PlanLimits,
        kernel: Kernel,
    ) -> Result<Self, Error> {
        Self::make(context, desc, limits, Some(kernel))
    }

    fn make(
        context: &Context,
        desc: GemmDesc,
        limits: PlanLimits,
        kernel: Option<Kernel>,
    ) -> Result<Self, Error> {
        let misfit = |reason| Error::Descriptor { plan: desc.to_string(), reason };
        desc.check().map_err(misfit)?;
        if !limits.alignment.is_power_of_two() {
            let reason =
                format!("the alignment is {}, and must be a power of two", limits.alignment);
            return Err(misfit(reason));
        }
        let carried = if fuses(&desc, kernel) {
            let choice = with_gemm_types!(desc.types, T => {
                Choice::new::<T>(context, &desc, limits, kernel)
            })?;
            let exchanges = choice.product.exchanged.iter().any(Option::is_some)
                || desc.reads_c() && desc.c.order != desc.d.order;
            load(context, choice.kernel, exchanges)?;
            Carried::Whole(Box::new(choice))
        } else {
            Carried::Finished(Self::finished(context, &desc, limits, kernel)?)
        };
        Ok(Self(Arc::new(Planned { context: context.clone(), desc, limits, carried })))
    }

    /// The product without its epilogue, by a kernel that does not fuse one, and what finishes it.
    fn finished(
        context: &Context,
        desc: &GemmDesc,
        limits: PlanLimits,
        kernel: Option<Kernel>,
    ) -> Result<Finished, Error> {
        let (plain, sums_apart) = without_epilogue(desc);
        let sums_apart = if sums_apart { Some(sums_bytes(&plain)?) } else { None };
        let rest = limits.workspace.saturating_sub(sums_apart.unwrap_or(0));
        let within = PlanLimits { workspace: rest, ..limits };
        let product = Self::make(context, plain, within, kernel)?;
        let finished = Finished::new(desc, product, sums_apart)?;
        let (bytes, needed) = (limits.workspace, finished.workspace_bytes());
        if needed > bytes {
            let plan = format!("{desc} on {context:?}");
            let fault = OperandFault::TooShort { bytes, needed };
            return Err(Error::DeviceOperand { plan, operand: "the workspace", fault });
        }
        load_common(context, &[finished.entry.symbol])?;
        Ok(finished)
    }

    /// The product.
    #[must_use]
    pub fn desc(&self) -> &GemmDesc {
        &self.0.desc
    }

    /// Where it runs.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    /// The kernel that computes it.
    #[must_use]
    pub fn kernel(&self) -> Kernel {
        self.0.choice().kernel
    }

    /// Bytes of device memory that a run needs besides its operands. Runs that may overlap each other need
    /// one each.
    #[must_use]
    pub fn workspace_bytes(&self) -> u64 {
        self.0.workspace_bytes()
    }

    /// What holds for its results.
    #[must_use]
    pub fn promises(&self) -> Promises {
        let spec = self.kernel().spec();
        let strict = Accuracy::Componentwise;
        Promises {
            is_chain: spec.is_chain(),
            accuracy: if strict.admits(spec) { strict } else { Accuracy::Fp32 },
            ranges: self.0.choice().product.ranges,
        }
    }

    /// The plan in words, one line for each thing that can be said of it.
    #[must_use]
    pub fn explain(&self) -> String {
        let Planned { context, desc, limits, .. } = &*self.0;
        let choice = self.0.choice();
        let spec = choice.kernel.spec();
        let products = desc.batch.count();
        let launched = choice.product.launched.batch.count();
        let how = match (products, launched) {
            (1, _) => "one product".to_owned(),
            _ if choice.product.batch(spec).count > 1 => {
                format!("{products} products in one launch")
            }
            (_, 1) => format!("{products} products as one of {} rows", choice.product.launched.m),
            _ => format!("{products} products, one after the other"),
        };
        let names = if choice.swapped { ["B", "A"] } else { ["A", "B"] };
        let exchanged = names.into_iter().zip(&choice.product.exchanged);
        let exchanged = exchanged.filter_map(|(name, exchange)| exchange.as_ref().map(|_| name));
        let how = exchanged.fold(how, |how, name| how + ", " + name + " brought into rows first");
        let how = match &self.0.carried {
            Carried::Whole(_) => how,
            Carried::Finished(finished) => how + ", then " + finished.entry.symbol,
        };
        let how = match desc.prepared {
            Some(prepared) => format!("{how}, with {prepared} made before"),
            None => how,
        };
        let epilogue = words(desc.epilogue);
        format!(
            "product: {desc} on {context:?}\n\
             kernel: {}, {}\n\
             launches: {how}\n\
             epilogue: {epilogue}\n\
             promises: {}\n\
             workspace: {} bytes\n\
             alignment: {} bytes",
            spec.id,
            spec.about,
            self.promises(),
            self.workspace_bytes(),
            limits.alignment,
        )
    }

    /// Queues `D = alpha * A * B + beta * C` in a stream and returns without waiting. It only launches: it
    /// allocates no device memory, waits for nothing, holds no lock, and leaves the calling thread's current
    /// context as it was. A C apart from D is copied to D first.
    ///
    /// Any stream of the context will do: one of another library's, the legacy default stream (null or 0x1),
    /// that of the calling thread (0x2), and one that is being captured.
    ///
    /// # Errors
    /// [`Error::DeviceOperand`] where an address is null or not aligned or the workspace is too short, with
    /// nothing launched; [`Error::Cuda`] where the driver refuses. A kernel that fails while it runs shows in
    /// a later call, of this library or of another: such faults stay with the context, and every call after
    /// it answers with the same code.
    ///
    /// # Safety
    /// 1. The addresses are valid in the plan's context for the matrices of its descriptor. D overlaps neither
    ///    A nor B, and C only where it is D.
    /// 2. The workspace is as long as it says, and nothing but the stream's work uses it.
    /// 3. `stream` is a stream of the context. Until its work is over nobody writes A, B or C, or reads or
    ///    writes D, but work that the stream orders. The same holds for each launch of a graph that it is
    ///    captured for.
    pub unsafe fn run(
        &self,
        stream: RawStream,
        a: DevicePtr,
        b: DevicePtr,
        c: DevicePtr,
        d: DevicePtr,
        workspace: Workspace,
    ) -> Result<(), Error> {
        let operands = [Operands { a, b, c, d }];
        // SAFETY: the caller's promises.
        unsafe { self.0.run(stream, Given::new(&operands), workspace) }
    }

    /// The same with the numbers of the descriptor's [epilogue](GemmDesc::epilogue), which all products have
    /// in common. `operands` has one element, or of a batch of [pointers](GemmBatch::Pointers) as many as there
    /// are products.
    ///
    /// # Errors
    /// As [`Plan::run`] and [`Plan::run_array`], of the epilogue's addresses as well.
    ///
    /// # Safety
    /// As [`Plan::run`] and [`Plan::run_array`]; and the epilogue's addresses are valid for the numbers that
    /// it has. D overlaps none of them.
    pub unsafe fn run_with(
        &self,
        stream: RawStream,
        operands: &[Operands],
        epilogue: EpilogueOperands,
        workspace: Workspace,
    ) -> Result<(), Error> {
        let given = Given { numbers: epilogue, ..Given::new(operands) };
        // SAFETY: the caller's promises.
        unsafe { self.0.run(stream, given, workspace) }
    }

    /// The same for [groups of rows](GemmBatch::RowGroups): at `ends` are as many `u32` on the device as there are
    /// products, the rows before which each group ends. A group begins where the one before it ends, the first at
    /// row 0, and may be empty. Rows behind the last group are not written. An end beyond m counts as m, one before
    /// its group's beginning as that.
    ///
    /// # Errors
    /// As [`Plan::run`], of the epilogue's addresses and that of the ends as well.
    ///
    /// # Safety
    /// As [`Plan::run_with`]; and the ends are valid for a `u32` for each product. Until the work is over
    /// nobody writes them but work that the stream orders.
    pub unsafe fn run_groups(
        &self,
        stream: RawStream,
        ends: DevicePtr,
        operands: Operands,
        epilogue: EpilogueOperands,
        workspace: Workspace,
    ) -> Result<(), Error> {
        let operands = [operands];
        let given = Given { numbers: epilogue, ends: Some(ends), ..Given::new(&operands) };
        // SAFETY: the caller's promises.
        unsafe { self.0.run(stream, given, workspace) }
    }

    /// The same for a batch of [pointers](GemmBatch::Pointers): each product has addresses of its own.
    ///
    /// # Errors
    /// As [`Plan::run`], and [`Error::DeviceOperand`] where there are more or fewer than the products of the
    /// descriptor. All addresses are checked before anything is launched.
    ///
    /// # Safety
    /// As [`Plan::run`] for the addresses of each product; no D overlaps an operand of another product.
    pub unsafe fn run_array(
        &self,
        stream: RawStream,
        operands: &[Operands],
        workspace: Workspace,
    ) -> Result<(), Error> {
        let planned = &*self.0;
        if !matches!(planned.desc.batch, GemmBatch::Pointers { .. }) {
            let (given, products) = (operands.len(), planned.desc.batch.count());
            return Err(planned.fault("addresses", OperandFault::Count { given, products }));
        }
        // SAFETY: the caller's promises.
        unsafe { planned.run(stream, Given::new(operands), workspace) }
    }

    /// Asks the driver whether operands and workspace are what [`Plan::run`] needs: memory of this device,
    /// as long as the matrices. It is for programs that want to know before they run; a run itself asks
    /// nothing.
    ///
    /// # Errors
    /// [`Error::DeviceOperand`] for the first that is not, and [`Error::Cuda`].
    pub fn check(&self, operands: Operands, workspace: Workspace) -> Result<(), Error> {
        let planned = &*self.0;
        if planned.desc.is_empty() {
            return Ok(());
        }
        planned.check_workspace(workspace)?;
        planned.check_addresses(operands)?;
        let count = planned.desc.batch.at_an_address();
        for (matrix, address) in planned.desc.matrices().iter().zip(operands.in_order()) {
            if matrix.used {
                let bytes = matrix.extent(count)? as u64;
                planned.check_memory(matrix.name, address, bytes)?;
            }
        }
        let needed = planned.workspace_bytes();
        match needed {
            0 => Ok(()),
            _ => planned.check_memory("the workspace", workspace.address, needed),
        }
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.name())
    }
}

/// Has the driver load a kernel, and what copies operands to rows, whatever is being captured meanwhile.
fn load(context: &Context, kernel: Kernel, exchanges: bool) -> Result<(), Error> {
    let during = || refused(format!("loading {}", kernel.spec().id));
    // A driver that loads lazily may do so below, see `Modules::open`.
    let _relaxed = context.driver().in_capture_mode(CaptureMode::Relaxed).map_err(during())?;
    context.load(kernel)?;
    let own: Vec<_> = kernel.spec().forms().map(|form| form.symbol).collect();
    load_entries(context, kernel.spec().arch, &own)?;
    if exchanges { load_common(context, &[kernels_gpu::TRANSPOSE.symbol]) } else { Ok(()) }
}

/// Has the driver load what launches of kernels of any arch use.
fn load_common(context: &Context, symbols: &[&'static str]) -> Result<(), Error> {
    let during = refused("loading what kernels have in common");
    let _relaxed = context.driver().in_capture_mode(CaptureMode::Relaxed).map_err(during)?;
    context.load_common()?;
    load_entries(context, Module::common().arch, symbols)
}

/// Has the driver load entries whose modules it has.
fn load_entries(context: &Context, arch: Arch, symbols: &[&'static str]) -> Result<(), Error> {
    let _current = context.enter()?;
    for symbol in symbols {
        let function = context.function(arch, symbol)?;
        // A driver that loads lazily does so here at the latest, and not in a run.
        // SAFETY: the function is of a module of this context, which keeps it loaded.
        unsafe { context.driver().func_get_attribute(function, FunctionAttribute::NUM_REGS) }
            .map_err(refused(format!("loading {symbol}")))?;
    }
    Ok(())
}

/// Whether the kernels in question do themselves what the product's epilogue does, or it does nothing.
fn fuses(desc: &GemmDesc, kernel: Option<Kernel>) -> bool {
    let can = |kernel: Kernel| kernel.spec().fuses && kernel.entry(desc.types).is_ok();
    desc.epilogue.is_none()
        // Sums of another type than D cannot be left there.
        || desc.types.c() != desc.types.acc().dtype()
        // No kernel that multiplies limbs fuses one.
        || desc.prepared.is_none()
            && kernel.map_or_else(|| kernels_gpu::KERNELS.iter().copied().any(can), can)
}

/// An epilogue in words.
fn words(epilogue: Epilogue) -> String {
    let Epilogue { bias, row_scales, column_scales, activation, amax, device_scalars } = epilogue;
    let bias = bias.map(|bias| match bias {
        Bias::PerRow => "a bias for each row",
        Bias::PerColumn => "a bias for each column",
    });
    let rows = row_scales.then_some("a factor for each row");
    let columns = column_scales.then_some("a factor for each column");
    let activation = (activation != Activation::Identity).then(|| activation.name());
    let amax = amax.then_some("the largest magnitude");
    let scalars = device_scalars.then_some("alpha and beta from device memory");
    let parts = [scalars, rows, columns, bias, activation, amax];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

impl Planned {
    /// What launches the product itself.
    fn choice(&self) -> &Choice {
        match &self.carried {
            Carried::Whole(choice) => choice,
            Carried::Finished(finished) => finished.product.0.choice(),
        }
    }

    fn workspace_bytes(&self) -> u64 {
        match &self.carried {
            Carried::Whole(choice) => choice.product.workspace_bytes,
            Carried::Finished(finished) => finished.workspace_bytes(),
        }
    }

    fn name(&self) -> String {
        format!("{} by {} on {:?}", self.desc, self.choice().kernel.spec().id, self.context)
    }

    /// Checks what a run is given, and queues it.
    ///
    /// # Safety
    /// As [`Plan::run_with`] and [`Plan::run_groups`].
    unsafe fn run(
        &self,
        stream: RawStream,
        given: Given<'_>,
        workspace: Workspace,
    ) -> Result<(), Error> {
        let Given { operands, numbers, .. } = given;
        self.check_counts(given)?;
        self.check_numbers(numbers)?;
        self.check_prepared(given.prepared)?;
        let empty = self.desc.is_empty();
        if empty && !self.desc.epilogue.amax {
            return Ok(());
        }
        if !empty {
            self.check_workspace(workspace)?;
            operands.iter().try_for_each(|&operands| self.check_addresses(operands))?;
        }
        let queue = || {
            let launcher = Launcher::new(&self.context, stream)?;
            if self.desc.epilogue.amax {
                // SAFETY: the caller's promise.
                unsafe { launcher.clear_word(numbers.amax)? };
            }
            match &self.carried {
                _ if empty => Ok(()),
                Carried::Whole(choice) => with_gemm_types!(self.desc.types, T => {
                    // SAFETY: the caller's promises.
                    unsafe { self.launch::<T>(choice, &launcher, given, workspace) }
                }),
                Carried::Finished(finished) => {
                    // SAFETY: the same.
                    unsafe { self.finish(finished, &launcher, given, workspace) }
                }
            }
        };
        queue().map_err(|error| self.during(error))
    }

    /// Queues the products without their epilogue, and what finishes them.
    ///
    /// # Safety
    /// As [`Plan::run_with`], whose checks have passed.
    unsafe fn finish(
        &self,
        finished: &Finished,
        launcher: &Launcher<'_>,
        Given { operands, numbers, prepared, .. }: Given<'_>,
        workspace: Workspace,
    ) -> Result<(), Error> {
        let plain = &*finished.product.0;
        let own = Workspace {
            address: workspace.address + finished.sums_bytes,
            bytes: workspace.bytes.saturating_sub(finished.sums_bytes),
        };
        let [.., c, d] = self.desc.matrices();
        for (product, &given) in (0..).zip(operands) {
            let numbers = numbers.of_product(product, self.bias_bytes());
            let sums = if finished.sums_apart { workspace.address } else { given.d };
            let inner = [Operands { d: sums, ..given }];
            let inner = Given { prepared, ..Given::new(&inner) };
            // SAFETY: the caller's promises; the sums are in D or in a part of the workspace of their own.
            unsafe {
                plain.run(launcher.stream(), inner, own)?;
            }
            let mut old = given.c;
            if finished.sums_apart && self.desc.c.order != self.desc.d.order {
                // SAFETY: the caller's promise.
                unsafe { self.bring_c(launcher, (&c, given.c), (&d, given.d))? };
                old = given.d;
            }
            for (params, products) in finished.launches(&self.desc, (sums, old, given.d), numbers) {
                // SAFETY: the caller's promise, of D, C and the epilogue's numbers.
                unsafe { launcher.finish(finished.entry, params, products)? };
            }
        }
        Ok(())
    }

    /// What a kernel that fuses the epilogue is given for it, if there is something to do beyond what it
    /// does by itself.
    fn fused(
        &self,
        choice: &Choice,
        operands: Operands,
        numbers: EpilogueOperands,
    ) -> Option<Fused> {
        let (epilogue, numbers) = match choice.swapped {
            true => (self.desc.epilogue.transposed(), numbers.transposed()),
            false => (self.desc.epilogue, numbers),
        };
        let apart = self.reads_c_in_place(choice) && operands.c != operands.d;
        if epilogue.is_none() && !apart {
            return None;
        }
        let GemmDesc { c, d, batch, .. } = self.desc;
        let [_, _, c_stride, d_stride] = batch.strides();
        let old = if apart {
            Old { address: operands.c, ld: c.ld, stride: c_stride }
        } else {
            Old { address: operands.d, ld: d.ld, stride: d_stride }
        };
        let EpilogueOperands { bias, row_scales, column_scales, amax, scalars } = numbers;
        let bias_stride = self.desc.bias_stride;
        Some(Fused { epilogue, old, bias, bias_stride, row_scales, column_scales, amax, scalars })
    }

    /// Whether the kernel reads C where it is.
    fn reads_c_in_place(&self, choice: &Choice) -> bool {
        let spec = choice.kernel.spec();
        let as_given = choice.product.launched.batch.count() == self.desc.batch.count();
        let same_order = self.desc.c.order == self.desc.d.order;
        self.desc.reads_c() && spec.fuses && same_order && as_given
    }

    /// Bytes from the bias of one product to that of the next.
    fn bias_bytes(&self) -> u64 {
        (self.desc.bias_stride * self.desc.types.c().size()) as u64
    }

    /// An error of the driver's, with the plan.
    fn during(&self, error: Error) -> Error {
        let Error::Cuda { during, reason, code } = error else { return error };
        Error::Cuda { during: format!("{during} of {}", self.name()), reason, code }
    }

    /// Queues the products whose operands are at the given addresses and at the batch's strides from them.
    ///
    /// # Safety
    /// As [`Plan::run`], whose checks have passed.
    unsafe fn launch<T: GemmTypes>(
        &self,
        choice: &Choice,
        launcher: &Launcher<'_>,
        Given { operands, numbers, ends, prepared }: Given<'_>,
        workspace: Workspace,
    ) -> Result<(), Error> {
        let Self { context, desc, .. } = self;
        let [.., c, d] = desc.matrices();
        for &operands in operands {
            if desc.reads_c() && operands.c != operands.d && !self.reads_c_in_place(choice) {
                // SAFETY: the caller's promise.
                unsafe { self.bring_c(launcher, (&c, operands.c), (&d, operands.d))? };
            }
        }
        let spec = choice.kernel.spec();
        let product = &choice.product;
        let batch = product.batch(spec);
        let problem = product.launched.problem::<T>().with_batch(batch);
        let unsupported = |reason| Error::Unsupported { kernel: spec.id, reason };
        let [a, b, _, d] = product.launched.matrices();
        let strides = [a, b, d].map(|matrix| matrix.stride_bytes());
        let strided = if batch.is_one() { product.launched.batch.at_an_address() } else { 1 };
        for (product_at, first) in (0..).zip(operands) {
            let factors = if choice.swapped { [first.b, first.a] } else { [first.a, first.b] };
            // Where the copy of each factor is from, once there is one.
            let mut copied = [None; 2];
            let numbers = numbers.of_product(product_at, self.bias_bytes());
            let fused = self.fused(choice, *first, numbers);
            for at in 0..strided {
                let behind = |of: usize| at as u64 * strides[of];
                let mut places = [0, 1].map(|of| factors[of] + behind(of));
                for ((place, copied), exchange) in
                    places.iter_mut().zip(&mut copied).zip(product.exchanged)
                {
                    let Some(exchange) = exchange else { continue };
                    let from = std::mem::replace(place, workspace.address + exchange.at);
                    if copied.replace(from) != Some(from) {
                        // SAFETY: the operand is the caller's promise, and the workspace has room for its
                        // copy, which the stream's work before this no longer reads.
                        unsafe { launcher.exchange(exchange.params(from, *place))? };
                    }
                }
                let [a, b] = places;
                let addresses = Addresses { a, b, c: first.d + behind(2) };
                let band = Band::whole(problem.m);
                let mut planner = Planner::new(spec, &problem, addresses, context.limits(), band)
                    .map_err(unsupported)?
                    .with_ranges(product.ranges)
                    .with_most_workspace(self.limits.workspace);
                if let Some(fused) = fused {
                    let fused = fused.of_product(at, desc.types.c().size());
                    planner = planner.with_fused(fused);
                }
                if let Some(ends) = ends {
                    planner = planner.with_row_groups(ends);
                }
                if let Some((prepared, Preparation { factor, .. })) =
                    prepared.zip(product.launched.prepared)
                {
                    planner = planner.with_kept(Kept { factor, address: prepared.address });
                }
                debug_assert!(
                    product.own_at + planner.workspace_bytes() <= product.workspace_bytes
                );
                let plan = planner.plan(workspace.address + product.own_at).map_err(unsupported)?;
                // SAFETY: the operands are the caller's promise; the workspace has as many bytes as the plan
                // for addresses within the limits needs, and the stream uses it in order.
                unsafe { launcher.carry_out(spec.arch, &plan)? };
            }
        }
        Ok(())
    }

    /// Queues copies of the C of each product to its D.
    ///
    /// # Safety
    /// As [`Plan::run`].
    unsafe fn bring_c(
        &self,
        launcher: &Launcher<'_>,
        (c, from): (&Described, DevicePtr),
        (d, to): (&Described, DevicePtr),
    ) -> Result<(), Error> {
        let (lines, bytes, from_pitch) = c.lines();
        let (_, _, to_pitch) = d.lines();
        let exchange =
            if self.desc.c.order == self.desc.d.order { None } else { Some(self.c_to_d()?) };
        for at in 0..self.desc.batch.at_an_address() as u64 {
            let (from, to) = (from + at * c.stride_bytes(), to + at * d.stride_bytes());
            if let Some(exchange) = exchange {
                // SAFETY: the caller's promise: both matrices are there, and apart from each other.
                unsafe { launcher.exchange(exchange.params(from, to))? };
                continue;
            }
            let copy = LineCopy { lines, bytes, from_pitch, to_pitch };
            // SAFETY: as above.
            unsafe { self.context.driver().copy_lines(launcher.stream(), to, from, copy) }
                .map_err(|error| refused("copying C to D")(error))?;
        }
        Ok(())
    }

    /// How C gets into the other order of D.
    fn c_to_d(&self) -> Result<Exchange, Error> {
        let [.., c, _] = self.desc.matrices();
        let (lines, bytes, _) = c.lines();
        let counts = [lines, bytes / c.bytes, c.bytes].map(u32::try_from);
        let [Ok(cols), Ok(rows), Ok(size)] = counts else {
            let GemmDesc { m, n, k, .. } = self.desc;
            let reason = Unsupported::TooLarge { m, n, k };
            return Err(Error::Unsupported { kernel: kernels_gpu::TRANSPOSE.symbol, reason });
        };
        let (ld, pitch) = (self.desc.c.ld as u64, self.desc.d.ld as u64);
        Ok(Exchange { cols, rows, size, ld, pitch, at: 0 })
    }
}
