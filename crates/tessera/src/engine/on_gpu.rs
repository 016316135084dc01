//! An engine's GPU: which products go there, by which kernel, and in which form.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cpu_gemm::{CpuContext, View, ViewMut};
use gemm_spec::{Element as _, Layout, Order, Problem, Types};

use crate::accuracy::Accuracy;
use crate::element::GemmTypes;
use crate::error::Error;
use crate::gpu::{Gpu, Kernel, Unfinished};
use crate::row_major::row_major_view;
use crate::select::{CostModel, Figures, Predicted, in_order};

/// When an engine uses its GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rule {
    /// For each product that it should end before the CPU does.
    WhereFaster,
    /// For every product, by the kernel that suits it.
    Always,
    /// For every product, by that kernel.
    Kernel(Kernel),
}

/// Threads of the CPU that a deterministic choice assumes, whatever there are.
const ASSUMED_THREADS: usize = 16;

/// A GPU, and what the choice of its kernels depends on.
pub(super) struct OnGpu {
    gpu: Gpu,
    rule: Rule,
    model: CostModel,
    deterministic: bool,
    /// Operations of products of each type up to which the CPU is chosen without a look at the GPU.
    cpu_first: Vec<(Types, f64)>,
    /// What was found out about the GPU a moment ago.
    recent: Mutex<Option<Recent>>,
}

/// How long the driver's word on free memory is taken for true: to ask takes a good part of a small
/// product's time, and what others take meanwhile may as well be taken after the answer.
const FREE_FOR: Duration = Duration::from_millis(20);

/// Choices that are remembered meanwhile.
const RECENT_CHOICES: usize = 16;

/// The driver's word on free memory, and what was chosen by it.
struct Recent {
    asked: Instant,
    free: u64,
    /// Kernels that should end before the CPU, or none.
    choices: Vec<(Shape, Option<Kernel>)>,
}

/// All of a product that its choice depends on.
#[derive(Clone, Copy, PartialEq)]
struct Shape {
    types: Types,
    sizes: [usize; 3],
    layouts: [Layout; 3],
    /// Whether `alpha` and `beta` are zero.
    zeros: [bool; 2],
    accuracy: Accuracy,
}

impl Shape {
    fn of<T: GemmTypes>(problem: &Problem<T>, accuracy: Accuracy) -> Self {
        let Problem { m, n, k, alpha, beta, a, b, c, .. } = *problem;
        let zeros = [alpha == T::Acc::ZERO, beta == T::Acc::ZERO];
        Self { types: T::TYPES, sizes: [m, n, k], layouts: [a, b, c], zeros, accuracy }
    }
}

impl OnGpu {
    pub(super) fn new(
        gpu: Gpu,
        rule: Rule,
        cpu: &CpuContext,
        figures: Option<&Figures>,
        deterministic: bool,
    ) -> Self {
        let figures = figures.filter(|_| !deterministic);
        let model = CostModel::new(gpu.model().clone(), &gpu.info().name, figures);
        let mut on_gpu = Self {
            model,
            gpu,
            rule,
            deterministic,
            cpu_first: Vec::new(),
            recent: Mutex::new(None),
        };
        if rule == Rule::WhereFaster {
            let threads = on_gpu.threads(cpu);
            let first = |types| (types, on_gpu.model.cpu_first(types, threads));
            on_gpu.cpu_first = Types::ALL.map(first).to_vec();
        }
        on_gpu
    }

    pub(super) fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// The number of CPU threads that predictions assume.
    fn threads(&self, cpu: &CpuContext) -> usize {
        if self.deterministic { ASSUMED_THREADS } else { cpu.threads() }
    }

    /// Whether the CPU ends first whatever the product is, for one of that many operations: the driver is
    /// not even asked how much memory is free.
    pub(super) fn leaves_to_cpu<T: GemmTypes>(&self, flops: f64) -> bool {
        self.cpu_first.iter().any(|(types, first)| *types == T::TYPES && flops <= *first)
    }

    /// The kernel that computes a problem here; `None` leaves it to the CPU.
    pub(super) fn choose<T: GemmTypes>(
        &self,
        problem: &Problem<T>,
        cpu: &CpuContext,
        accuracy: Accuracy,
    ) -> Result<Option<Kernel>, Error> {
        match self.rule {
            Rule::Kernel(kernel) => Ok(Some(kernel)),
            Rule::Always => {
                let (model, free) = (self.model.gpu(), self.available()?);
                let kernel = match canonical(problem) {
                    Canonical::Same(problem) => model.best_kernel(&problem, free, accuracy),
                    Canonical::Transposed(problem) => model.best_kernel(&problem, free, accuracy),
                };
                let none = || {
                    let device = self.gpu.info().name.clone();
                    let needed = problem.bytes().map_or(u128::MAX, |bytes| bytes as u128);
                    match needed > u128::from(free) {
                        true => {
                            let what = format!("a product on {device}");
                            Error::OutOfMemory { what, needed, available: Some(free.into()) }
                        }
                        false => {
                            let besides = String::new();
                            Error::NoKernel { types: T::TYPES, besides, accuracy, device }
                        }
                    }
                };
                kernel.map(Some).ok_or_else(none)
            }
            Rule::WhereFaster if self.leaves_to_cpu::<T>(problem.flops()) => Ok(None),
            Rule::WhereFaster => Ok(match canonical(problem) {
                Canonical::Same(problem) => self.faster(&problem, cpu, accuracy),
                Canonical::Transposed(problem) => self.faster(&problem, cpu, accuracy),
            }),
        }
    }

    /// Bytes of device memory that a choice counts on: all that there is, where it must not depend on
    /// what others take.
    fn available(&self) -> Result<u64, Error> {
        if self.deterministic {
            return Ok(self.gpu.info().memory_bytes);
        }
        self.gpu.free_memory()
    }

    /// The kernel that should end with a product before the CPU does; `None` where none should.
    fn faster<T: GemmTypes>(
        &self,
        problem: &Problem<T>,
        cpu: &CpuContext,
        accuracy: Accuracy,
    ) -> Option<Kernel> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let Recent { free, choices, .. } = match recent.take_if(|it| it.asked.elapsed() < FREE_FOR)
        {
            Some(still) => recent.insert(still),
            None => {
                let free = self.available().ok()?;
                recent.insert(Recent { asked: Instant::now(), free, choices: Vec::new() })
            }
        };
        let shape = Shape::of(problem, accuracy);
        if let Some((_, choice)) = choices.iter().find(|(own, _)| *own == shape) {
            return *choice;
        }
        let choice = self.model.gpu().best_kernel(problem, *free, accuracy).filter(|kernel| {
            self.model.is_faster(&in_order(problem, kernel), kernel.spec(), self.threads(cpu))
        });
        choices.truncate(RECENT_CHOICES - 1);
        choices.push((shape, choice));
        choice
    }

    /// Computes a problem whose buffers were checked.
    pub(super) fn multiply<T: GemmTypes>(
        &self,
        kernel: Kernel,
        cpu: &CpuContext,
        problem: &Problem<T>,
        a: &[T::A],
        b: &[T::B],
        c: &mut [T::C],
    ) -> Result<(), Error> {
        let Problem { m, n, k, alpha, beta, .. } = *problem;
        let Problem { a: of_a, b: of_b, c: of_c, .. } = problem.without_elements();
        let (a, b) = (View::new(a, m, k, of_a)?, View::new(b, k, n, of_b)?);
        let c = ViewMut::new(c, m, n, of_c)?;
        let done = self.multiply_views::<T>(kernel, cpu, (alpha, beta), (a, b), c);
        done.map_err(|failed| failed.error)
    }

    /// Computes a product of views by a kernel.
    pub(super) fn multiply_views<T: GemmTypes>(
        &self,
        kernel: Kernel,
        cpu: &CpuContext,
        scalars: (T::Acc, T::Acc),
        (a, b): (View<'_, T::A>, View<'_, T::B>),
        c: ViewMut<'_, T::C>,
    ) -> Result<(), Unfinished> {
        match c.layout().order {
            Order::RowMajor => self.canonical_views::<T>(kernel, cpu, scalars, (a, b), c),
            Order::ColMajor => {
                let (a, b, c) = (b.transposed(), a.transposed(), c.transposed());
                self.canonical_views::<T::Transposed>(kernel, cpu, scalars, (a, b), c)
            }
        }
    }

    /// The same of a row-major C.
    fn canonical_views<T: GemmTypes>(
        &self,
        kernel: Kernel,
        cpu: &CpuContext,
        scalars: (T::Acc, T::Acc),
        (a, b): (View<'_, T::A>, View<'_, T::B>),
        c: ViewMut<'_, T::C>,
    ) -> Result<(), Unfinished> {
        let (mut packed_a, mut packed_b) = (Vec::new(), Vec::new());
        let (a, b) = if kernel.reads_any_order() {
            (a, b)
        } else {
            let read = scalars.0 != T::Acc::ZERO;
            let a = row_major_view(cpu, a, read, &mut packed_a)?;
            (a, row_major_view(cpu, b, read, &mut packed_b)?)
        };
        self.gpu.host_path(cpu).multiply_views::<T>(kernel, scalars, a, b, c)
    }

    /// What a product is predicted to take.
    pub(super) fn predicted<T: GemmTypes>(
        &self,
        problem: &Problem<T>,
        cpu: &CpuContext,
        accuracy: Accuracy,
    ) -> Result<Option<Predicted>, Error> {
        let free = self.available()?;
        let threads = self.threads(cpu);
        Ok(match canonical(problem) {
            Canonical::Same(problem) => self.model.predicted(&problem, free, accuracy, threads),
            Canonical::Transposed(problem) => {
                self.model.predicted(&problem, free, accuracy, threads)
            }
        })
    }
}

/// A problem as kernels see it: C is row-major.
enum Canonical<T: GemmTypes> {
    /// As it was.
    Same(Problem<T>),
    /// A column-major C is the row-major C^T, for which A and B change places.
    Transposed(Problem<T::Transposed>),
}

fn canonical<T: GemmTypes>(problem: &Problem<T>) -> Canonical<T> {
    match problem.c.order {
        Order::RowMajor => Canonical::Same(problem.without_elements()),
        Order::ColMajor => Canonical::Transposed(problem.transposed().without_elements()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_major_c_is_the_row_major_c_of_the_transposed_product() {
        let problem = Problem::<f32>::new(3, 5, 7).with_layouts(
            Layout::row_major(7),
            Layout::col_major(9),
            Layout::col_major(4),
        );
        let transposed = |problem| match canonical::<f32>(problem) {
            Canonical::Same(_) => panic!("kernels see a row-major C"),
            Canonical::Transposed(problem) => problem,
        };
        let found = transposed(&problem);
        assert_eq!(found, problem.transposed());
        assert_eq!(found.c.order, Order::RowMajor);
        let empty = transposed(&Problem { k: 0, ..problem });
        assert_eq!((empty.m, empty.n, empty.k), (5, 3, 0));
        assert!(empty.check_buffers(0, 0, 4 * 5).is_ok());
    }
}
