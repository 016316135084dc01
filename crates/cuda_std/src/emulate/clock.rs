//! What a thread knows to have happened: vector clocks.
//!
//! A cluster has components, each with a time of its own: every thread, every `mbarrier` (the phases that have
//! ended), every named barrier, the groups of products of every warpgroup and the groups of stores of every
//! thread. An access is stamped with the component that publishes it and the time from which it is known:
//! what a thread does itself with its own time, what a copy writes with the phase that it completes.

/// A component of a clock.
pub(super) type Component = u16;

/// When an access is known to be over: once a clock's time of this component is at least that time. Time 0 is that
/// of no access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) time: u32,
    pub(super) component: Component,
    /// The source line, as [`Sites`](super::sites::Sites) numbers it.
    pub(super) site: u16,
}

impl Stamp {
    pub(super) fn is_some(self) -> bool {
        self.time != 0
    }
}

/// What a thread knows, or what an object has been told.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    /// For each component the time up to which its accesses come before.
    pub(super) seen: Vec<u32>,
    /// The same with a proxy fence on the way, of threads' components.
    pub(super) bridged: Vec<u32>,
    /// The time up to which its accesses are over, also where nothing makes visible what they wrote: of the phases
    /// that a copy tells of, and of what comes before an arrival that releases nothing.
    pub(super) over: Vec<u32>,
}

fn join(into: &mut Vec<u32>, from: &[u32]) {
    if into.len() < from.len() {
        into.resize(from.len(), 0);
    }
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the instructions.
        return unsafe { raise_all_avx2(into, from) };
    }
    raise_all(into, from);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn raise_all_avx2(into: &mut [u32], from: &[u32]) {
    raise_all(into, from);
}

/// Each time becomes the later of two.
#[inline(always)]
fn raise_all(into: &mut [u32], from: &[u32]) {
    for (into, &from) in into.iter_mut().zip(from) {
        *into = (*into).max(from);
    }
}

fn raise(times: &mut Vec<u32>, component: Component, time: u32) {
    let at = usize::from(component);
    if times.len() <= at {
        times.resize(at + 1, 0);
    }
    times[at] = times[at].max(time);
}

fn at(times: &[u32], component: Component) -> u32 {
    times.get(usize::from(component)).copied().unwrap_or(0)
}

impl Clock {
    /// Learns all that another clock knows.
    pub(super) fn join(&mut self, other: &Self) {
        join(&mut self.seen, &other.seen);
        join(&mut self.bridged, &other.bridged);
        join(&mut self.over, &other.over);
    }

    /// Learns only what the other clock knows to be over.
    pub(super) fn join_over(&mut self, other: &Self) {
        join(&mut self.over, &other.over);
        join(&mut self.over, &other.seen);
    }

    /// Becomes the other clock.
    pub(super) fn become_like(&mut self, other: &Self) {
        self.seen.clone_from(&other.seen);
        self.bridged.clone_from(&other.bridged);
        self.over.clone_from(&other.over);
    }

    pub(super) fn time(&self, component: Component) -> u32 {
        at(&self.seen, component)
    }

    pub(super) fn see(&mut self, component: Component, time: u32) {
        raise(&mut self.seen, component, time);
    }

    pub(super) fn knows(&self, stamp: Stamp) -> bool {
        self.time(stamp.component) >= stamp.time
    }

    /// Whether a read, or the landing of a copy, is over.
    pub(super) fn is_over(&self, stamp: Stamp) -> bool {
        self.phases(stamp.component) >= stamp.time
    }

    pub(super) fn bridges(&self, stamp: Stamp) -> bool {
        at(&self.bridged, stamp.component) >= stamp.time
    }

    /// Phases of a barrier that are known to have ended.
    pub(super) fn phases(&self, component: Component) -> u32 {
        at(&self.over, component).max(self.time(component))
    }

    pub(super) fn end_phases(&mut self, component: Component, phases: u32) {
        raise(&mut self.over, component, phases);
    }

    /// A fence between the generic and the async proxy: what is known now is known to copies and products, too.
    pub(super) fn fence(&mut self) {
        self.bridged.clone_from(&self.seen);
    }
}
