//! What the threads of a run did, put together from the emulator's events.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::{self, Write};

use anyhow::{Context, bail, ensure};
use cuda_std::emulate::{AccessKind, Action, Event};

use super::N;
use tessera::Matrix;

/// What the mark of a load means.
pub(super) const AHEAD: &str =
    "* read from global memory before the last barrier, ahead of its use";

/// A thread's or a block's place: x and y.
pub(super) type Place = (u32, u32);

/// An element of A, B or C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Element {
    pub(super) matrix: char,
    pub(super) row: usize,
    pub(super) col: usize,
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}][{}]", self.matrix, self.row, self.col)
    }
}

/// One element that a thread put into shared memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) element: Element,
    /// Its place in shared memory, as an element of `tileA` or `tileB`.
    pub(super) slot: Slot,
    /// It was read from global memory before the barrier that precedes this step.
    pub(super) ahead: bool,
}

/// A place in one of the two tiles in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) tile: char,
    pub(super) row: usize,
    pub(super) col: usize,
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tile{}[{}][{}]", self.tile, self.row, self.col)
    }
}

/// Two places in shared memory that a thread multiplied, and the elements they held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Term {
    pub(super) slots: (Slot, Slot),
    pub(super) elements: (Element, Element),
    pub(super) values: (f32, f32),
}

/// What one thread did between two barriers.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    pub(super) loads: Vec<Load>,
    pub(super) terms: Vec<Term>,
    /// The sum of all terms up to here.
    pub(super) sum: f32,
    pub(super) stores: Vec<Element>,
}

/// What a step is, by what its threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Load,
    Multiply,
    Store,
}

/// What all threads did between two barriers: by block, then by thread, x running fastest.
pub(super) struct Step {
    pub(super) kind: Kind,
    pub(super) blocks: Vec<(Place, Vec<(Place, Work)>)>,
}

/// A run: its steps, with a barrier between each and the next.
pub(super) struct Trace {
    /// Edge of the tiles.
    pub(super) width: usize,
    pub(super) steps: Vec<Step>,
    /// The element of C that each thread of each block stored.
    owners: HashMap<(Place, Place), Element>,
}

/// Where the run's matrices lie, and what they hold.
pub(super) struct Memory<'a> {
    pub(super) a: &'a Matrix<f32>,
    pub(super) b: &'a Matrix<f32>,
    /// Address of C's first element.
    pub(super) c: usize,
}

impl Memory<'_> {
    fn element(&self, address: usize) -> anyhow::Result<Element> {
        let [a, b] = [self.a, self.b].map(|matrix| matrix.as_slice().as_ptr().addr());
        for (matrix, base) in [('A', a), ('B', b), ('C', self.c)] {
            let at = address.wrapping_sub(base) / size_of::<f32>();
            if address >= base && at < N * N {
                return Ok(Element { matrix, row: at / N, col: at % N });
            }
        }
        bail!("a thread touched memory outside A, B and C")
    }

    fn value(&self, element: Element) -> anyhow::Result<f32> {
        let matrix = if element.matrix == 'A' { self.a } else { self.b };
        matrix.get(element.row, element.col).context("an element outside its matrix")
    }
}

/// What is known of a block while its events are read.
#[derive(Default)]
struct Block {
    /// What each place in shared memory holds.
    shared: HashMap<usize, Element>,
    threads: BTreeMap<Place, Thread>,
}

#[derive(Default)]
struct Thread {
    /// Elements read from global memory and not put into shared memory yet, with the step of the
    /// read. A thread puts them there in the order in which it read them.
    fetched: VecDeque<(Element, usize)>,
    /// Elements read from shared memory in this step.
    factors: [Vec<(Slot, Element)>; 2],
    works: Vec<Work>,
    sum: f32,
}

impl Trace {
    /// Puts a run of the kernel with that width of tiles together.
    pub(super) fn new(width: usize, events: &[Event], memory: &Memory<'_>) -> anyhow::Result<Self> {
        let mut blocks: BTreeMap<Place, Block> = BTreeMap::new();
        for event in events {
            // Rows of blocks first, so that the order is that of C.
            let block = blocks.entry((event.block.1, event.block.0)).or_default();
            let place = (event.thread.1, event.thread.0);
            block.record(place, event.action, width, memory)?;
        }
        let mut steps: Vec<Step> = Vec::new();
        let mut owners = HashMap::new();
        for ((by, bx), block) in blocks {
            let mut columns: Vec<Vec<(Place, Work)>> = Vec::new();
            for ((ty, tx), mut thread) in block.threads {
                thread.end_step(memory)?;
                for (at, work) in thread.works.into_iter().enumerate() {
                    if let Some(&element) = work.stores.first() {
                        owners.insert(((bx, by), (tx, ty)), element);
                    }
                    columns.resize_with(columns.len().max(at + 1), Vec::new);
                    columns[at].push(((tx, ty), work));
                }
            }
            for (at, threads) in columns.into_iter().enumerate() {
                let kind = kind(&threads)?;
                if steps.len() == at {
                    steps.push(Step { kind, blocks: Vec::new() });
                }
                ensure!(steps[at].kind == kind, "blocks differ in what step {at} is");
                steps[at].blocks.push(((bx, by), threads));
            }
        }
        Ok(Self { width, steps, owners })
    }

    /// How many pairs of tiles each block walks over.
    pub(super) fn phases(&self) -> usize {
        self.steps.iter().filter(|step| step.kind == Kind::Multiply).count()
    }

    /// Whether any element is read from global memory before the step that it is put away in.
    pub(super) fn fetches_ahead(&self) -> bool {
        self.steps
            .iter()
            .flat_map(Step::works)
            .any(|(_, _, work)| work.loads.iter().any(|load| load.ahead))
    }

    /// The sum that each element of C has after a step.
    pub(super) fn sums(&self, step: &Step) -> HashMap<(usize, usize), f32> {
        step.works()
            .filter_map(|(block, thread, work)| {
                let owned = self.owners.get(&(block, thread))?;
                Some(((owned.row, owned.col), work.sum))
            })
            .collect()
    }

    /// The loads of a step from that matrix: how many, and of how many different elements.
    pub(super) fn loads(step: &Step, matrix: char) -> (usize, usize) {
        let mut elements: Vec<Element> = step
            .works()
            .flat_map(|(_, _, work)| &work.loads)
            .map(|load| load.element)
            .filter(|element| element.matrix == matrix)
            .collect();
        let loads = elements.len();
        elements.sort();
        elements.dedup();
        (loads, elements.len())
    }

    /// The run in words.
    pub(super) fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        let barriers = self.steps.len() - 1;
        let (mut phase, mut barrier) = (1, 0);
        let phases = self.phases();
        for step in &self.steps {
            match step.kind {
                Kind::Load => {
                    writeln!(text, "Phase {phase} of {phases}, load: global -> shared memory")?;
                }
                Kind::Multiply => writeln!(text, "Phase {phase} of {phases}, multiply")?,
                Kind::Store => writeln!(text, "Store: registers -> global memory")?,
            }
            for (block, threads) in &step.blocks {
                writeln!(text, "  Block({},{})", block.0, block.1)?;
                for (thread, work) in threads {
                    writeln!(text, "    Thread({},{}): {}", thread.0, thread.1, words(work))?;
                }
            }
            if step.kind == Kind::Load {
                for matrix in ['A', 'B'] {
                    let (loads, elements) = Self::loads(step, matrix);
                    writeln!(text, "  {loads} loads of {matrix}, {elements} different elements")?;
                }
                if step.works().any(|(_, _, work)| work.loads.iter().any(|load| load.ahead)) {
                    writeln!(text, "  {AHEAD}")?;
                }
            }
            if step.kind == Kind::Multiply {
                let sums = self.sums(step);
                let grid = super::grid(|row, col| sums.get(&(row, col)));
                write!(text, "  C so far, in registers:\n{grid}")?;
                phase += 1;
            }
            if barrier < barriers {
                barrier += 1;
                let why = match step.kind {
                    Kind::Load => "both tiles are whole before anybody reads them",
                    Kind::Multiply | Kind::Store => {
                        "everybody has read the tiles before they are overwritten"
                    }
                };
                writeln!(text, "-- barrier {barrier}: {why} --")?;
            }
        }
        let stores = self.steps.iter().flat_map(Step::works).map(|(_, _, work)| work.stores.len());
        let stores: usize = stores.sum();
        writeln!(text, "{phases} phases, {barriers} barriers for each thread, {stores} stores")?;
        Ok(text)
    }
}

impl Step {
    /// Each block, thread and work.
    pub(super) fn works(&self) -> impl Iterator<Item = (Place, Place, &Work)> {
        self.blocks
            .iter()
            .flat_map(|(block, threads)| threads.iter().map(|(at, work)| (*block, *at, work)))
    }
}

impl Block {
    fn record(
        &mut self,
        place: Place,
        action: Action,
        width: usize,
        memory: &Memory<'_>,
    ) -> anyhow::Result<()> {
        let thread = self.threads.entry(place).or_default();
        let step = thread.works.len().max(1);
        if thread.works.is_empty() {
            thread.works.push(Work::default());
        }
        let work = thread.works.last_mut().context("a thread has a step")?;
        match action {
            Action::Global { kind: AccessKind::Read, address, .. } => {
                thread.fetched.push_back((memory.element(address)?, step));
            }
            Action::Global { kind: AccessKind::Write | AccessKind::Atomic, address, .. } => {
                work.stores.push(memory.element(address)?);
            }
            Action::Shared { kind: AccessKind::Write | AccessKind::Atomic, offset, .. } => {
                let fetched = thread.fetched.pop_front();
                let (element, read) = fetched.context("a thread stored what it never read")?;
                let at = offset / size_of::<f32>();
                self.shared.insert(at, element);
                let slot = slot(at, width);
                ensure!(slot.tile == element.matrix, "{element} was put into {slot}");
                work.loads.push(Load { element, slot, ahead: read < step });
            }
            Action::Shared { kind: AccessKind::Read, offset, bytes } => {
                let first = offset / size_of::<f32>();
                for at in first..first + bytes / size_of::<f32>() {
                    let element = *self.shared.get(&at).context("a read of an empty slot")?;
                    let factor = usize::from(element.matrix == 'B');
                    thread.factors[factor].push((slot(at, width), element));
                }
            }
            Action::Barrier => {
                thread.end_step(memory)?;
                thread.works.push(Work::default());
            }
            // The kernels that are shown have none.
            Action::Instruction(_) => {}
        }
        Ok(())
    }
}

impl Thread {
    /// Pairs what was read from the two tiles, and adds the products up.
    fn end_step(&mut self, memory: &Memory<'_>) -> anyhow::Result<()> {
        let [a, b] = std::mem::take(&mut self.factors);
        ensure!(a.len() == b.len(), "a thread read {} of A and {} of B", a.len(), b.len());
        let work = self.works.last_mut().context("a thread has a step")?;
        for (a, b) in a.into_iter().zip(b) {
            let values = (memory.value(a.1)?, memory.value(b.1)?);
            self.sum = values.0.mul_add(values.1, self.sum);
            work.terms.push(Term { slots: (a.0, b.0), elements: (a.1, b.1), values });
        }
        work.sum = self.sum;
        Ok(())
    }
}

/// The place of an element of shared memory: `tileA` comes first, then `tileB`.
fn slot(at: usize, width: usize) -> Slot {
    let tile = if at < width * width { 'A' } else { 'B' };
    let at = at % (width * width);
    Slot { tile, row: at / width, col: at % width }
}

/// What the threads of a block do in one step.
fn kind(threads: &[(Place, Work)]) -> anyhow::Result<Kind> {
    let any = |has: fn(&Work) -> bool| threads.iter().any(|(_, work)| has(work));
    let found = [
        (Kind::Load, any(|work| !work.loads.is_empty())),
        (Kind::Multiply, any(|work| !work.terms.is_empty())),
        (Kind::Store, any(|work| !work.stores.is_empty())),
    ];
    match found.iter().filter(|(_, found)| *found).collect::<Vec<_>>()[..] {
        [&(kind, _)] => Ok(kind),
        _ => bail!("a step is none of load, multiply and store: {found:?}"),
    }
}

/// A thread's work on one line.
fn words(work: &Work) -> String {
    let loads = work.loads.iter().map(|load| {
        let mark = if load.ahead { "*" } else { "" };
        format!("{}{mark} -> {}", load.element, load.slot)
    });
    let mut parts: Vec<String> = loads.collect();
    if !work.terms.is_empty() {
        let slots: Vec<String> =
            work.terms.iter().map(|term| format!("{}*{}", term.slots.0, term.slots.1)).collect();
        let values: Vec<String> =
            work.terms.iter().map(|term| format!("{}*{}", term.values.0, term.values.1)).collect();
        parts.push(format!("{} = {}; sum {}", slots.join(" + "), values.join(" + "), work.sum));
    }
    parts.extend(work.stores.iter().map(|element| format!("{element} = {}", work.sum)));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use kernels_gpu::KERNELS;

    use super::*;
    use crate::cli::demo::watched;

    /// A and B in which no two elements are equal, and the trace of their product.
    fn traced(width: usize) -> (Matrix<f32>, Trace) {
        let id = format!("tiled{width}");
        let spec = KERNELS.iter().copied().find(|spec| spec.id == id).unwrap();
        let a = Matrix::from_fn(N, N, |row, col| (1 + 4 * row + col) as f32).unwrap();
        let b = Matrix::from_fn(N, N, |row, col| (100 + 7 * row + 31 * col) as f32).unwrap();
        watched(spec, width, &a, &b).unwrap()
    }

    /// What the trace says was multiplied gives what the kernel stored, so it names the elements
    /// that the kernel used.
    #[test]
    fn the_terms_of_the_trace_give_the_kernels_result() {
        for width in [2, 4] {
            let (c, trace) = traced(width);
            let last = trace.steps.last().unwrap();
            let sums = trace.sums(last);
            assert_eq!(sums.len(), N * N);
            for ((row, col), sum) in sums {
                assert_eq!(c.get(row, col), Some(sum), "C[{row}][{col}], tiles of {width}");
            }
        }
    }

    #[test]
    fn each_term_of_a_sum_is_used_once() {
        let (_, trace) = traced(2);
        let mut steps = BTreeMap::new();
        for (block, thread, work) in trace.steps.iter().flat_map(Step::works) {
            for term in &work.terms {
                let (a, b) = term.elements;
                let c = trace.owners[&(block, thread)];
                assert_eq!((a.matrix, a.row, b.matrix, b.col), ('A', c.row, 'B', c.col));
                assert_eq!(a.col, b.row);
                *steps.entry((c, a.col)).or_insert(0) += 1;
            }
        }
        assert_eq!(steps.len(), N * N * N);
        assert!(steps.values().all(|&times| times == 1));
    }

    #[test]
    fn loads_stores_and_barriers_are_counted() {
        let (_, trace) = traced(2);
        let kinds: Vec<Kind> = trace.steps.iter().map(|step| step.kind).collect();
        let phase = [Kind::Load, Kind::Multiply];
        assert_eq!(kinds, [&phase[..], &phase, &[Kind::Store]].concat());
        for step in trace.steps.iter().filter(|step| step.kind == Kind::Load) {
            for matrix in ['A', 'B'] {
                assert_eq!(Trace::loads(step, matrix), (16, 8), "{matrix}");
            }
        }
        let stored: usize = trace.steps[4].works().map(|(_, _, work)| work.stores.len()).sum();
        assert_eq!(stored, 16);
    }
}
