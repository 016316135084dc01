//! Operands on their way into panels, and the blocks of k that panels are cut into.

use std::sync::atomic::{AtomicU32, Ordering};

use super::TileTypes;
use crate::amx::pack::{Form, LINES, PackFn, Panels, step_bytes};
use crate::amx::pieces::{Pieces, Range};

/// Panels of a ticket that packs, where lines of a step are contiguous.
const PANELS_AT_ONCE: usize = 8;
/// Tickets that pack, for each thread, where there is work enough.
const PACK_TICKETS: usize = 3;

/// By how many steps rows of an operand that is packed aside are asked for ahead.
const ROWS_AHEAD: usize = 2;

/// One operand's way into its packed form.
pub(super) struct Packing<E> {
    from: *const E,
    along: usize,
    apart: usize,
    lines: usize,
    missing: usize,
    pub(super) to: *mut u8,
    form: Form,
    pack: PackFn<E>,
    /// Panels of a ticket, and tickets along the panels.
    panels: usize,
    groups: usize,
    /// Steps of a ticket, and tickets along a block of k.
    steps: usize,
    parts: usize,
    pub(super) range: AtomicRange,
}

/// A range that several threads extend.
pub(super) struct AtomicRange {
    least: AtomicU32,
    largest: AtomicU32,
}

impl AtomicRange {
    fn extend(&self, range: Range) {
        self.least.fetch_min(range.least, Ordering::Relaxed);
        self.largest.fetch_max(range.largest, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Range {
        let (least, largest) = (&self.least, &self.largest);
        Range { least: least.load(Ordering::Relaxed), largest: largest.load(Ordering::Relaxed) }
    }
}

impl<E: Pieces> Packing<E> {
    pub(super) fn new(
        (from, along, apart): (*const E, usize, usize),
        (lines, missing): (usize, usize),
        to: *mut u8,
        (form, pack): (Form, PackFn<E>),
        k: Blocks,
        (threads, stripes): (usize, usize),
    ) -> Self {
        let lines = missing + lines;
        let from = from.wrapping_sub(missing * along);
        let all_panels = lines.div_ceil(LINES);
        // Where lines of a step are contiguous, panels side by side are read in place.
        let most = PANELS_AT_ONCE.min(all_panels.div_ceil(stripes));
        let panels = if apart == 1 { 1 } else { most };
        let groups = all_panels.div_ceil(panels);
        let parts = (PACK_TICKETS * threads).div_ceil(groups * k.count).min(k.steps);
        let steps = k.steps.div_ceil(parts);
        let range = Range::EMPTY;
        let range = AtomicRange { least: range.least.into(), largest: range.largest.into() };
        let parts = k.steps.div_ceil(steps);
        Self {
            from,
            along,
            apart,
            lines,
            missing,
            to,
            form,
            pack,
            panels,
            groups,
            steps,
            parts,
            range,
        }
    }

    pub(super) fn tickets(&self, k: Blocks) -> usize {
        self.groups * self.parts * k.count
    }

    /// # Safety
    /// The operand can be read, and that ticket's part of the packed form is this thread's.
    pub(super) unsafe fn pack(&self, ticket: usize, k: Blocks) {
        let (block, ticket) = (ticket % k.count, ticket / k.count);
        let (part, group) = (ticket % self.parts, ticket / self.parts);
        let (first_block_step, block_steps) = k.block(block);
        let first = part * self.steps;
        if first >= block_steps {
            return;
        }
        let first_panel = group * self.panels;
        let step = step_bytes::<E>();
        let to = panel(self.to, self.lines, first_panel, (first_block_step, block_steps), step);
        let panels = Panels {
            to: to.wrapping_add(first * step),
            panel: block_steps * step,
            steps: self.steps.min(block_steps - first),
            ..self.panels(first_panel, self.panels, first_block_step + first, k)
        };
        // SAFETY: the caller's promises: lines and elements that exist, into this ticket's steps of its
        // panels. A unit's packing function runs where the unit does.
        let range = unsafe { (self.pack)(&panels) };
        self.range.extend(range);
    }

    /// Packs a block of some panels for the caller alone, asking for what follows ahead, and tells its range.
    ///
    /// # Safety
    /// The operand can be read, and the block's steps of that many panels can be written at `to`.
    pub(super) unsafe fn pack_aside(
        &self,
        panels: std::ops::Range<usize>,
        block: usize,
        k: Blocks,
        to: *mut u8,
    ) -> Range {
        let (first_step, steps) = k.block(block);
        // Lines are streams, asked for a block ahead. Of rows only a few at a time stay in the L2, if they are a power of
        // two apart.
        let ahead = match self.apart {
            1 => (block + 1 < k.count).then_some(steps * E::STEP),
            _ => Some(ROWS_AHEAD * E::STEP),
        };
        let panel = steps * step_bytes::<E>();
        let panels = self.panels(panels.start, panels.len(), first_step, k);
        // SAFETY: the caller's promises. A unit's packing function runs where the unit does.
        unsafe { (self.pack)(&Panels { to, panel, steps, ahead, ..panels }) }
    }

    /// Some panels from a step on: all but where they go, and how many steps.
    fn panels(&self, first: usize, count: usize, first_step: usize, k: Blocks) -> Panels<E> {
        let (line, p) = (first * LINES, first_step * E::STEP);
        Panels {
            from: self.from.wrapping_add(line * self.along).wrapping_add(p * self.apart),
            along: self.along,
            apart: self.apart,
            lines: (self.lines - line).min(count * LINES),
            missing: self.missing.saturating_sub(line),
            k: k.elements - p,
            ahead: None,
            steps: 0,
            to: std::ptr::null_mut(),
            panel: 0,
            form: self.form,
        }
    }
}

/// Where a panel of an operand of `lines` lines begins, in a block of k given by its first step and their
/// number.
pub(super) fn panel(
    packed: *mut u8,
    lines: usize,
    index: usize,
    (first_step, steps): (usize, usize),
    step_bytes: usize,
) -> *mut u8 {
    let panels = lines.div_ceil(LINES);
    packed.wrapping_add((first_step * panels + index * steps) * step_bytes)
}

/// The blocks of k.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    pub(super) elements: usize,
    all_steps: usize,
    /// Steps of a block, of which the last may have fewer.
    steps: usize,
    pub(super) count: usize,
}

impl Blocks {
    pub(super) fn new<T: TileTypes>(k: usize) -> Self {
        let all_steps = k.div_ceil(T::A::STEP);
        // A little more than one block is one block, where that changes no bit.
        let whole = T::CARRIES && all_steps <= T::BLOCK + T::BLOCK / 8;
        let steps = if whole { all_steps } else { T::BLOCK.min(all_steps) };
        Self { elements: k, all_steps, steps, count: all_steps.div_ceil(steps) }
    }

    /// First step of a block, and how many it has.
    pub(super) fn block(self, block: usize) -> (usize, usize) {
        let first = block * self.steps;
        (first, self.steps.min(self.all_steps - first))
    }
}
