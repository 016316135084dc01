//! The numbers of level 3: which of them a GPU multiplies, and how.

use tessera::blas3::{Complex, Field, View, ViewMut};
use tessera::gpu::{DeviceMatMut, DeviceMatRef};
use tessera::{Element, Engine, Error, MultiplyInto, Placement, Problem};

use super::offload::Through;
use super::opened::Lane;
use super::stored::Stored;

/// Why complex products stay on the CPU.
pub(super) const NO_KERNEL: &str = "there is no kernel for complex numbers";

/// A number of level 3, as a GPU multiplies it; one that has no kernels is multiplied by none.
pub(crate) trait Number: Field<Real: Element> {
    /// Computes a product on the engine's GPU, if it is placed there; gives whether it was computed.
    fn on_gpu(
        through: &Through<'_>,
        _alpha: Self,
        _a: View<'_, Self>,
        _b: View<'_, Self>,
        _beta: Self,
        _c: ViewMut<'_, Self>,
    ) -> bool {
        through.tally.because(NO_KERNEL);
        false
    }

    /// Whether a product of m, n and k is placed on the engine's GPU.
    fn goes(_engine: &Engine, _sizes: [usize; 3]) -> bool {
        false
    }

    /// Computes a product of operands on a device, some transposed, in its legacy default stream, and waits for it.
    ///
    /// # Errors
    /// [`InPlace::None`] where such numbers have no kernel, and those of the library.
    ///
    /// # Safety
    /// The operands are on the lane's device, and as level 3 asks.
    unsafe fn in_place(
        _lane: &Lane,
        _alpha: Self,
        _a: (Stored<Self>, bool),
        _b: (Stored<Self>, bool),
        _beta: Self,
        _c: Stored<Self>,
    ) -> Result<(), InPlace> {
        Err(InPlace::None)
    }
}

impl Number for Complex<f32> {}
impl Number for Complex<f64> {}

/// Why operands on a device were not multiplied there.
pub(crate) enum InPlace {
    /// There is no kernel for such numbers.
    None,
    /// C is as it was.
    NotBegun(Error),
    /// Nobody knows what is in C.
    Lost(Error),
}

macro_rules! real {
    ($real:ty) => {
        impl Number for $real {
            fn on_gpu(
                through: &Through<'_>,
                alpha: Self,
                a: View<'_, Self>,
                b: View<'_, Self>,
                beta: Self,
                c: ViewMut<'_, Self>,
            ) -> bool {
                through.multiply::<Self>((alpha, beta), a, b, c)
            }

            fn goes(engine: &Engine, [m, n, k]: [usize; 3]) -> bool {
                let placed = engine.placement(&Problem::<Self>::new(m, n, k));
                matches!(placed, Ok(Placement::Gpu(_)))
            }

            unsafe fn in_place(
                lane: &Lane,
                alpha: Self,
                a: (Stored<Self>, bool),
                b: (Stored<Self>, bool),
                beta: Self,
                c: Stored<Self>,
            ) -> Result<(), InPlace> {
                // SAFETY: the caller's promise.
                unsafe { in_place::<Self>(lane, alpha, a, b, beta, c) }
            }
        }
    };
}

real!(f32);
real!(f64);

/// A product of real numbers in place.
///
/// # Safety
/// As [`Number::in_place`].
unsafe fn in_place<T>(
    lane: &Lane,
    alpha: T,
    (a, transposed_a): (Stored<T>, bool),
    (b, transposed_b): (Stored<T>, bool),
    beta: T,
    c: Stored<T>,
) -> Result<(), InPlace>
where
    T: MultiplyInto<T, T, Types: gemm_spec::GemmTypes<Acc = T>>,
{
    let queue = || {
        let of = |stored: Stored<T>, transposed| {
            let (rows, cols, layout) = (stored.rows, stored.cols, stored.layout());
            // SAFETY: the caller's promise: the driver has named the address as one of this device, where BLAS' caller
            // has a matrix of numbers, and nobody writes it before this call has waited for its end.
            let matrix = unsafe {
                DeviceMatRef::<T>::from_raw(&lane.context, stored.address(), rows, cols, layout)
            };
            matrix.map(|matrix| if transposed { matrix.transposed() } else { matrix })
        };
        let (a, b) = (of(a, transposed_a)?, of(b, transposed_b)?);
        let (rows, cols, layout) = (c.rows, c.cols, c.layout());
        // SAFETY: as above, and nobody else reads it either.
        let c =
            unsafe { DeviceMatMut::<T>::from_raw(&lane.context, c.address(), rows, cols, layout) };
        lane.stream.gemm(alpha, a, b, beta, &mut c?)
    };
    queue().map_err(InPlace::NotBegun)?;
    lane.stream.synchronize().map_err(InPlace::Lost)
}
