//! Which batches of products have a kernel of their own.

use gemm_spec::batched::SMALL;
use kernels_gpu::Kernel;

/// Multiply-adds of each product that one more product in the batch allows.
///
/// A normal kernel takes a launch for each product, a microsecond or two; the kernel for batches computes a large
/// product slower, but all of them in one launch.
const WORK_PER_PRODUCT: u128 = 1 << 14;

/// The kernel for a batch of `count` products of m, n and k, where these are small enough, and enough of them,
/// for one launch to be faster than one for each.
pub(crate) fn batched(sizes: [usize; 3], count: usize) -> Option<Kernel> {
    let [m, n, k] = sizes;
    let [most_side, most_k] = SMALL.map(|most| most as usize);
    let work = m as u128 * n as u128 * k as u128;
    let is_small = m <= most_side && n <= most_side && k <= most_k;
    let pays = count > 1 && work <= WORK_PER_PRODUCT * count as u128;
    if is_small && pays { Kernel::named("batched_small") } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_products_and_many_of_them_are_one_launch() {
        let is_batched = |sizes, count| batched(sizes, count).is_some();
        assert!(is_batched([4, 4, 4], 2) && is_batched([32, 32, 32], 100));
        assert!(is_batched([128, 128, 128], 1000) && is_batched([64, 1, 512], 10));
        assert!(!is_batched([4, 4, 4], 1) && !is_batched([128, 128, 128], 20));
        assert!(!is_batched([129, 8, 8], 10_000) && !is_batched([8, 8, 513], 10_000));
    }
}
