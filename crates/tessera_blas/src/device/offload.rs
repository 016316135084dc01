//! What computes the products of a call: the CPU's threads, and a GPU for those that should go there.

use std::cell::{Cell, RefCell};

use gemm_spec::Element as _;
use tessera::blas3::{Factor, Products, View, ViewMut, views_use_matrix_units};
use tessera::gpu::Kernel;
use tessera::select::Predicted;
use tessera::{CpuContext, Engine, Error, GemmTypes, Placement, Problem};

use super::log::die;
use super::number::Number;
use super::opened::Opened;

/// An engine with what a call is told of it.
pub(crate) struct Through<'a> {
    opened: &'static Opened,
    pub(super) tally: &'a Tally,
}

/// What became of the products of a call.
#[derive(Default)]
pub(crate) struct Tally {
    /// Whether predictions are wanted, each of which takes as long as a small product.
    predicts: bool,
    all: Counted,
    on_gpu: Counted,
    /// By matrix units of the CPU.
    in_tiles: Counted,
    kernel: Cell<Option<&'static str>>,
    /// Why the CPU computed the last one that might have gone.
    why: RefCell<String>,
}

/// How many products, and their operations.
#[derive(Default)]
struct Counted {
    count: Cell<usize>,
    flops: Cell<f64>,
}

impl Counted {
    fn add(&self, flops: f64) {
        self.count.set(self.count.get() + 1);
        self.flops.set(self.flops.get() + flops);
    }
}

impl Tally {
    pub(super) fn new(predicts: bool) -> Self {
        Self { predicts, ..Self::default() }
    }

    fn went(&self, flops: f64, kernel: Kernel) {
        self.on_gpu.add(flops);
        self.kernel.set(Some(kernel.id));
    }

    pub(super) fn because(&self, why: impl Into<String>) {
        *self.why.borrow_mut() = why.into();
    }

    /// Whether a GPU computed any product.
    pub(super) fn used_gpu(&self) -> bool {
        self.on_gpu.count.get() > 0
    }

    /// By what kernel, and how much of the work.
    pub(super) fn by_kernel(&self) -> String {
        let kernel = self.kernel.get().unwrap_or("no kernel");
        format!(" by {kernel}{}", self.share(&self.on_gpu))
    }

    /// Whether by matrix units of the CPU, and how much of the work.
    pub(super) fn by_units(&self) -> String {
        match self.in_tiles.count.get() {
            0 => String::new(),
            _ => format!(" by matrix units{}", self.share(&self.in_tiles)),
        }
    }

    /// How much of the work these products are, if they are not all.
    fn share(&self, of: &Counted) -> String {
        let (some, all) = (of.count.get(), self.all.count.get());
        if some >= all {
            return String::new();
        }
        let part = 100.0 * of.flops.get() / self.all.flops.get().max(1.0);
        format!(" for {some} of {all} products, {part:.0} % of their work")
    }

    pub(super) fn why(&self) -> String {
        let why = self.why.borrow();
        if why.is_empty() && self.all.count.get() == 0 {
            return "no product is a part of it".to_owned();
        }
        why.clone()
    }
}

impl Through<'_> {
    /// Says what a product is predicted to take here and there, where that is wanted.
    fn predict<T: GemmTypes>(&self, engine: &Engine, problem: &Problem<T>) {
        if self.tally.predicts
            && let Ok(Some(Predicted { gpu, cpu, .. })) = engine.predicted(problem)
        {
            self.tally.because(format!("predicted {gpu:.6} s on the GPU, {cpu:.6} s on the CPU"));
        }
    }

    /// A product of numbers that the library has kernels for.
    pub(super) fn multiply<T: GemmTypes>(
        &self,
        (alpha, beta): (T::Acc, T::Acc),
        a: View<'_, T::A>,
        b: View<'_, T::B>,
        c: ViewMut<'_, T::C>,
    ) -> bool {
        let engine = match self.opened.engine() {
            Ok(engine) => engine,
            Err(why) => {
                self.tally.because(why);
                return false;
            }
        };
        let layouts = [a.layout(), b.layout(), c.layout()];
        let problem = Problem::<T>::new(c.rows(), c.cols(), a.cols())
            .with_scalars(alpha, beta)
            .with_layouts(layouts[0], layouts[1], layouts[2]);
        let failed = match engine.placement(&problem) {
            Ok(Placement::Gpu(kernel)) => {
                self.predict(engine, &problem);
                match engine.gemm_by::<T>(kernel, alpha, a, b, beta, c) {
                    Ok(()) => {
                        self.tally.went(problem.flops(), kernel);
                        return true;
                    }
                    Err(failed) => failed,
                }
            }
            Ok(_) => {
                self.tally.because("the CPU should end first");
                self.predict(engine, &problem);
                return false;
            }
            Err(error) => error.into(),
        };
        let why = failed.error.to_string();
        if failed.written && beta != T::Acc::ZERO {
            die(&format!("{why}; some of C is written, and cannot be computed anew"));
        }
        if matches!(failed.error, Error::Cuda { .. } | Error::Ptx(_)) {
            self.opened.give_up(&why);
        }
        self.tally.because(why);
        false
    }
}

/// What a call is computed with.
pub(crate) struct Means<'a> {
    cpu: &'a CpuContext,
    gpu: Option<Through<'a>>,
    tally: Option<&'a Tally>,
}

impl<'a> Means<'a> {
    /// The CPU alone.
    pub(super) fn cpu(cpu: &'a CpuContext) -> Self {
        Self { cpu, gpu: None, tally: None }
    }

    /// The CPU, and the engine's GPU for what is placed there.
    pub(super) fn with(
        cpu: &'a CpuContext,
        opened: Option<&'static Opened>,
        tally: &'a Tally,
    ) -> Self {
        Self { cpu, gpu: opened.map(|opened| Through { opened, tally }), tally: Some(tally) }
    }
}

impl<T: Number> Products<T> for Means<'_> {
    #[inline]
    fn cpu(&self) -> &CpuContext {
        self.cpu
    }

    fn goes_elsewhere(&self, sizes: [usize; 3]) -> bool {
        let engine = self.gpu.as_ref().and_then(|through| through.opened.engine().ok());
        engine.is_some_and(|engine| T::goes(engine, sizes))
    }

    fn product(
        &self,
        alpha: T,
        a: Factor<'_, T>,
        b: Factor<'_, T>,
        beta: T,
        mut c: ViewMut<'_, T>,
    ) {
        let size = [c.rows(), c.cols(), a.view.cols()];
        let flops = size.iter().fold(2.0, |flops, &side| flops * side as f64);
        if let Some(tally) = self.tally {
            tally.all.add(flops);
        }
        let gone = self.gpu.as_ref().is_some_and(|through| {
            c.rows() > 0
                && c.cols() > 0
                && T::on_gpu(through, alpha, a.view, b.view, beta, c.reborrow())
        });
        if !gone {
            if let Some(tally) = self.tally
                && views_use_matrix_units::<T>(size, self.cpu)
            {
                tally.in_tiles.add(flops);
            }
            self.cpu.product(alpha, a, b, beta, c);
        }
    }
}
