//! Which kernel suits a product on a GPU.

use gemm_spec::{DType, DeviceLimits, KernelSpec, Layout, Order, Problem};
use kernels_gpu::Kernel;

use crate::accuracy::Accuracy;
use crate::element::GemmTypes;

/// A canonical problem as that kernel gets it: with row-major copies of A and B where it reads nothing
/// else.
pub(crate) fn in_order<T: GemmTypes>(problem: &Problem<T>, spec: &KernelSpec) -> Problem<T> {
    if spec.reads_any_order() {
        return *problem;
    }
    let row_major = |layout: Layout, cols| match layout.order {
        Order::RowMajor => layout,
        Order::ColMajor => Layout::row_major(cols),
    };
    let (a, b) = (row_major(problem.a, problem.k), row_major(problem.b, problem.n));
    Problem { a, b, ..*problem }
}

/// The kernel that suits a problem with a row-major C on a GPU of those limits with that many bytes free,
/// and keeps to the accuracy mode; `None` where no kernel does. Kernels that read row-major operands alone
/// are judged by row-major copies of A and B.
#[must_use]
pub fn best_kernel<T: GemmTypes>(
    problem: &Problem<T>,
    limits: &DeviceLimits,
    free: u64,
    accuracy: Accuracy,
) -> Option<Kernel> {
    let can = |spec: &KernelSpec| {
        let problem = in_order(problem, spec);
        accuracy.admits(spec)
            && spec.supports(&problem, limits).is_ok()
            && fits(&problem, spec, free)
    };
    let Problem { m, n, k, .. } = *problem;
    let best = match T::TYPES.a() {
        DType::F32 => kernels_gpu::best_f32(m, n, k, limits.multiprocessors, can),
        DType::F16 | DType::BF16 => kernels_gpu::best_half(m, n, k, limits.multiprocessors, can),
        DType::F64 | DType::I32 | DType::I8 => None,
    };
    // Of the kernels that run everywhere those with wide loads were the fastest wherever they were
    // measured (docs/ladder.md).
    let everywhere =
        || ["vector_loads", "register_tile_2d", "naive"].into_iter().filter_map(Kernel::named);
    best.or_else(|| everywhere().find(|kernel| can(kernel)))
}

/// Whether that many bytes hold the three matrices and the kernel's workspace.
fn fits<T: GemmTypes>(problem: &Problem<T>, spec: &KernelSpec, free: u64) -> bool {
    let workspace = spec.workspace_bytes(problem);
    // Lines are padded on the device, by a sixteenth at most.
    let with_padding = |bytes: usize| bytes as u128 + bytes as u128 / 16;
    problem.bytes().is_some_and(|bytes| with_padding(bytes) + u128::from(workspace) <= free.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: DeviceLimits = DeviceLimits {
        compute_capability: (9, 0),
        max_threads_per_block: 1024,
        max_shared_bytes: 227 * 1024,
        multiprocessors: 132,
    };

    fn kernel<T: GemmTypes>(n: usize, limits: &DeviceLimits) -> &'static str {
        let problem = Problem::<T>::new(n, n, n);
        best_kernel(&problem, limits, u64::MAX, Accuracy::default())
            .map_or("none", |kernel| kernel.spec().id)
    }

    #[test]
    fn a_gpu_gets_the_kernel_that_suits_the_product_and_the_device() {
        assert_eq!(kernel::<f32>(8192, &H200), "f16x3");
        let ampere = DeviceLimits { compute_capability: (8, 0), ..H200 };
        assert_eq!(kernel::<f32>(1024, &ampere), "split_k_32x128");
        assert_eq!(kernel::<f32>(8192, &ampere), "async_copy_128x256");
        let volta = DeviceLimits { compute_capability: (7, 0), ..H200 };
        for everywhere in [
            kernel::<f64>(1024, &H200),
            kernel::<i32>(1024, &ampere),
            kernel::<f32>(1024, &volta),
            kernel::<f64>(1024, &volta),
        ] {
            assert_eq!(everywhere, "vector_loads");
        }
        // Room for the matrices, and not for their limbs beside them.
        let problem = Problem::<f32>::new(8192, 8192, 8192);
        let of = |free, accuracy| best_kernel(&problem, &H200, free, accuracy).unwrap().spec().id;
        assert_eq!(of(1 << 30, Accuracy::Fp32), "async_copy_128x256");
        assert_eq!(of(u64::MAX, Accuracy::Componentwise), "bf16x6");
        // No opting in: what fits 48 KiB.
        let small = DeviceLimits { max_shared_bytes: gemm_spec::SHARED_WITHOUT_OPT_IN, ..ampere };
        assert_eq!(kernel::<f32>(8192, &small), "async_copy_64x256");
    }

    #[test]
    fn where_no_kernel_multiplies_a_type_there_is_none() {
        let ampere = DeviceLimits { compute_capability: (8, 0), ..H200 };
        assert_eq!(kernel::<gemm_spec::f16>(1024, &ampere), "none");
        assert_eq!(kernel::<gemm_spec::bf16>(1024, &H200), "tensor_128x128");
        assert_eq!(kernel::<i8>(1024, &H200), "none");
    }

    /// What `vector_loads` would be asked of a column-major operand is answered for its row-major copy.
    #[test]
    fn kernels_that_read_rows_alone_are_judged_by_the_copies_they_get() {
        let problem = Problem { b: Layout::col_major(64), ..Problem::<f64>::new(64, 64, 64) };
        let chosen = best_kernel(&problem, &H200, u64::MAX, Accuracy::default()).unwrap();
        assert_eq!(chosen.id, "vector_loads");
        assert_eq!(in_order(&problem, &chosen).b, Layout::row_major(64));
    }
}
