//! The order in which the products of an element of C are added up: the engine's sum.
//!
//! ```text
//! chain        128 k elements: fused multiply-adds in order of k, from zero on
//! superblock   2 KiB of k elements, 512 in f32 and 256 in f64: the sums of its chains, added in order
//! sum          the sums of all superblocks, added in order
//! ```
//!
//! The last chain and the last superblock have the elements that are left. Up to 128 elements a sum is one chain.
//! The lengths are fixed, since the bits depend on them; neither caches, nor threads, nor registers have a say.
//!
//! A sum of n terms in one chain has n roundings, each at the magnitude of the sum so far. Here an element of A times
//! one of B goes through 128 roundings in its chain, three at most in its superblock, and one for each superblock behind.
//!
//! Source: Castaldo, Whaley and Chronopoulos, "Reducing floating point error in dot product using the superblock
//! family of algorithms" (2008).

use gemm_spec::{Accumulator, DType, Element};

/// k elements of a chain.
pub const CHAIN: usize = 128;
/// k elements of a superblock, for sums of a type: as many as a block of B keeps in the first cache.
pub const fn superblock<Acc>() -> usize {
    (2 << 10) / size_of::<Acc>()
}

/// The engine's sum of `k` products: `add_product(p, sum)` gives `sum` plus product `p`, rounded once.
///
/// This is the definition, which every path of the engine has the bits of.
#[inline(always)]
pub fn engine_sum<Acc: Accumulator>(k: usize, add_product: impl FnMut(usize, Acc) -> Acc) -> Acc {
    // One rounding: times one is exact.
    let lengths = (CHAIN, superblock::<Acc>());
    in_superblocks(k, lengths, Acc::ZERO, add_product, |sum, other| Acc::ONE.mul_add(other, sum))
}

/// The same of numbers of any kind, with chains and superblocks of that many products.
#[inline(always)]
pub(crate) fn in_superblocks<T: Copy>(
    k: usize,
    (chain, superblock): (usize, usize),
    zero: T,
    mut add_product: impl FnMut(usize, T) -> T,
    add: impl Fn(T, T) -> T,
) -> T {
    let (mut p, mut sum, mut total) = (0, zero, zero);
    while p < k {
        let (first, end) = (p, k.min(p - p % chain + chain));
        let mut of_chain = zero;
        while p < end {
            of_chain = add_product(p, of_chain);
            p += 1;
        }
        sum = if first % superblock == 0 { of_chain } else { add(sum, of_chain) };
        if p % superblock == 0 || p == k {
            total = if p <= superblock { sum } else { add(total, sum) };
        }
    }
    total
}

/// Whether sums of that type have the same bits in any order, so that a chain need never end.
pub(crate) const fn is_exact<T: Element>() -> bool {
    matches!(T::DTYPE, DType::I32)
}

/// Where one kind of partial sums waits, column j at `at + j * ld`; null where none does.
#[derive(Clone, Copy)]
pub(crate) struct Place<T> {
    pub(crate) at: *mut T,
    pub(crate) ld: usize,
}

impl<T> Place<T> {
    /// Nothing waits.
    pub(crate) const NONE: Self = Self { at: std::ptr::null_mut(), ld: 0 };

    /// The place that many rows below.
    #[inline(always)]
    pub(crate) fn after(self, rows: usize) -> Self {
        Self { at: self.at.wrapping_add(rows), ..self }
    }

    /// The place of an element's sum; an address that need not exist.
    #[inline(always)]
    pub(crate) fn of(self, row: usize, col: usize) -> Self {
        if self.at.is_null() {
            return self;
        }
        Self { at: self.at.wrapping_add(row.wrapping_add(col.wrapping_mul(self.ld))), ..self }
    }
}

/// Where partial sums wait from one call of a micro-kernel for the next one.
#[derive(Clone, Copy)]
pub(crate) struct Partials<T> {
    /// Those of chains that have not ended; of exact sums all.
    pub(crate) chain: Place<T>,
    /// Those of the chains that have ended in a superblock that has not.
    pub(crate) superblock: Place<T>,
    /// Those of the superblocks that have ended, and sums that are complete.
    pub(crate) total: Place<T>,
}

impl<T> Partials<T> {
    /// Nothing waits.
    pub(crate) const NONE: Self =
        Self { chain: Place::NONE, superblock: Place::NONE, total: Place::NONE };

    /// The places of an element's sums.
    #[inline(always)]
    pub(crate) fn of(self, row: usize, col: usize) -> Self {
        Self {
            chain: self.chain.of(row, col),
            superblock: self.superblock.of(row, col),
            total: self.total.of(row, col),
        }
    }
}

/// Which partial sums wait between calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) chain: bool,
    pub(crate) superblock: bool,
    pub(crate) total: bool,
}

impl Waiting {
    /// Where the k elements are added in calls of `steps`, and complete sums are stored or not.
    ///
    /// Where there are several calls, each is of whole chains, or all steps of each are of one chain: a micro-kernel
    /// can leave but one chain that has not ended.
    pub(crate) fn between<T: Element>(k: usize, steps: usize, stores: bool) -> Self {
        let last = (k - 1) / steps * steps;
        let in_chains = steps.is_multiple_of(CHAIN) || CHAIN.is_multiple_of(steps);
        debug_assert!(is_exact::<T>() || last == 0 || in_chains, "a call ends within a chain");
        if is_exact::<T>() {
            return Self { chain: last > 0, superblock: false, total: stores };
        }
        let mut ends = (steps..=last).step_by(steps);
        Self {
            chain: last > 0 && !steps.is_multiple_of(CHAIN),
            superblock: ends.any(|end| end % superblock::<T>() >= CHAIN),
            total: last >= superblock::<T>() || stores,
        }
    }

    /// How many kinds wait.
    pub(crate) fn count(self) -> usize {
        usize::from(self.chain) + usize::from(self.superblock) + usize::from(self.total)
    }

    /// Memory for them: each kind takes `elements` elements from `from` on, columns `ld` apart, but the first that
    /// waits of totals, superblocks and chains is in `first`, if there is such a place.
    pub(crate) fn places<T>(
        self,
        first: Option<Place<T>>,
        from: *mut T,
        (elements, ld): (usize, usize),
    ) -> Partials<T> {
        let (mut first, mut from) = (first, from);
        let mut place = |waits: bool| {
            if !waits {
                return Place::NONE;
            }
            first.take().unwrap_or_else(|| {
                let at = from;
                from = from.wrapping_add(elements);
                Place { at, ld }
            })
        };
        let (total, superblock) = (place(self.total), place(self.superblock));
        Partials { total, superblock, chain: place(self.chain) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums as the elements they have, in brackets for each addition of sums.
    fn written(k: usize, chain: usize) -> String {
        let mut text = vec![];
        let sum = in_superblocks(
            k,
            (chain, 4 * chain),
            usize::MAX,
            |p, sum| {
                match sum {
                    usize::MAX => text.push(p.to_string()),
                    sum => text[sum].push_str(&format!(" {p}")),
                }
                text.len() - 1
            },
            |_, sum| sum,
        );
        assert!(k == 0 || sum == text.len() - 1);
        text.join(", ")
    }

    #[test]
    fn chains_begin_where_they_should() {
        assert_eq!(written(0, 2), "");
        assert_eq!(written(5, 2), "0 1, 2 3, 4");
        assert_eq!(written(11, 2), "0 1, 2 3, 4 5, 6 7, 8 9, 10");
    }

    /// Chains of one whose products are powers of two that tell in which order they are added.
    #[test]
    fn superblocks_are_added_to_the_sum_of_those_before() {
        let add = |sum: Vec<String>, other: Vec<String>| {
            vec![format!("({} + {})", sum.concat(), other.concat())]
        };
        let names: Vec<Vec<String>> = (0..10).map(|p| vec![p.to_string()]).collect();
        let all = std::cell::RefCell::new(names.clone());
        let sum = in_superblocks(
            10,
            (1, 4),
            usize::MAX,
            |p, _| p,
            |sum, other| {
                let mut all = all.borrow_mut();
                let new = add(all[sum].clone(), all[other].clone());
                all.push(new);
                all.len() - 1
            },
        );
        let expected = "(((((0 + 1) + 2) + 3) + (((4 + 5) + 6) + 7)) + (8 + 9))";
        assert_eq!(all.into_inner()[sum].concat(), expected);
    }

    #[test]
    fn up_to_a_chain_it_is_one_chain() {
        let product = |p: usize, sum: f32| (p as f32).sin().mul_add((p as f32).cos(), sum);
        for (k, same) in [(1, true), (127, true), (128, true), (129, false), (700, false)] {
            let chain = (0..k).fold(0.0, |sum, p| product(p, sum));
            assert_eq!(engine_sum(k, product) == chain, same, "{k}");
        }
    }

    #[test]
    fn what_waits_is_what_calls_leave_behind() {
        let waiting = |k, steps| {
            let Waiting { chain, superblock, total } = Waiting::between::<f32>(k, steps, false);
            (chain, superblock, total)
        };
        assert_eq!(waiting(100, 100), (false, false, false));
        assert_eq!(waiting(513, 513), (false, false, false));
        assert_eq!(waiting(100, 64), (true, false, false));
        assert_eq!(waiting(200, 128), (false, true, false));
        assert_eq!(waiting(200, 32), (true, true, false));
        assert_eq!(waiting(512, 512), (false, false, false));
        assert_eq!(waiting(513, 512), (false, false, true));
        assert_eq!(waiting(700, 128), (false, true, true));
        assert_eq!(waiting(769, 384), (false, true, true));
        assert!(!Waiting::between::<f64>(300, 256, false).superblock);
        let exact = Waiting::between::<i32>(700, 128, false);
        assert_eq!(exact, Waiting { chain: true, superblock: false, total: false });
        assert_eq!(Waiting::between::<f32>(7, 8, true).count(), 1);
    }
}
