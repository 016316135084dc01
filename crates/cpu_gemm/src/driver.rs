//! The five loops round a tile, shared by any number of threads.
//!
//! ```text
//! loop 5   columns of C, NC at a time    a block of B (KC by NC) is packed for all threads
//! loop 4   k, KC at a time
//! loop 3   rows of C, MC at a time       a block of A (MC by KC) is packed by each thread for itself
//! loop 2   columns of the block, NR at a time
//! loop 1   rows of the block, MR at a time: a tile
//! ```
//!
//! Work is handed out by one counter. A phase is one turn of loops 5 and 4; it has tickets that pack
//! chunks of B, then tickets that compute areas of C, one each: which one, the thread chooses, so that it
//! stays with the block of A that it has packed. Whoever draws a ticket waits for what it needs,
//! which is always work of earlier tickets: the panels of its phase, its area's sums of the phase
//! before, and, before packing, that the block of B it overwrites (there are two) is no more in use.
//! Earlier tickets are held by threads that run, so the earliest that is unfinished never waits, and
//! the product ends however few threads of the pool come to it. There is no barrier: a thread that is
//! done goes on to the next phase.

mod area;
mod packing;
mod places;
mod plan;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gemm_spec::GemmTypes;

use self::plan::{AlignmentPeel, Plan};
use crate::blocking::{Blocking, Caches};
use crate::buffer::Buffer;
use crate::context::CpuContext;
use crate::edge::Edge;
use crate::error::Error;
use crate::kernels::Kernels;
use crate::mirror::Mirror;
use crate::product::Product;
use crate::region::Region;
use crate::sum::Partials;
use crate::threads::wait;

/// Computes the product with the threads of the context, k at least 1.
///
/// # Errors
/// [`Error::OutOfMemory`], before anything was written.
///
/// # Safety
/// The product's promises, see [`Product`]; the CPU has the kernels' instruction set.
pub(crate) unsafe fn multiply<T: GemmTypes>(
    product: &Product<T>,
    kernels: &Kernels<T>,
    context: &CpuContext,
    threads: usize,
) -> Result<(), Error> {
    // SAFETY: the caller's promises.
    unsafe { multiply_part(product, Region::All, None, kernels, context, threads) }
}

/// The same of a region of C, which is all of it where elements are not sums, or with a factor of which one triangle is
/// stored.
///
/// # Errors
/// As [`multiply`].
///
/// # Safety
/// As [`multiply`]; nothing is asked of C outside of the region, nor of the factor outside of its triangle.
pub(crate) unsafe fn multiply_part<T: GemmTypes>(
    product: &Product<T>,
    region: Region,
    mirror: Option<&Mirror<'_, T>>,
    kernels: &Kernels<T>,
    context: &CpuContext,
    threads: usize,
) -> Result<(), Error> {
    assert!(region == Region::All || kernels.round.is_none(), "C cannot hold sums");
    let &Product { m, n, k, .. } = product;
    let lines = AlignmentPeel::of(product, kernels);
    let rows = m + lines.short;
    let blocking = Blocking::new(kernels, Caches::of_this_machine(), rows, n, k, threads);
    let plan = Plan::new(product, mirror, kernels, blocking, lines, threads);
    let spare = context.spare();
    let panels = spare.take::<T::Acc>(if plan.chunks > 0 { 2 * plan.block_of_b } else { 0 })?;
    let apart = plan.kinds_apart();
    let apart = (apart > 0)
        .then(|| spare.take::<T::Acc>(apart.saturating_mul(plan.sums_of_a_kind())))
        .transpose()?;
    let edge = Edge::of(region, kernels);
    let kinds = if edge.is_some() { plan.waiting.count() } else { 0 };
    let on_edge = (kinds > 0)
        .then(|| spare.take::<T::Acc>(kinds * edge.map_or(0, |edge| edge.elements(n))))
        .transpose()?;
    // One for each thread that may come, before the first writes anything.
    let blocks = (0..threads).map(|_| spare.take::<T::Acc>(plan.block_of_a));
    let shared = Shared {
        product,
        region,
        mirror,
        kernels,
        plan,
        blocks_of_a: Mutex::new(blocks.collect::<Result<_, _>>()?),
        b: panels.as_mut_ptr(),
        sums: address(&apart),
        edge: edge.map(|edge| {
            let memory = (edge.elements(n), edge.rows());
            (edge, plan.waiting.places(None, address(&on_edge), memory))
        }),
        next: AtomicUsize::new(0),
        packed: counters(plan.phases),
        computed: counters(plan.phases),
        areas: counters(plan.areas),
        taken: counters(plan.phases * plan.row_blocks),
    };
    // SAFETY: the caller's promises; `work` shares its output by tickets.
    context.run_on(threads, || unsafe { shared.work() });
    let blocks = shared.blocks_of_a.into_inner().unwrap_or_else(PoisonError::into_inner);
    for buffer in blocks.into_iter().chain(apart).chain(on_edge).chain([panels]) {
        spare.give_back(buffer, context.threads());
    }
    Ok(())
}

/// Where a buffer begins, if there is one.
fn address<T>(buffer: &Option<Buffer>) -> *mut T {
    buffer.as_ref().map_or(std::ptr::null_mut(), Buffer::as_mut_ptr)
}

fn counters(len: usize) -> Vec<AtomicUsize> {
    std::iter::repeat_with(AtomicUsize::default).take(len).collect()
}

/// What the threads of a product share.
struct Shared<'a, T: GemmTypes> {
    product: &'a Product<T>,
    region: Region,
    mirror: Option<&'a Mirror<'a, T>>,
    kernels: &'a Kernels<T>,
    plan: Plan,
    /// Memory for a packed block of A, for each thread that may come.
    blocks_of_a: Mutex<Vec<Buffer>>,
    /// Two packed blocks of B.
    b: *mut T::Acc,
    /// Partial sums of a block of columns, of each kind that waits and that C does not hold.
    sums: *mut T::Acc,
    /// Of tiles on the edge of a region the partial sums, which have places of their own.
    edge: Option<(Edge, Partials<T::Acc>)>,
    /// The next ticket.
    next: AtomicUsize,
    /// For each phase, chunks of B that are packed.
    packed: Vec<AtomicUsize>,
    /// For each phase, areas that are computed.
    computed: Vec<AtomicUsize>,
    /// For each area, phases that are computed.
    areas: Vec<AtomicUsize>,
    /// For each phase and block of rows, slices that are taken, or were asked for in vain.
    taken: Vec<AtomicUsize>,
}

// SAFETY: the pointers are to memory that outlives the product's threads, and tickets decide who
// writes where; see `work`.
unsafe impl<T: GemmTypes> Sync for Shared<'_, T> {}

impl<T: GemmTypes> Shared<'_, T> {
    /// Draws tickets until there are no more.
    ///
    /// # Safety
    /// As [`multiply`].
    unsafe fn work(&self) {
        let plan = &self.plan;
        let tickets = plan.chunks + plan.areas;
        let mut own: Option<OwnBlock> = None;
        loop {
            let ticket = self.next.fetch_add(1, Ordering::Relaxed);
            let (phase, index) = (ticket / tickets, ticket % tickets);
            if phase >= plan.phases {
                break;
            }
            if index < plan.chunks {
                if phase >= 2 {
                    wait(&self.computed[phase - 2], plan.areas);
                }
                // SAFETY: the block that this chunk lies in is no more read, by the wait above, and
                // no other ticket has this chunk.
                unsafe { self.pack_chunk(phase, index) };
                self.packed[phase].fetch_add(1, Ordering::Release);
            } else {
                let own = own.get_or_insert_with(|| {
                    let buffer = self.blocks_of_a().pop();
                    let buffer = buffer.expect("invariant: there is a buffer for each thread");
                    OwnBlock { buffer, holds: None }
                });
                let k_block = phase % plan.k_blocks;
                let packed = own.holds.filter(|held| held.1 == k_block).map(|held| held.0);
                let (block, slice) = self.take_area(phase, packed);
                let area = block * plan.slices + slice;
                if self.region.misses(&self.rows_of(block), &self.columns_of_area(phase, slice)) {
                    self.areas[area].fetch_add(1, Ordering::Release);
                    self.computed[phase].fetch_add(1, Ordering::Release);
                    continue;
                }
                let is_packed = packed == Some(block);
                let on_the_way = !is_packed && self.packs_on_the_way(phase, slice);
                if !is_packed && !on_the_way {
                    // SAFETY: the buffer is this thread's own.
                    unsafe { self.pack_a(own.buffer.as_mut_ptr(), block, k_block) };
                }
                own.holds = Some((block, k_block));
                wait(&self.packed[phase], plan.chunks);
                wait(&self.areas[area], phase);
                // SAFETY: B is packed and this area's earlier sums are there, by the waits above;
                // no other ticket of this phase has this area, and those of others wait for it. The buffer
                // is this thread's own, and the block of A is packed in it or will be.
                unsafe {
                    self.compute(own.buffer.as_mut_ptr(), on_the_way, phase, block, slice);
                }
                self.areas[area].fetch_add(1, Ordering::Release);
                self.computed[phase].fetch_add(1, Ordering::Release);
            }
        }
        if let Some(own) = own {
            self.blocks_of_a().push(own.buffer);
        }
    }

    fn blocks_of_a(&self) -> MutexGuard<'_, Vec<Buffer>> {
        self.blocks_of_a.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an area that no other ticket of this phase has, a block of rows and a slice: of the block that
    /// the thread has packed, else of the one that has most left, for which it pays best to pack another.
    /// There is one for each ticket.
    ///
    /// Blocks begin with different slices: threads that begin with the same one at once wait for the same lines
    /// of B.
    fn take_area(&self, phase: usize, packed: Option<usize>) -> (usize, usize) {
        let blocks = self.plan.row_blocks;
        let taken = &self.taken[phase * blocks..][..blocks];
        let with_most_left = || {
            let fewest = (0..blocks).min_by_key(|&block| taken[block].load(Ordering::Relaxed));
            fewest.expect("invariant: C has a row at least")
        };
        let mut block = packed.unwrap_or_else(with_most_left);
        loop {
            let slice = taken[block].fetch_add(1, Ordering::Relaxed);
            if slice < self.plan.slices {
                return (block, (slice + block) % self.plan.slices);
            }
            block = with_most_left();
        }
    }
}

/// A thread's packed block of A.
struct OwnBlock {
    buffer: Buffer,
    /// Which block of rows and which of k it holds.
    holds: Option<(usize, usize)>,
}
