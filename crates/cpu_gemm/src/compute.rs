//! What the engine computes of each [`Field`](crate::field::Field): the one place that ties numbers to their paths.

use num_complex::Complex;

use crate::context::CpuContext;
use crate::field::{Factor, sealed};
use crate::triangle_kernel::Task;
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
