//! What the emulator finds, with the threads and the source lines of it.

use std::fmt;
use std::panic::Location;

use super::Dim3;

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// It reads and writes at once.
    Atomic,
}

impl fmt::Display for AccessKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Atomic => "atomic update",
        })
    }
}

/// A thread at a line of its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The thread's block.
    pub block: Dim3,
    /// The thread in its block.
    pub thread: Dim3,
    /// Where in the source.
    pub at: &'static Location<'static>,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { block, thread, at } = self;
        write!(f, "thread {thread:?} of block {block:?} at {}:{}", at.file(), at.line())
    }
}

/// One access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// What it does.
    pub kind: AccessKind,
    /// Who does it, and where.
    pub site: Site,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.kind, self.site)
    }
}

/// Why a launch could not be emulated, or what is wrong with its kernel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EmulationError {
    /// An access to global memory outside every buffer of the launch.
    #[error("out of bounds: {access}, element {element} of {buffer}, which has {elements}")]
    GlobalOutOfBounds {
        /// The access.
        access: Access,
        /// The nearest buffer.
        buffer: &'static str,
        /// Which element of it that would be.
        element: i64,
        /// How many it has.
        elements: usize,
    },
    /// A write to a buffer that the launch only reads.
    #[error("write to an input: {access}, element {element} of {buffer}")]
    ReadOnly {
        /// The access.
        access: Access,
        /// The buffer.
        buffer: &'static str,
        /// The element.
        element: i64,
    },
    /// Two threads wrote one element of global memory.
    #[error("two threads write element {element} of {buffer}: {first}, and {second}")]
    OverlappingWrites {
        /// The earlier write.
        first: Access,
        /// The later.
        second: Access,
        /// The buffer.
        buffer: &'static str,
        /// The element.
        element: i64,
    },
    /// A read of global memory that nobody had written.
    #[error("uninitialised: {access}, element {element} of {buffer}, which nobody wrote")]
    UninitialisedGlobal {
        /// The access.
        access: Access,
        /// The buffer.
        buffer: &'static str,
        /// The element.
        element: i64,
    },
    /// An access to what is between the lines of a matrix in global memory.
    #[error(
        "outside the matrix: {access}, byte {byte} of line {line} of {buffer}, whose lines end before"
    )]
    Padding {
        /// The access.
        access: Access,
        /// The matrix.
        buffer: &'static str,
        /// The line, by its number in memory.
        line: usize,
        /// The first byte outside, from the beginning of the line.
        byte: usize,
    },
    /// A read and a write of one element of global memory by different threads, with nothing that orders them.
    #[error("race on element {element} of {buffer}, which nothing orders: {first}, and {second}")]
    GlobalRace {
        /// The access that ran first here; on a device either may. Of several reads it is one of them.
        first: Access,
        /// The other.
        second: Access,
        /// The buffer.
        buffer: &'static str,
        /// The element.
        element: i64,
    },
    /// An access to shared memory beyond what the launch provides.
    #[error("out of bounds: {access}, byte {offset} of {bytes} bytes of shared memory")]
    SharedOutOfBounds {
        /// The access.
        access: Access,
        /// Where, from the start of the block's shared memory.
        offset: i64,
        /// Bytes that there are.
        bytes: usize,
    },
    /// A kernel asks for more shared memory than its launch provides.
    #[error("{site} asks for {needed} bytes of shared memory, the launch provides {bytes}")]
    SharedTooSmall {
        /// Who asked.
        site: Site,
        /// Bytes asked for.
        needed: usize,
        /// Bytes that there are.
        bytes: usize,
    },
    /// A read of shared memory that no thread of the block had written.
    #[error("uninitialised: {access}, byte {offset} of shared memory, which nobody wrote")]
    Uninitialised {
        /// The access.
        access: Access,
        /// Where, from the start of the block's shared memory.
        offset: usize,
    },
    /// Two threads touch one word of shared memory, one of them writing, with no barrier between.
    #[error("race on byte {offset} of shared memory, no barrier between: {first}, and {second}")]
    Race {
        /// The access that ran first here; on a device either may.
        first: Access,
        /// The other.
        second: Access,
        /// Where, from the start of the block's shared memory.
        offset: usize,
    },
    /// An access to shared memory to which a copy is on its way.
    #[error(
        "too early: {access}, byte {offset} of shared memory, where a copy by {copy} has not landed"
    )]
    PendingCopy {
        /// The access.
        access: Access,
        /// Who started the copy, and where.
        copy: Site,
        /// Where, from the start of the block's shared memory.
        offset: usize,
    },
    /// An access at an address that does not suit its type.
    #[error("misaligned: {access}, at an address that is no multiple of {align}")]
    Misaligned {
        /// The access.
        access: Access,
        /// What the type needs.
        align: usize,
    },
    /// Some threads of a block wait at a barrier that others never reach.
    #[error(
        "barrier divergence: {waiting} threads of the block wait and {finished} have ended; \
         {waits} waits, thread {ended:?} has ended"
    )]
    BarrierDivergence {
        /// One of the threads at the barrier.
        waits: Site,
        /// One of those that ended without it.
        ended: Dim3,
        /// Threads at the barrier.
        waiting: usize,
        /// Threads that ended without it.
        finished: usize,
    },
    /// Threads of a block wait at different barriers.
    #[error("barrier divergence: {first}, and {second} wait at different barriers")]
    DifferentBarriers {
        /// A thread at one.
        first: Site,
        /// A thread at another.
        second: Site,
    },
    /// A lane of a warp operation's mask does not take part in it.
    #[error("warp divergence: {site} waits for lane {lane} of mask {mask:#010x}, which {fault}")]
    WarpDivergence {
        /// A thread that takes part.
        site: Site,
        /// The mask that it gave.
        mask: u32,
        /// The lane at fault.
        lane: u32,
        /// What is wrong with it.
        fault: WarpFault,
    },
    /// A write to shared memory that something asynchronous, or another thread, may still be reading.
    #[error(
        "overwrite: {access}, byte {offset} of shared memory, which {read} may still be reading"
    )]
    Overwrite {
        /// The write, or the copy.
        access: Access,
        /// The read, the product or the store.
        read: Site,
        /// Where, from the start of the block's shared memory.
        offset: usize,
    },
    /// Two accesses through different proxies, in order, with no proxy fence between.
    #[error(
        "no proxy fence: {second}, byte {offset} of shared memory, comes after {first}, with no \
         fence.proxy.async between"
    )]
    MissingProxyFence {
        /// The access through the generic proxy.
        first: Access,
        /// That through the async proxy.
        second: Access,
        /// Where, from the start of the block's shared memory.
        offset: usize,
    },
    /// An operand of an asynchronous instruction that it does not take.
    #[error("{site} executes {instruction} with {reason}")]
    Operand {
        /// The thread.
        site: Site,
        /// The instruction, in PTX.
        instruction: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A barrier is used that was not initialised, or not visibly to this thread.
    #[error("{site} uses a barrier at byte {offset} of shared memory, {reason}")]
    NotSet {
        /// The thread.
        site: Site,
        /// Where, from the start of the block's shared memory.
        offset: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// More arrivals in a phase than the barrier was initialised for.
    #[error(
        "{site} arrives at the barrier at byte {offset} of shared memory, whose phase {phase} has all its arrivals"
    )]
    TooManyArrivals {
        /// The thread.
        site: Site,
        /// Where, from the start of the block's shared memory.
        offset: usize,
        /// The phase, counted from 0.
        phase: u32,
    },
    /// More bytes in a phase than were expected, or than a barrier counts.
    #[error(
        "{bytes} bytes too many in phase {phase} of the barrier at byte {offset} of shared memory, after {site}"
    )]
    TooManyBytes {
        /// Who arrived, or started the copy.
        site: Site,
        /// Where, from the start of the block's shared memory.
        offset: usize,
        /// The phase, counted from 0.
        phase: u32,
        /// Bytes that nobody expects.
        bytes: i64,
    },
    /// A thread acts on a phase that may not have begun: nothing tells it that the one before has ended.
    #[error(
        "{site} acts on phase {phase} of {object}, and nothing tells it that the phase before has ended"
    )]
    PhaseUnknown {
        /// The thread.
        site: Site,
        /// The barrier.
        object: String,
        /// The phase, counted from 0.
        phase: u32,
    },
    /// A phase for which a thread waits may end, and the next one, too, before it looks.
    #[error(
        "{site} waits for phase {phase} of the barrier at byte {offset} of shared memory, while the next one ends, too"
    )]
    PhaseOverrun {
        /// The thread.
        site: Site,
        /// Where, from the start of the block's shared memory.
        offset: usize,
        /// The phase, counted from 0.
        phase: u32,
    },
    /// Nobody can go on, and nothing is under way.
    #[error("deadlock: {waits}")]
    Deadlock {
        /// For each thing that is waited for, who waits where, and what it lacks.
        waits: String,
    },
    /// Threads that execute an instruction together execute different ones, or some of them none.
    #[error("warpgroup divergence: {first}, and {second} do not execute the same instruction")]
    WarpgroupDivergence {
        /// A thread.
        first: Site,
        /// Another.
        second: Site,
    },
    /// A product starts from registers that were written since, with no `wgmma.fence`.
    #[error("no wgmma.fence: {site} multiplies into registers that were accessed before")]
    MissingFence {
        /// The thread.
        site: Site,
    },
    /// Registers are accessed that a product may still read or write.
    #[error("{site} uses registers of the product at {}:{}, which was not waited for", product.file(), product.line())]
    InFlight {
        /// The thread.
        site: Site,
        /// The product.
        product: &'static Location<'static>,
    },
    /// A value is stored or converted that is what stands in a register while a product is under way.
    #[error("{site} uses a sum that was read before its product was waited for")]
    UsedInFlight {
        /// The thread.
        site: Site,
    },
    /// A sum becomes a result whose product has read shared memory that nobody wrote.
    #[error(
        "uninitialised: {site} uses a sum of the product at {}:{}, which read shared memory that nobody wrote",
        product.file(), product.line()
    )]
    UnwrittenOperand {
        /// The thread.
        site: Site,
        /// The product.
        product: &'static Location<'static>,
    },
    /// A product takes a piece of an operand from elsewhere than the tile that its other pieces are of.
    #[error("{site} multiplies by a descriptor whose operand {operand} is no tile: {}", stray(*found, *expected))]
    TileShape {
        /// The thread.
        site: Site,
        /// A or B.
        operand: &'static str,
        /// The element and the line in memory from which eight elements come.
        found: [i64; 2],
        /// Those from which they would come in the tile of the pieces before; none if they are of another matrix.
        expected: Option<[i64; 2]>,
    },
    /// The operands of a product begin at different k.
    #[error("{site} multiplies A from k = {a} on by B from k = {b} on")]
    TileK {
        /// The thread.
        site: Site,
        /// The first k of A.
        a: i64,
        /// The first k of B.
        b: i64,
    },
    /// A wait for products that no group has.
    #[error("{site} waits for the product at {}:{}, which was not committed", product.file(), product.line())]
    Uncommitted {
        /// The thread.
        site: Site,
        /// The product.
        product: &'static Location<'static>,
    },
    /// A thread ends while a store of its own may still read shared memory.
    #[error("{site} starts a store from shared memory, and its thread ends without a wait for it")]
    StoreAtExit {
        /// Who started it, and where.
        site: Site,
    },
    /// A thread ends while a copy of its own may still be under way.
    #[error("{site} starts a copy to shared memory, and its thread ends without a wait for it")]
    CopyAtExit {
        /// Who started it, and where.
        site: Site,
    },
    /// A store of a box that is cut within 16 bytes.
    #[error(
        "{site} stores a box to a matrix whose lines of {bytes} bytes end within 16 bytes: a device writes beyond them"
    )]
    StoreEdge {
        /// The thread.
        site: Site,
        /// Bytes of a line.
        bytes: u64,
    },
    /// An access to the shared memory of a block of the cluster that has ended, or may have.
    #[error("{site} accesses the shared memory of block {block:?}, which may have ended by then")]
    AfterExit {
        /// The thread.
        site: Site,
        /// The block that ended.
        block: Dim3,
    },
    /// An asynchronous instruction in a launch that is emulated without them.
    #[error("not emulated: {site} executes {instruction}, in a launch that is not asynchronous")]
    NotEmulated {
        /// The thread.
        site: Site,
        /// The instruction, in PTX.
        instruction: &'static str,
    },
    /// There is no memory for a thread's stack.
    #[error("no memory for the stacks of {threads} emulated threads: {reason}")]
    Stack {
        /// Threads of a block.
        threads: usize,
        /// What the system said.
        reason: String,
    },
}

impl EmulationError {
    /// The name of the fault, as `docs/emulator.md` lists it.
    #[must_use]
    pub fn kind(&self) -> String {
        let text = format!("{self:?}");
        text.split([' ', '{', '(']).next().unwrap_or_default().to_owned()
    }

    /// The threads whose acts the fault is of, with their lines; none where it is nobody's or, as in a deadlock, that of
    /// all who wait.
    #[must_use]
    pub fn sites(&self) -> Vec<Site> {
        match *self {
            Self::Race { first, second, .. }
            | Self::GlobalRace { first, second, .. }
            | Self::OverlappingWrites { first, second, .. }
            | Self::MissingProxyFence { first, second, .. } => vec![first.site, second.site],
            Self::PendingCopy { access, copy: other, .. }
            | Self::Overwrite { access, read: other, .. } => vec![access.site, other],
            Self::DifferentBarriers { first, second }
            | Self::WarpgroupDivergence { first, second } => vec![first, second],
            Self::GlobalOutOfBounds { access, .. }
            | Self::ReadOnly { access, .. }
            | Self::UninitialisedGlobal { access, .. }
            | Self::Padding { access, .. }
            | Self::SharedOutOfBounds { access, .. }
            | Self::Uninitialised { access, .. }
            | Self::Misaligned { access, .. } => vec![access.site],
            Self::BarrierDivergence { waits: site, .. }
            | Self::SharedTooSmall { site, .. }
            | Self::WarpDivergence { site, .. }
            | Self::Operand { site, .. }
            | Self::NotSet { site, .. }
            | Self::TooManyArrivals { site, .. }
            | Self::TooManyBytes { site, .. }
            | Self::PhaseUnknown { site, .. }
            | Self::PhaseOverrun { site, .. }
            | Self::MissingFence { site }
            | Self::InFlight { site, .. }
            | Self::UsedInFlight { site }
            | Self::UnwrittenOperand { site, .. }
            | Self::TileShape { site, .. }
            | Self::TileK { site, .. }
            | Self::Uncommitted { site, .. }
            | Self::StoreAtExit { site }
            | Self::CopyAtExit { site }
            | Self::StoreEdge { site, .. }
            | Self::AfterExit { site, .. }
            | Self::NotEmulated { site, .. } => vec![site],
            Self::Deadlock { .. } | Self::Stack { .. } => Vec::new(),
        }
    }

    /// What would order the two acts, or what the kernel lacks, in words; none where the report itself says it.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        let line = |site: &Site| format!("{}:{}", site.at.file(), site.at.line());
        let text = match self {
            Self::Race { first, second, .. } if first.site.block == second.site.block => format!(
                "a barrier that both threads come to, behind {} and before {}, would order the two",
                line(&first.site),
                line(&second.site)
            ),
            Self::Race { .. } => {
                "a barrier of the cluster that releases and acquires would order the two".to_owned()
            }
            Self::GlobalRace { first, second, .. } if first.site.block == second.site.block => {
                format!(
                    "a barrier of the block, behind {} and before {}, would order the two",
                    line(&first.site),
                    line(&second.site)
                )
            }
            Self::GlobalRace { .. } => "nothing orders the blocks of a launch: what one of them writes and another \
                 reads belongs into two launches"
                .to_owned(),
            Self::OverlappingWrites { .. } => {
                "an element belongs to one thread, or all of its updates are atomic".to_owned()
            }
            Self::PendingCopy { access, copy, .. } => format!(
                "before {} comes a wait for the phase or the group in which the copy of {} completes, by this \
                 thread or by one that it meets at a barrier behind that wait",
                line(&access.site),
                line(copy)
            ),
            Self::Overwrite { access, read, .. } => format!(
                "before {} this thread has to know that the read of {} is over: by an arrival behind the read, or \
                 behind the wait for its product or store, and a wait for that phase",
                line(&access.site),
                line(read)
            ),
            Self::MissingProxyFence { first, second, .. } => format!(
                "fence.proxy.async behind {}, before the barrier or the arrival that leads to {}",
                line(&first.site),
                line(&second.site)
            ),
            Self::Uninitialised { .. } | Self::UninitialisedGlobal { .. } => {
                "it has to be written, or filled with zeros, before it is read".to_owned()
            }
            Self::PhaseUnknown { .. } => "a wait for the phase before, by this thread or by one that tells it of \
                 that through a barrier"
                .to_owned(),
            Self::PhaseOverrun { .. } => {
                "who ends the next phase has to wait for an arrival of this thread's first".to_owned()
            }
            Self::MissingFence { .. } => {
                "wgmma.fence between the last access to the registers and the product".to_owned()
            }
            Self::InFlight { .. } | Self::UsedInFlight { .. } => {
                "wgmma.wait_group for the product's group before its registers are used".to_owned()
            }
            Self::Uncommitted { .. } => "wgmma.commit_group behind the product".to_owned(),
            Self::StoreAtExit { .. } => {
                "cp.async.bulk.wait_group.read by the same thread before it ends".to_owned()
            }
            Self::CopyAtExit { .. } => "cp.async.wait_group by the same thread before it ends".to_owned(),
            Self::AfterExit { .. } => {
                "a barrier of the cluster behind the access, which both blocks come to before they end".to_owned()
            }
            Self::GlobalOutOfBounds { .. }
            | Self::Padding { .. }
            | Self::ReadOnly { .. }
            | Self::SharedOutOfBounds { .. }
            | Self::SharedTooSmall { .. }
            | Self::Misaligned { .. }
            | Self::BarrierDivergence { .. }
            | Self::DifferentBarriers { .. }
            | Self::WarpDivergence { .. }
            | Self::Operand { .. }
            | Self::NotSet { .. }
            | Self::TooManyArrivals { .. }
            | Self::TooManyBytes { .. }
            | Self::Deadlock { .. }
            | Self::WarpgroupDivergence { .. }
            | Self::UnwrittenOperand { .. }
            | Self::TileShape { .. }
            | Self::TileK { .. }
            | Self::StoreEdge { .. }
            | Self::NotEmulated { .. }
            | Self::Stack { .. } => return None,
        };
        Some(text)
    }
}

/// Where eight elements of an operand come from, and where the others of its tile say that they would.
fn stray([element, line]: [i64; 2], expected: Option<[i64; 2]>) -> String {
    let found = format!("elements {element} to {} of line {line} of its matrix", element + 7);
    match expected {
        Some([element, line]) => {
            let last = element + 7;
            format!(
                "it takes {found} where those before lead to elements {element} to {last} of line {line}"
            )
        }
        None => format!("it takes {found}, and others before of another matrix"),
    }
}

/// What is wrong with a lane of a warp operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarpFault {
    /// The calling lane is not in its own mask.
    NotInMask,
    /// The lane has ended, waits at a barrier or is at another operation.
    Elsewhere,
    /// A shuffle reads from a lane that is not in the mask.
    NoSource,
}

impl fmt::Display for WarpFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotInMask => "is itself and not in that mask",
            Self::Elsewhere => "has ended or is elsewhere",
            Self::NoSource => "it reads from and which is not in that mask",
        })
    }
}
