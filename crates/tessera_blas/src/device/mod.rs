//! On which device a call is computed, and what it says of it.
//!
//! ```text
//! settings.rs   what the environment says
//! log.rs        lines about calls
//! stored.rs     operands as a caller has them
//! pointers.rs   where they are
//! opened.rs     the GPU of the process, and that a child has none
//! number.rs     which numbers a GPU multiplies, and operands in place
//! offload.rs    which products of a call a GPU computes
//! copied.rs     operands on a device that are computed in host memory
//! ```
//!
//! With the usual settings nothing of it happens: [`is_plain`] is one load.
//!
//! # Safety
//!
//! As in [`level3`](crate::level3), of operands that the host can use or that a driver knows as a device's.

mod copied;
mod log;
mod number;
mod offload;
mod opened;
mod pointers;
mod settings;
mod stored;

use std::time::Instant;

use tessera::CpuContext;
use tessera::blas3::{self, NearShape, Op};

use self::log::die;
pub(crate) use self::number::Number;
use self::number::{InPlace, NO_KERNEL};
pub(crate) use self::offload::Means;
use self::offload::Tally;
pub(crate) use self::opened::forget;
use self::opened::{Opened, if_opened, is_lost, lane, opened, usual_device};
use self::pointers::{Place, Together, driver, place_of, together};
use self::settings::{Settings, Wanted, settings};
pub(crate) use self::settings::{is_plain, told};
pub(crate) use self::stored::Stored;
use crate::level3::FITS;
use crate::threads;
use crate::xerbla::Routine;

/// Multiply-adds of the call for which a GPU is opened, which takes about a second, where the CPU may end first.
const OPENS: usize = 1 << 27;

/// A call, for those who want to know of it.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    /// What was called.
    pub(crate) routine: Routine,
    /// The sizes that it was given, as many as it has.
    pub(crate) sizes: &'a [usize],
    /// Multiply-adds of real numbers.
    pub(crate) work: usize,
}

/// Computes a routine of level 3: `body` is given what computes products and the operands, the caller's own or, of
/// those that are on a device, copies.
///
/// # Safety
/// See the [module](self).
pub(crate) unsafe fn compute<T: Number, const N: usize>(
    call: Call<'_>,
    operands: [Stored<T>; N],
    body: impl FnOnce(&Means<'_>, [Stored<T>; N]),
) {
    if is_plain() {
        return threads::compute(call.work, |cpu| body(&Means::cpu(cpu), operands));
    }
    threads::compute(call.work, |cpu| {
        let watched = Watched::begin(call);
        let places = watched.places(operands);
        // SAFETY: the caller's promise.
        unsafe { watched.compute(cpu, places, operands, body) };
    });
}

/// The operands of a general product.
#[derive(Clone, Copy)]
pub(crate) struct General<T> {
    pub(crate) ops: (Op, Op),
    pub(crate) alpha: T,
    pub(crate) a: Stored<T>,
    pub(crate) b: Stored<T>,
    pub(crate) beta: T,
    pub(crate) c: Stored<T>,
}

impl<T: Number> General<T> {
    fn operands(&self) -> [Stored<T>; 3] {
        [self.a, self.b, self.c]
    }

    /// Computes it on the caller's thread where it is so small that what a call costs is felt; gives whether it did.
    ///
    /// # Safety
    /// See the [module](self); the host can use the operands.
    #[inline(always)]
    pub(crate) unsafe fn near(&self) -> bool {
        let Self { ops: (op_a, op_b), alpha, beta, .. } = *self;
        // SAFETY: the caller's promise.
        let a = unsafe { self.a.view() };
        // SAFETY: the caller's promise.
        let b = unsafe { self.b.view() };
        // SAFETY: the caller's promise.
        let mut c = unsafe { self.c.view_mut() };
        blas3::gemm_near(op_a, op_b, alpha, a, b, beta, &mut c, threads::alone())
    }

    /// What it has in common with others of other operands, where it is so small.
    ///
    /// # Safety
    /// See the [module](self); the host can use the operands.
    pub(crate) unsafe fn near_shape(&self) -> Option<NearShape<T>> {
        let Self { ops: (op_a, op_b), alpha, beta, .. } = *self;
        // SAFETY: the caller's promise.
        let a = unsafe { self.a.view() };
        // SAFETY: the caller's promise.
        let b = unsafe { self.b.view() };
        // SAFETY: the caller's promise.
        let mut c = unsafe { self.c.view_mut() };
        blas3::near_shape((op_a, op_b), alpha, a, b, beta, &mut c, threads::alone())
    }

    /// Computes it by these means.
    ///
    /// # Safety
    /// See the [module](self); the host can use the operands.
    unsafe fn by(&self, means: &Means<'_>) {
        let Self { ops: (op_a, op_b), alpha, beta, .. } = *self;
        // SAFETY: the caller's promise.
        let a = unsafe { self.a.view() };
        // SAFETY: the caller's promise.
        let b = unsafe { self.b.view() };
        // SAFETY: the caller's promise.
        let c = unsafe { self.c.view_mut() };
        blas3::gemm(op_a, op_b, alpha, a, b, beta, c, means).expect(FITS);
    }

    /// Computes it on the threads of a context.
    ///
    /// # Safety
    /// See the [module](self); the host can use the operands.
    pub(crate) unsafe fn on_cpu(&self, cpu: &CpuContext) {
        // SAFETY: the caller's promise.
        unsafe { self.by(&Means::cpu(cpu)) }
    }
}

/// Computes a general product where not all settings are the usual ones.
///
/// # Safety
/// See the [module](self).
pub(crate) unsafe fn gemm<T: Number>(call: Call<'_>, product: General<T>) {
    threads::compute(call.work, |cpu| {
        let watched = Watched::begin(call);
        let places = watched.places(product.operands());
        let done = match together(&places) {
            // SAFETY: the caller's promise, and the driver knows the operands as this device's.
            Together::OnDevice(device, context) => unsafe {
                watched.in_place(device, context, product)
            },
            Together::Host if watched.leaves_small_ones() => {
                // SAFETY: the caller's promise.
                unsafe { product.near() }
            }
            Together::Host | Together::Apart => false,
        };
        if done {
            return;
        }
        let body = |means: &Means<'_>, [a, b, c]: [Stored<T>; 3]| {
            // SAFETY: the caller's promise, or that of whoever has made a copy.
            unsafe { General { a, b, c, ..product }.by(means) }
        };
        // SAFETY: the caller's promise.
        unsafe { watched.compute(cpu, places, product.operands(), body) };
    });
}

/// A call under way.
struct Watched<'a> {
    call: Call<'a>,
    settings: &'static Settings,
    tally: Tally,
    begun: Instant,
}

impl<'a> Watched<'a> {
    fn begin(call: Call<'a>) -> Self {
        let (begun, settings) = (Instant::now(), settings());
        let tally = Tally::new(settings.log.is_some() && settings.device == Wanted::Auto);
        Self { call, settings, tally, begun }
    }

    /// Where each of the operands is, if that makes a difference.
    fn places<T, const N: usize>(&self, operands: [Stored<T>; N]) -> [Place; N] {
        if self.settings.device == Wanted::Cpu {
            return [Place::Host; N];
        }
        match driver() {
            Some(driver) => operands.map(|operand| place_of(driver, operand.address())),
            None => [Place::Host; N],
        }
    }

    /// Computes a product of operands on a device, if there are kernels for it; gives whether it did.
    ///
    /// # Safety
    /// The operands are on that device.
    unsafe fn in_place<T: Number>(
        &self,
        device: Option<u32>,
        context: cuda_lazy::RawContext,
        product: General<T>,
    ) -> bool {
        let device = device.unwrap_or_else(usual_device);
        let lane = match lane(device) {
            Ok(lane) if context.is_null() || lane.context.as_raw() == context => lane,
            Ok(_) => {
                self.tally.because("the operands are of a context that is not the primary one");
                return false;
            }
            Err(error) => {
                self.tally.because(error.to_string());
                return false;
            }
        };
        let General { ops, alpha, a, b, beta, c } = product;
        let of = |op, stored| (stored, op != Op::NoTrans);
        // SAFETY: the caller's promise.
        let done = unsafe { T::in_place(&lane, alpha, of(ops.0, a), of(ops.1, b), beta, c) };
        match done {
            Ok(()) => {
                self.say(&format!("cuda:{device}"), "the operands are there");
                true
            }
            Err(InPlace::None) => {
                self.tally.because(NO_KERNEL);
                false
            }
            Err(InPlace::NotBegun(error)) => {
                self.tally.because(error.to_string());
                false
            }
            Err(InPlace::Lost(error)) => die(&format!("{}: {error}", self.call.routine)),
        }
    }

    /// Whether the smallest products are the CPU's, and nobody wants to know of them.
    fn leaves_small_ones(&self) -> bool {
        self.settings.device == Wanted::Auto && self.settings.log.is_none()
    }

    /// # Safety
    /// See the [module](self).
    unsafe fn compute<T: Number, const N: usize>(
        &self,
        cpu: &CpuContext,
        places: [Place; N],
        operands: [Stored<T>; N],
        body: impl FnOnce(&Means<'_>, [Stored<T>; N]),
    ) {
        let opened = self.opened();
        let means = Means::with(cpu, opened, &self.tally);
        let body = |operands| body(&means, operands);
        // SAFETY: the caller's promise, of operands that are where the driver says.
        unsafe { copied::with_copies(self.call.routine, operands, places, body) };
        if self.tally.used_gpu() {
            let index = opened.and_then(|it| it.engine().ok()?.gpu()).map(|gpu| gpu.info().index);
            let place = format!("cuda:{}{}", index.unwrap_or_default(), self.tally.by_kernel());
            self.say(&place, &self.tally.why());
        } else {
            self.say(&format!("cpu{}", self.tally.by_units()), &self.tally.why());
        }
    }

    /// The engine for this call, which may be the one for which it is opened.
    fn opened(&self) -> Option<&'static Opened> {
        let found = match self.settings.device {
            Wanted::Cpu => Err("TESSERA_BLAS_DEVICE is cpu"),
            Wanted::Cuda(_) => opened(),
            Wanted::Auto if self.call.work >= OPENS || is_lost() => opened(),
            Wanted::Auto => if_opened().ok_or("too little work to open a GPU for"),
        };
        found.map_err(|why| self.tally.because(why)).ok()
    }

    /// Leaves a line, where one is wanted.
    fn say(&self, place: &str, why: &str) {
        let Some(log) = &self.settings.log else { return };
        let Call { routine, sizes, .. } = self.call;
        let sizes: Vec<_> = sizes.iter().map(ToString::to_string).collect();
        let (sizes, seconds) = (sizes.join(" x "), self.begun.elapsed().as_secs_f64());
        let because = if why.is_empty() { String::new() } else { format!("; {why}") };
        log.write(&format!("{routine} {sizes}: {place}, {seconds:.6} s{because}"));
    }
}
