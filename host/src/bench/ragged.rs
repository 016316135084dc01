//! Shapes that suit no tile, the same on every machine.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Sizes of ragged shapes, the first and the last.
const SIZES: (f64, f64) = (17.0, 9000.0);
/// No size is a multiple of this: no row of a matrix begins like the one before it.
const NO_MULTIPLE_OF: usize = 8;
/// The seed of the list.
const SEED: u64 = 1;

/// The first `count` of an endless list of m, n and k, each between 17 and 9000, as many below as above
/// any geometric mean, and none a multiple of 8.
#[must_use]
pub fn shapes(count: usize) -> Vec<[usize; 3]> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let (first, last) = SIZES;
    let mut size = || {
        loop {
            // Rounded far more coarsely than systems differ in a logarithm's last bit.
            let size = (first * (last / first).powf(random.random::<f64>())).round();
            #[expect(clippy::cast_possible_truncation, reason = "whole, and between the two sizes")]
            let size = size as usize;
            if !size.is_multiple_of(NO_MULTIPLE_OF) {
                return size;
            }
        }
    };
    (0..count).map(|_| [size(), size(), size()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_ragged_reaches_far_and_grows_at_its_end() {
        let shapes = shapes(40);
        let sizes: Vec<usize> = shapes.iter().flatten().copied().collect();
        assert!(sizes.iter().all(|size| (17..=9000).contains(size) && size % 8 != 0));
        assert!(sizes.iter().any(|&size| size < 30) && sizes.iter().any(|&size| size > 5000));
        let below = sizes.iter().filter(|&&size| size < 391).count();
        assert!((40..=80).contains(&below), "{below} of 120 below the middle");
        assert_eq!(super::shapes(7), shapes[..7]);
    }
}
