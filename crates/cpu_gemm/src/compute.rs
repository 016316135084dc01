//! What the engine computes of each [`Field`](crate::field::Field): the one place that ties numbers to their paths.

use num_complex::Complex;

use crate::complex::ComplexKernels;
use crate::context::CpuContext;
use crate::field::{Factor, sealed};
use crate::isa::CpuIsa;
use crate::near::Near;
use crate::region::TriangleOf;
use crate::triangle_kernel::Task;
use crate::types::PackedTypes;
use crate::view::ViewMut;
use crate::{complex, real, triangle};

macro_rules! computed {
    ($($real:ty),*) => {$(
        impl sealed::Compute for $real {
            fn multiply(
                alpha: Self,
                a: Factor<'_, Self>,
                b: Factor<'_, Self>,
                beta: Self,
                c: ViewMut<'_, Self>,
                context: &CpuContext,
            ) {
                real::multiply(alpha, a, b, beta, c, context);
            }

            unsafe fn multiply_near(near: &Near<Self>, isa: CpuIsa) {
                let kernels = <$real as PackedTypes>::kernels(isa);
                // SAFETY: the caller's promises.
                unsafe { (kernels.near[usize::from(near.is_transposed())])(near) }
            }

            fn multiply_triangle(
                of: TriangleOf,
                alpha: Self,
                a: Factor<'_, Self>,
                b: Factor<'_, Self>,
                beta: Self,
                c: ViewMut<'_, Self>,
                context: &CpuContext,
            ) -> bool {
                real::multiply_triangle(of, alpha, a, b, beta, c, context)
            }

            fn triangle(
                task: Task,
                alpha: Self,
                a: Factor<'_, Self>,
                b: ViewMut<'_, Self>,
                context: &CpuContext,
            ) {
                triangle::compute::<Self, Self>(task, alpha, a, b, context);
            }
        }

        impl sealed::Compute for Complex<$real> {
            fn multiply(
                alpha: Self,
                a: Factor<'_, Self>,
                b: Factor<'_, Self>,
                beta: Self,
                c: ViewMut<'_, Self>,
                context: &CpuContext,
            ) {
                complex::multiply(alpha, a, b, beta, c, context);
            }

            unsafe fn multiply_near(near: &Near<Self>, isa: CpuIsa) {
                let kernels = <$real as ComplexKernels>::kernels_of_parts(isa, (false, false));
                // SAFETY: the caller's promises.
                unsafe { (kernels.near_parts[usize::from(near.is_transposed())])(near) }
            }

            fn multiply_triangle(
                of: TriangleOf,
                alpha: Self,
                a: Factor<'_, Self>,
                b: Factor<'_, Self>,
                beta: Self,
                c: ViewMut<'_, Self>,
                context: &CpuContext,
            ) -> bool {
                complex::multiply_triangle(of, alpha, a, b, beta, c, context)
            }

            fn triangle(
                task: Task,
                alpha: Self,
                a: Factor<'_, Self>,
                b: ViewMut<'_, Self>,
                context: &CpuContext,
            ) {
                triangle::compute::<$real, Self>(task, alpha, a, b, context);
            }
        }
    )*};
}

computed!(f32, f64);
