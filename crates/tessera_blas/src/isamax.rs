//! The one routine of level 1: the loader that Julia puts before a BLAS asks it for the size of the library's integers.

use crate::int::Int;

/// Accumulators of the largest magnitude, side by side, so that the loop is one of vectors.
const LANES: usize = 16;

/// The number, from 1, of the first element with the largest magnitude; 0 of no elements. As in the reference BLAS,
/// a NaN is passed over, but if it is the first element it is the answer.
///
/// # Safety
/// `n` elements, `step` apart, can be read from `x` on.
pub(crate) unsafe fn isamax<I: Int>(n: I, x: *const f32, step: I) -> I {
    let (Some(n), Some(step)) = (n.size(), step.size()) else { return I::of(0) };
    if n == 0 || step == 0 {
        return I::of(0);
    }
    if step == 1 {
        // SAFETY: the caller's promise.
        let x = unsafe { std::slice::from_raw_parts(x, n) };
        return I::of_size(of_neighbours(x).wrapping_add(1));
    }
    // SAFETY: the caller's promise, for each index below `n`.
    let at = |index: usize| unsafe { x.wrapping_add(index.wrapping_mul(step)).read() }.abs();
    let (mut largest, mut found) = (at(0), 0);
    for index in 1..n {
        let value = at(index);
        if value > largest {
            (largest, found) = (value, index);
        }
    }
    I::of_size(found.wrapping_add(1))
}

/// The index of the element, of elements side by side.
fn of_neighbours(x: &[f32]) -> usize {
    if x[0].is_nan() {
        return 0;
    }
    let mut lanes = [0f32; LANES];
    let chunks = x.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            let value = value.abs();
            *lane = if value > *lane { value } else { *lane };
        }
    }
    // A NaN is not the largest: `max` passes it over.
    let largest = lanes.into_iter().chain(rest.iter().map(|value| value.abs())).fold(0.0, f32::max);
    x.iter().position(|value| value.abs() == largest).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_definition(x: &[f32], step: usize, n: usize) -> i32 {
        let mut found = 0;
        for index in 1..n {
            if x[index * step].abs() > x[found * step].abs() {
                found = index;
            }
        }
        i32::try_from(found + 1).unwrap()
    }

    #[test]
    fn the_first_of_the_largest_is_found() {
        let mut x: Vec<f32> = (0..400u16).map(|at| f32::from(at * 37 % 101) - 50.0).collect();
        for with_nan in [false, true] {
            if with_nan {
                (x[7], x[170]) = (f32::NAN, f32::NAN);
            }
            for n in 1..100usize {
                for step in [1usize, 3] {
                    for first in 0..9 {
                        let x = &x[first..];
                        let (n_of_c, step_of_c) =
                            (i32::try_from(n).unwrap(), i32::try_from(step).unwrap());
                        // SAFETY: there are as many elements.
                        let found = unsafe { isamax(n_of_c, x.as_ptr(), step_of_c) };
                        assert_eq!(found, by_definition(x, step, n), "{n} {step} {first}");
                    }
                }
            }
        }
        let x = [0.0f32, 0.0];
        // SAFETY: no element is read but of the last, which has two.
        let of = |n: i64, step: i64| unsafe { isamax(n, x.as_ptr(), step) };
        assert_eq!([of(0, 1), of(-3, 1), of(2, 0), of(2, -1), of(2, 1)], [0, 0, 0, 0, 1]);
    }
}
