//! One operand, packed by all threads: bytes of its residues and magnitudes, and what is known of its lines.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::lines::Line;
use super::pack::{self, STEP, Step, planes};
use super::restore::Panel;
use super::unit::Kernels;
use crate::amx::flags::Unraised;
use crate::amx::pack::{Form, LINES, PLANE};
use crate::context::CpuContext;
use crate::threads::tickets;

/// k elements of a block: a panel of A fits the L1.
const BLOCK: usize = 16;
/// Bytes between planes beyond their own, so that they do not meet in the same sets of a cache.
const PADDING: usize = 320;
/// Steps of a panel that are packed together.
const STEPS_AT_ONCE: usize = 8;

/// One operand.
pub(super) struct Operand {
    from: *const f64,
    along: usize,
    apart: usize,
    lines: usize,
    form: Form,
    to: *mut u8,
    plane: usize,
    depth: Depth,
    /// What is known of the lines, and of which an element was rounded: 32 bits a panel.
    known: Vec<Line>,
    rounded: Vec<AtomicU32>,
    pub(super) packed: Vec<Panel>,
}

impl Operand {
    /// Bytes of a plane of some lines.
    fn plane(lines: usize, depth: Depth) -> usize {
        lines.div_ceil(LINES) * depth.steps * PLANE + PADDING
    }

    /// Bytes of all planes of some lines, by that many moduli.
    pub(super) fn bytes(moduli: usize, lines: usize, depth: Depth) -> usize {
        planes(moduli) * Self::plane(lines, depth)
    }

    pub(super) fn new(
        (from, along, apart): (*const f64, usize, usize),
        lines: usize,
        form: Form,
        to: *mut u8,
        depth: Depth,
    ) -> Self {
        let panels = lines.div_ceil(LINES);
        Self {
            from,
            along,
            apart,
            lines,
            form,
            to,
            plane: Self::plane(lines, depth),
            depth,
            known: vec![Line::ZERO; lines],
            rounded: std::iter::repeat_with(AtomicU32::default).take(panels).collect(),
            packed: Vec::new(),
        }
    }

    pub(super) fn panels(&self) -> usize {
        self.lines.div_ceil(LINES)
    }

    pub(super) fn lines_of(&self, panel: usize) -> std::ops::Range<usize> {
        panel * LINES..self.lines.min((panel + 1) * LINES)
    }

    /// Where a panel begins in a block of k, given by its first step and steps, of a plane.
    pub(super) fn panel(
        &self,
        plane: usize,
        panel: usize,
        (first, steps): (usize, usize),
    ) -> *mut u8 {
        let at = plane * self.plane + (first * self.panels() + panel * steps) * PLANE;
        self.to.wrapping_add(at)
    }

    /// Packs it, by several threads.
    ///
    /// # Safety
    /// The operand can be read, and its planes are this product's alone.
    pub(super) unsafe fn fill<const N: usize>(
        &mut self,
        kernels: &Kernels<N>,
        context: &CpuContext,
        threads: usize,
    ) {
        let panels = self.panels();
        let found: Vec<Mutex<[Line; LINES]>> =
            std::iter::repeat_with(|| Mutex::new([Line::ZERO; LINES])).take(panels).collect();
        let shared = Shared(&*self);
        each(context, threads, panels, |panel| {
            let operand = *shared.get();
            let lines = operand.lines_of(panel);
            let from = operand.from.wrapping_add(lines.start * operand.along);
            let strides = (operand.along, operand.apart);
            // SAFETY: the caller's promise: lines of the operand can be read.
            let looked =
                unsafe { (kernels.look)(from, strides, lines.len(), operand.depth.elements) };
            *found[panel].lock().unwrap_or_else(PoisonError::into_inner) = looked;
        });
        for (panel, found) in found.into_iter().enumerate() {
            let lines = self.lines_of(panel);
            let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
            let count = lines.len();
            self.known[lines].copy_from_slice(&found[..count]);
        }
        let parts = self.depth.steps.div_ceil(STEPS_AT_ONCE);
        let shared = Shared(&*self);
        each(context, threads, panels * parts, |ticket| {
            let operand = *shared.get();
            let first = ticket % parts * STEPS_AT_ONCE;
            let steps = first..operand.depth.steps.min(first + STEPS_AT_ONCE);
            // SAFETY: the caller's promises; no other thread has this ticket, and with it these steps.
            unsafe { operand.pack(ticket / parts, steps, kernels.pack) };
        });
        let panel = |panel: usize| {
            let rounded = self.rounded[panel].load(Ordering::Relaxed);
            Panel::new(&self.known[self.lines_of(panel)], rounded)
        };
        self.packed = (0..panels).map(panel).collect();
    }

    /// # Safety
    /// The operand can be read; the panel's steps are this thread's to write.
    unsafe fn pack(&self, panel: usize, steps: std::ops::Range<usize>, pack: pack::PackFn) {
        let lines = self.lines_of(panel);
        let mut rounded = 0;
        for index in steps {
            let block = self.depth.block(index / BLOCK);
            let p = index * STEP;
            let from =
                self.from.wrapping_add(lines.start * self.along).wrapping_add(p * self.apart);
            let step = Step {
                from,
                along: self.along,
                apart: self.apart,
                lines: &self.known[lines.clone()],
                k: STEP.min(self.depth.elements - p),
                form: self.form,
                to: self.panel(0, panel, block).wrapping_add((index - block.0) * PLANE),
                plane: self.plane,
            };
            // SAFETY: the caller's promises: lines and elements that exist, a step of each plane.
            rounded |= unsafe { pack(&step) };
        }
        self.rounded[panel].fetch_or(rounded, Ordering::Relaxed);
    }
}

/// The blocks of k.
#[derive(Clone, Copy)]
pub(super) struct Depth {
    pub(super) elements: usize,
    pub(super) steps: usize,
}

impl Depth {
    pub(super) fn blocks(self) -> usize {
        self.steps.div_ceil(BLOCK)
    }

    /// First step of a block, and how many it has.
    pub(super) fn block(self, block: usize) -> (usize, usize) {
        (block * BLOCK, BLOCK.min(self.steps - block * BLOCK))
    }
}

/// A pointer that threads share; tickets decide who uses what of it.
#[derive(Clone, Copy)]
pub(super) struct Shared<T>(pub(super) T);

// SAFETY: what is behind it outlives the threads, and no two of them write the same of it: see `Operand::fill` and `Work::run`.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub(super) fn get(&self) -> &T {
        &self.0
    }
}

/// Does a number of pieces of work on several threads.
fn each(context: &CpuContext, threads: usize, count: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    context.run_on(threads.min(count), || {
        let _unraised = Unraised::from_here();
        tickets(&next, count).for_each(&work);
    });
}
