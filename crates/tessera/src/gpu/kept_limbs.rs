//! Limbs of right factors that a program declares to be used again, kept from one product in a stream to the next.

use std::thread::ThreadId;

use cuda_lazy::{DeviceMemory, DevicePtr};
use gemm_spec::Layout;
use gemm_spec::split::Limbs;

use super::operands::PreparedFactor;
use crate::error::Error;

/// What a program says of the elements of a factor, so that what was made of them can be used again: a matrix and a
/// state of its elements.
///
/// A program gives each of its matrices a number, and another generation whenever it writes elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Declared {
    /// Which matrix it is.
    pub identity: u64,
    /// Which elements it has: two products that declare the same have the same.
    pub generation: u64,
}

/// What limbs were made of, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// The thread whose stream it is, where each has one of its own.
    pub(super) owner: Option<ThreadId>,
    pub(super) declared: Declared,
    pub(super) address: DevicePtr,
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) layout: Layout,
    pub(super) limbs: Limbs,
}

impl Source {
    /// Whether the limbs of one take the place of the other's.
    fn replaces(&self, other: &Self) -> bool {
        let key = |source: &Self| (source.owner, source.declared.identity, source.limbs);
        key(self) == key(other)
    }
}

/// Limbs of factors, the one that was used last behind all others.
#[derive(Default)]
pub(super) struct KeptLimbs {
    all: Vec<(Source, DeviceMemory)>,
}

impl KeptLimbs {
    /// Bytes of all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.all.iter().map(|(_, memory)| memory.len() as u64).sum()
    }

    /// Frees those of a matrix.
    pub(super) fn forget(&mut self, identity: u64) {
        // The driver waits for work that still uses the memory.
        self.all.retain(|(source, _)| source.declared.identity != identity);
    }

    /// The limbs that were made of a factor.
    pub(super) fn find(&mut self, source: &Source) -> Option<PreparedFactor> {
        let at = self.all.iter().rposition(|(own, _)| own == source)?;
        self.all[at..].rotate_left(1);
        self.all.last().map(|(_, memory)| prepared(memory))
    }

    /// Memory for those of a factor, which `make` fills. What was made of the matrix before is written over, and what
    /// was used longest ago is freed where all together would have more than `most` bytes. None where there is no room.
    pub(super) fn make(
        &mut self,
        (source, bytes, most): (Source, u64, u64),
        allocate: impl Fn(u64) -> Result<DeviceMemory, Error>,
        make: impl FnOnce(PreparedFactor) -> Result<(), Error>,
    ) -> Result<Option<PreparedFactor>, Error> {
        let before = self.all.iter().position(|(own, _)| own.replaces(&source));
        let before = before.map(|at| self.all.remove(at).1);
        let memory = match before.filter(|memory| memory.len() as u64 == bytes) {
            Some(memory) => memory,
            None if bytes > most => return Ok(None),
            None => {
                while self.bytes() + bytes > most {
                    self.all.remove(0);
                }
                match allocate(bytes) {
                    Ok(memory) => memory,
                    Err(Error::OutOfMemory { .. }) => {
                        // The product itself needs memory as well.
                        self.all.clear();
                        return Ok(None);
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        let factor = prepared(&memory);
        make(factor)?;
        self.all.push((source, memory));
        Ok(Some(factor))
    }
}

fn prepared(memory: &DeviceMemory) -> PreparedFactor {
    PreparedFactor { address: memory.address(), bytes: memory.len() as u64 }
}
