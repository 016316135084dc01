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
}

impl fmt::Display for AccessKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
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
    /// An instruction that the emulator does not model; the launch has no result.
    #[error("not emulated: {site} executes {instruction}, which runs on a GPU only")]
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
