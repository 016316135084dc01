//! GPU kernels on the CPU emulator: the same sources, with no GPU needed.

use std::sync::atomic::{AtomicPtr, Ordering};

use cuda_std::emulate::{self, Launch, Observer};
use gemm_spec::{DeviceLimits, KernelSpec, Problem};

use crate::error::Error;
use crate::scalar::Scalar;

/// What the emulator allows a kernel: every module, and a block as large as any device takes.
pub const LIMITS: DeviceLimits = DeviceLimits {
    compute_capability: (u32::MAX, 0),
    max_threads_per_block: 1024,
    max_shared_bytes: 227 * 1024,
};

/// Computes `C = alpha * A * B + beta * C` with a kernel of the registry, block by block on the CPU.
///
/// It shows what the kernel's own source computes, not how long it takes: an emulated thread is
/// thousands of times slower than a real one.
///
/// # Errors
/// [`Error::Shape`] where a buffer is too short and [`Error::Unsupported`] where the kernel cannot do
/// the problem, C then being unchanged; [`Error::Emulation`] where the kernel itself goes wrong.
pub fn run<T: Scalar>(
    spec: &KernelSpec,
    problem: &Problem<T>,
    a: &[T],
    b: &[T],
    c: &mut [T],
) -> Result<(), Error> {
    run_kernel(spec, problem, a, b, c, None)
}

/// The same, and tells an observer what each thread of the kernel does.
///
/// # Errors
/// Those of [`run`].
pub fn run_observed<T: Scalar>(
    spec: &KernelSpec,
    problem: &Problem<T>,
    a: &[T],
    b: &[T],
    c: &mut [T],
    observer: &dyn Observer,
) -> Result<(), Error> {
    run_kernel(spec, problem, a, b, c, Some(observer))
}

fn run_kernel<T: Scalar>(
    spec: &KernelSpec,
    problem: &Problem<T>,
    a: &[T],
    b: &[T],
    c: &mut [T],
    observer: Option<&dyn Observer>,
) -> Result<(), Error> {
    problem.check_buffers(a.len(), b.len(), c.len())?;
    let Problem { m, n, k, alpha, beta, .. } = *problem;
    if m == 0 || n == 0 {
        return Ok(());
    }
    let refused = |reason| Error::Unsupported { kernel: spec.id, reason };
    spec.supports(problem, &LIMITS).map_err(refused)?;
    let launch = launch(spec, problem).map_err(refused)?;
    let entry = spec
        .entry(T::DTYPE)
        .ok()
        .and_then(kernels_gpu::emulated_entry)
        .and_then(T::emulated_fn)
        .expect("invariant: each entry of a kernel is also a function of its element type");

    // `supports` has bounded the sizes; leading dimensions are 64-bit in a kernel.
    let (m, n, k) = (m as u32, n as u32, k as u32);
    let [lda, ldb, ldc] = [problem.a.ld, problem.b.ld, problem.c.ld].map(|ld| ld as u64);
    // Blocks run on many threads, and each takes the one pointer to C from here.
    let c = AtomicPtr::new(c.as_mut_ptr());
    let body = || {
        let c = c.load(Ordering::Relaxed);
        // SAFETY: (1) the operands are row-major, which `supports` has checked, and their buffers
        // hold them at these leading dimensions, which `check_buffers` has; all three are borrowed
        // until `emulate::run` returns, C exclusively, so it overlaps neither input and nobody else
        // touches it. (2) The launch is what the spec gives for this m and n, both of them >= 1.
        unsafe { entry(m, n, k, alpha, a.as_ptr(), lda, b.as_ptr(), ldb, beta, c, ldc) }
    };
    match observer {
        None => emulate::run(&launch, body),
        Some(observer) => emulate::run_observed(&launch, observer, body),
    }
    .map_err(|source| Error::Emulation { kernel: spec.id, source })
}

/// The launch that a kernel's spec gives for a problem.
fn launch<T: Scalar>(
    spec: &KernelSpec,
    problem: &Problem<T>,
) -> Result<Launch, gemm_spec::Unsupported> {
    let grid = spec.grid(problem.m, problem.n)?;
    let block = spec.block(problem.m, problem.n)?;
    Ok(Launch {
        grid: (grid.x, grid.y, grid.z),
        block: (block.x, block.y, 1),
        shared_bytes: spec.shared_bytes(T::DTYPE) as usize,
    })
}

#[cfg(test)]
mod tests {
    use gemm_spec::{Layout, Operand, Unsupported};
    use kernels_gpu::KERNELS;

    use super::*;

    #[test]
    fn every_kernel_gives_the_product_of_padded_operands() {
        let (m, n, k) = (5, 7, 9);
        let problem = Problem::<i32>::new(m, n, k).with_scalars(2, -1).with_layouts(
            Layout::row_major(k + 1),
            Layout::row_major(n + 2),
            Layout::row_major(n + 3),
        );
        let a: Vec<i32> = (0..60).map(|at| at % 11 - 5).collect();
        let b: Vec<i32> = (0..90).map(|at| at % 13 - 6).collect();
        let before: Vec<i32> = (0..60).map(|at| 1000 + at).collect();
        for spec in KERNELS {
            let mut c = before.clone();
            run(spec, &problem, &a, &b, &mut c).unwrap();
            for (at, &value) in c.iter().enumerate() {
                let (row, col) = (at / (n + 3), at % (n + 3));
                let inside = row < m && col < n;
                let sum: i32 = (0..k)
                    .filter(|_| inside)
                    .map(|step| a[row * (k + 1) + step] * b[step * (n + 2) + col])
                    .sum();
                let want = if inside { 2 * sum - before[at] } else { before[at] };
                assert_eq!(value, want, "{} at ({row}, {col})", spec.id);
            }
        }
    }

    #[test]
    fn what_a_kernel_cannot_do_leaves_c_alone() {
        let spec = KERNELS.iter().find(|spec| spec.id == "single_block").unwrap();
        let mut c = vec![7f32; 33 * 32];
        let wide = Problem::new(33, 32, 1);
        let refused = run(spec, &wide, &[1.0; 33], &[1.0; 32], &mut c);
        assert!(matches!(
            refused,
            Err(Error::Unsupported { reason: Unsupported::SingleBlock { .. }, .. })
        ));
        let transposed = Problem { b: Layout::col_major(4), ..Problem::new(4, 4, 4) };
        assert!(matches!(
            run(spec, &transposed, &[1.0; 16], &[1.0; 16], &mut c),
            Err(Error::Unsupported { reason: Unsupported::Order { operand: Operand::B }, .. })
        ));
        assert!(matches!(
            run(spec, &Problem::new(4, 4, 4), &[1.0; 15], &[1.0; 16], &mut c),
            Err(Error::Shape(_))
        ));
        assert!(c.iter().all(|&value| value == 7.0));
    }
}
