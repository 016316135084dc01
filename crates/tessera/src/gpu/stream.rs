//! A stream with what products in it need beside their operands.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use cuda_lazy::{DeviceMemory, RawStream};
use gemm_spec::{Operand, OperandAccess};

use super::allocate::allocate;
use super::context::Context;
use super::desc::GemmDesc;
use super::kept_limbs::{Declared, KeptLimbs, Source};
use super::operands::{EpilogueOperands, Operands, PlanLimits, PreparedFactor, Workspace};
use super::plan::Plan;
use super::refused;
use crate::accuracy::Accuracy;
use crate::error::Error;

/// Plans that a stream remembers.
const REMEMBERED: usize = 64;
/// Bytes of the limbs of declared factors, unless [`Stream::with_limb_bytes`] says otherwise.
const LIMB_BYTES: u64 = 1 << 30;
/// `CU_STREAM_PER_THREAD`: each thread that names it has a stream of its own.
const PER_THREAD: usize = 2;

/// A CUDA stream, with the workspace that its products share and the plans that were made for it.
///
/// What a stream is given runs in order, so that one workspace serves all of it. It grows with the largest
/// product; [`Stream::reserve`] gets it at once. Programs that bring a workspace of their own use
/// [`Plan::run`].
pub struct Stream {
    handle: Handle,
    accuracy: Accuracy,
    most_limb_bytes: u64,
    kept: Mutex<Kept>,
    context: Context,
}

/// A stream serves many threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Stream>();
};

enum Handle {
    Own(cuda_lazy::Stream),
    Foreign(Foreign),
}

/// Somebody else's stream.
struct Foreign(RawStream);

// SAFETY: the driver's calls may be made from any thread, and a stream's handle is only a name to them.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

/// What a stream keeps from one product to the next.
#[derive(Default)]
struct Kept {
    /// The one used last comes last.
    plans: Vec<(GemmDesc, PlanLimits, Plan)>,
    /// One for each thread where each thread has a stream of its own, else one.
    workspaces: Vec<(Option<ThreadId>, DeviceMemory)>,
    limbs: KeptLimbs,
}

impl Stream {
    /// A stream of its own, which neither waits for the legacy default stream nor makes it wait.
    ///
    /// # Errors
    /// [`Error::Cuda`].
    pub fn new(context: &Context) -> Result<Self, Error> {
        let stream = cuda_lazy::Stream::new(context.driver_context());
        let stream = stream.map_err(refused("creating a stream"))?;
        Ok(Self::with(context, Handle::Own(stream)))
    }

    /// A stream by the driver's handle, a `CUstream`, of which it remains the property: the legacy default
    /// stream is null or 0x1, that of the calling thread 0x2.
    ///
    /// # Safety
    /// It is a stream of that context, and is not destroyed before this value.
    #[must_use]
    pub unsafe fn from_raw(context: &Context, stream: RawStream) -> Self {
        Self::with(context, Handle::Foreign(Foreign(stream)))
    }

    fn with(context: &Context, handle: Handle) -> Self {
        let accuracy = Accuracy::default();
        let (most_limb_bytes, kept) = (LIMB_BYTES, Mutex::default());
        Self { handle, accuracy, most_limb_bytes, kept, context: context.clone() }
    }

    /// The same with another contract for the products of [`Stream::gemm`].
    #[must_use]
    pub fn with_accuracy(self, accuracy: Accuracy) -> Self {
        Self { accuracy, ..self }
    }

    /// The contract for the products of [`Stream::gemm`].
    #[must_use]
    pub fn accuracy(&self) -> Accuracy {
        self.accuracy
    }

    /// The same with that many bytes of device memory, at most, for the limbs of the factors that are declared to
    /// [`Stream::gemm_declared`]; 0 keeps none. Without it there is 1 GiB.
    #[must_use]
    pub fn with_limb_bytes(self, most: u64) -> Self {
        Self { most_limb_bytes: most, ..self }
    }

    /// Bytes of device memory that the limbs of declared factors take at present.
    #[must_use]
    pub fn limb_bytes(&self) -> u64 {
        self.kept().limbs.bytes()
    }

    /// Frees the limbs of a matrix that was [declared](super::Declared), once no queued work uses them.
    pub fn forget_limbs(&self, identity: u64) {
        self.kept().limbs.forget(identity);
    }

    /// The driver's handle, a `CUstream`, good as long as `self`.
    #[must_use]
    pub fn as_raw(&self) -> RawStream {
        match &self.handle {
            Handle::Own(stream) => stream.as_raw(),
            Handle::Foreign(Foreign(stream)) => *stream,
        }
    }

    /// The context that it belongs to.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Waits until nothing that was queued is under way.
    ///
    /// # Errors
    /// [`Error::Cuda`], also for a kernel that failed meanwhile.
    pub fn synchronize(&self) -> Result<(), Error> {
        let _current = self.context.enter()?;
        // SAFETY: a stream of the context that was entered, which lives as long as this value.
        unsafe { self.context.driver().stream_synchronize(self.as_raw()) }
            .map_err(refused("waiting for a stream"))
    }

    /// Gets a workspace of at least that many bytes, so that no later product of no more allocates any.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] and [`Error::Cuda`].
    pub fn reserve(&self, bytes: u64) -> Result<(), Error> {
        self.workspace(&mut self.kept(), bytes).map(drop)
    }

    /// A plan for products in this stream, or the one that was made for the same product before.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn plan(&self, desc: GemmDesc, limits: PlanLimits) -> Result<Plan, Error> {
        self.kept().plan(&self.context, desc, limits)
    }

    /// Queues a plan's product with this stream's workspace, which is allocated where it is too short.
    ///
    /// # Errors
    /// As [`Plan::run`]; [`Error::OutOfMemory`]; [`Error::Capturing`] where the plan needs a workspace and the
    /// stream is being captured: its graph would use the workspace whenever it is launched.
    ///
    /// # Safety
    /// As [`Plan::run`].
    pub unsafe fn run(&self, plan: &Plan, operands: Operands) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { self.run_with(plan, &[operands], EpilogueOperands::default()) }
    }

    /// The same with the numbers of the plan's [epilogue](GemmDesc::epilogue), and of a batch of
    /// [pointers](super::GemmBatch::Pointers) with addresses for each product, as [`Plan::run_with`].
    ///
    /// # Errors
    /// As [`Stream::run`] and [`Plan::run_with`].
    ///
    /// # Safety
    /// As [`Plan::run_with`].
    pub unsafe fn run_with(
        &self,
        plan: &Plan,
        operands: &[Operands],
        numbers: EpilogueOperands,
    ) -> Result<(), Error> {
        // Held to the end, so that two threads' launches with one workspace are not mixed.
        let mut kept = self.kept();
        let workspace = self.workspace_of(&mut kept, plan)?;
        // SAFETY: the caller's promise for the operands; the workspace is this stream's alone.
        unsafe { plan.run_with(self.as_raw(), operands, numbers, workspace) }
    }

    /// This stream's workspace for a plan.
    fn workspace_of(&self, kept: &mut Kept, plan: &Plan) -> Result<Workspace, Error> {
        match plan.workspace_bytes() {
            0 => Ok(Workspace::NONE),
            _ if self.is_capturing()? => Err(Error::Capturing { plan: format!("{plan:?}") }),
            bytes => self.workspace(kept, bytes),
        }
    }

    /// Queues a product with the plan that this stream has for it, or that is made now, and with the limbs of a
    /// factor where the descriptor says so.
    ///
    /// # Safety
    /// As [`Plan::run`] and [`Plan::run_prepared`].
    pub(super) unsafe fn run_described(
        &self,
        desc: GemmDesc,
        limits: PlanLimits,
        operands: Operands,
        prepared: Option<PreparedFactor>,
    ) -> Result<(), Error> {
        let mut kept = self.kept();
        let plan = kept.plan(&self.context, desc, limits)?;
        // SAFETY: the caller's promise.
        unsafe { self.run_planned(&mut kept, &plan, operands, prepared) }
    }

    /// The same with its plan and what is kept, whose lock is held to the end.
    ///
    /// # Safety
    /// As [`Stream::run_described`].
    unsafe fn run_planned(
        &self,
        kept: &mut Kept,
        plan: &Plan,
        operands: Operands,
        prepared: Option<PreparedFactor>,
    ) -> Result<(), Error> {
        let workspace = self.workspace_of(kept, plan)?;
        let (stream, numbers) = (self.as_raw(), EpilogueOperands::default());
        match prepared {
            Some(prepared) => {
                // SAFETY: the caller's promise for the operands and the limbs; the workspace is this stream's alone.
                unsafe { plan.run_prepared(stream, operands, prepared, numbers, workspace) }
            }
            // SAFETY: the same for the operands and the workspace.
            None => unsafe { plan.run_with(stream, &[operands], numbers, workspace) },
        }
    }

    /// Queues a product whose right factor is declared, with the limbs that are kept of it where its kernel would make
    /// the same; else as [`Stream::run_described`].
    ///
    /// # Safety
    /// As [`Plan::run`].
    pub(super) unsafe fn run_declared(
        &self,
        desc: GemmDesc,
        limits: PlanLimits,
        operands: Operands,
        declared: Declared,
    ) -> Result<(), Error> {
        // Held to the end, so that no other thread frees the limbs before they are used.
        let mut kept = self.kept();
        let plan = kept.plan(&self.context, desc, limits)?;
        let limbs = match plan.kernel().spec().operands {
            OperandAccess::Limbs(limbs) => Some(limbs),
            OperandAccess::Pointers
            | OperandAccess::Batched(_)
            | OperandAccess::TensorMaps { .. } => None,
        };
        let keeps = limbs.is_some() && self.most_limb_bytes > 0 && !self.is_capturing()?;
        let Some(limbs) = limbs.filter(|_| keeps) else {
            // SAFETY: the caller's promise.
            return unsafe { self.run_planned(&mut kept, &plan, operands, None) };
        };
        let prepared = desc.with_prepared(Operand::B, limbs);
        let prepared = kept.plan(&self.context, prepared, limits)?;
        let source = Source {
            owner: self.owner(),
            declared,
            address: operands.b,
            rows: desc.k,
            cols: desc.n,
            layout: desc.b,
            limbs,
        };
        let factor = match kept.limbs.find(&source) {
            Some(factor) => Some(factor),
            None => kept.limbs.make(
                (source, prepared.prepared_bytes(), self.most_limb_bytes),
                |bytes| allocate(&self.context, bytes, "the limbs of a declared factor"),
                // SAFETY: the caller's promise for the factor; the memory for the limbs is this stream's alone, and
                // what uses it was queued before.
                |factor| unsafe { prepared.prepare(self.as_raw(), operands.b, factor) },
            )?,
        };
        let plan = if factor.is_some() { prepared } else { plan };
        // SAFETY: the caller's promise. The limbs were made in this stream, of elements that the program has declared
        // to be these; where it is mistaken, the product is that of the elements as they were.
        unsafe { self.run_planned(&mut kept, &plan, operands, factor) }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_capturing(&self) -> Result<bool, Error> {
        let _current = self.context.enter()?;
        // SAFETY: a stream of the context that was entered, which lives as long as this value.
        unsafe { self.context.driver().is_capturing(self.as_raw()) }
            .map_err(refused("asking whether a stream is captured"))
    }

    /// The calling thread, where each has a stream of its own.
    fn owner(&self) -> Option<ThreadId> {
        (self.as_raw().addr() == PER_THREAD).then(|| thread::current().id())
    }

    /// The stream's workspace, of that many bytes at least.
    fn workspace(&self, kept: &mut Kept, bytes: u64) -> Result<Workspace, Error> {
        let owner = self.owner();
        let all = &mut kept.workspaces;
        let found = all.iter().position(|(own, _)| *own == owner);
        if let Some(at) = found {
            let memory = &all[at].1;
            if memory.len() as u64 >= bytes {
                return Ok(Workspace { address: memory.address(), bytes: memory.len() as u64 });
            }
            // The old one goes first: there may be no room for both. The driver waits for its users.
            all.swap_remove(at);
        }
        let memory = allocate(&self.context, bytes, "the workspace of a stream")?;
        let workspace = Workspace { address: memory.address(), bytes: memory.len() as u64 };
        all.push((owner, memory));
        Ok(workspace)
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("handle", &self.as_raw()).finish_non_exhaustive()
    }
}

impl Kept {
    fn plan(
        &mut self,
        context: &Context,
        desc: GemmDesc,
        limits: PlanLimits,
    ) -> Result<Plan, Error> {
        let plans = &mut self.plans;
        // The one used last is likely used next.
        let found = plans.iter().rposition(|(own, within, _)| *own == desc && *within == limits);
        if let Some(at) = found {
            if at + 1 != plans.len() {
                plans[at..].rotate_left(1);
            }
        } else {
            let plan = Plan::new(context, desc, limits)?;
            if plans.len() == REMEMBERED {
                plans.remove(0);
            }
            plans.push((desc, limits, plan));
        }
        let (_, _, plan) = plans.last().expect("invariant: it was found or put there");
        Ok(plan.clone())
    }
}
