//! What the engine computes of each [`Field`](crate::field::Field): the one place that ties numbers to their paths.

use num_complex::Complex;

use crate::complex::ComplexKernels;
use crate::context::CpuContext;
use crate::field::{Factor, sealed};
use crate::gemm_symmetric::Symmetric;
use crate::isa::CpuIsa;
use crate::near::NearFn;
use crate::region::TriangleOf;
use crate::triangle_kernel::Task;
use crate::types::PackedTypes;
use crate::view::ViewMut;
use crate::{complex, complex_in_tiles, real, triangle_blocks, way};

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

            #[inline]
            fn is_in_tiles(size: (usize, usize, usize), context: &CpuContext) -> bool {
                way::in_tiles::<$real>(context.units(), size, context)
            }

            #[inline]
            fn near(isa: CpuIsa, transposed: bool) -> NearFn<Self> {
                <$real as PackedTypes>::kernels(isa).near[usize::from(transposed)]
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

            fn multiply_symmetric(
                alpha: Self,
                a: Symmetric<'_, Self>,
                b: Factor<'_, Self>,
                beta: Self,
                c: ViewMut<'_, Self>,
                context: &CpuContext,
            ) {
                real::multiply_symmetric(alpha, a, b, beta, c, context);
            }

            fn triangle(
                task: Task,
                alpha: Self,
                a: Factor<'_, Self>,
                b: ViewMut<'_, Self>,
                context: &CpuContext,
            ) {
                let kernels = |_, _| <$real as PackedTypes>::kernels(context.isa());
                triangle_blocks::compute::<Self, Self>(kernels, task, alpha, a, b, context);
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

            #[inline]
            fn is_in_tiles(size: (usize, usize, usize), context: &CpuContext) -> bool {
                complex_in_tiles::suits::<$real>(size, context)
            }

            #[inline]
            fn near(isa: CpuIsa, transposed: bool) -> NearFn<Self> {
                let kernels = <$real as ComplexKernels>::kernels_of_parts(isa, (false, false));
                kernels.near_parts[usize::from(transposed)]
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

            fn multiply_symmetric(
                alpha: Self,
                a: Symmetric<'_, Self>,
                b: Factor<'_, Self>,
                beta: Self,
                c: ViewMut<'_, Self>,
                context: &CpuContext,
            ) {
                complex::multiply_symmetric(alpha, a, b, beta, c, context);
            }

            fn triangle(
                task: Task,
                alpha: Self,
                a: Factor<'_, Self>,
                b: ViewMut<'_, Self>,
                context: &CpuContext,
            ) {
                let of = |a, b| <$real as ComplexKernels>::kernels_of_parts(context.isa(), (a, b));
                triangle_blocks::compute::<$real, Self>(of, task, alpha, a, b, context);
            }
        }
    )*};
}

computed!(f32, f64);
