//! Which rows and columns are compared where not all are.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

/// The first, the last and random others of `len` rows or columns, `count` in all or as many as
/// there are, in ascending order.
pub(super) fn choose(len: usize, count: usize, random: &mut Xoshiro256PlusPlus) -> Vec<usize> {
    if len <= count {
        return (0..len).collect();
    }
    let mut chosen = vec![0, len - 1];
    while chosen.len() < count {
        let index = any_of(len, random);
        if !chosen.contains(&index) {
            chosen.push(index);
        }
    }
    chosen.sort_unstable();
    chosen
}

/// One of `len` rows or columns.
#[expect(clippy::cast_possible_truncation, reason = "below `len`")]
pub(super) fn any_of(len: usize, random: &mut Xoshiro256PlusPlus) -> usize {
    (random.next_u64() % len as u64) as usize
}

#[cfg(test)]
mod tests {
    use rand_xoshiro::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn ends_are_always_among_the_chosen() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        for len in 0..40 {
            let chosen = choose(len, 6, &mut random);
            assert_eq!(chosen.len(), len.min(6));
            assert!(chosen.is_sorted_by(|a, b| a < b));
            assert!(len == 0 || (chosen[0] == 0 && chosen.last() == Some(&(len - 1))));
        }
    }
}
