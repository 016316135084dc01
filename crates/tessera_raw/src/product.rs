//! One product of known types.

use std::slice;

use cpu_gemm::{CpuContext, NearShape};
use gemm_spec::{Element as _, Layout, Problem};
use tessera::blas3::{self, Field, Op, View, ViewMut};
use tessera::{Error, GemmTypes, Placement};

use crate::epilogue::{Epilogue, Owned};
use crate::integers;
use crate::place::Place;
use crate::scalar::Plain;

/// A matrix that the library takes in place.
pub(crate) struct Laid<T> {
    pub(crate) at: *mut T,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) layout: Layout,
}

impl<T> Laid<T> {
    /// # Safety
    /// Whatever is read of it can be read, and nobody writes it meanwhile.
    pub(crate) unsafe fn view<'a>(&self) -> View<'a, T> {
        // SAFETY: the caller's promise.
        unsafe { View::from_raw(self.at, self.rows, self.cols, self.layout) }
    }

    /// # Safety
    /// Its elements can be read and written, and nobody else does either meanwhile.
    pub(crate) unsafe fn view_mut<'a>(&self) -> ViewMut<'a, T> {
        // SAFETY: the caller's promise; lines do not overlap, or the layout would be none.
        unsafe { ViewMut::from_raw(self.at, self.rows, self.cols, self.layout) }
    }

    /// Elements from the first to the last, those between lines among them.
    fn len(&self) -> usize {
        self.layout.required_len(self.rows, self.cols).unwrap_or(0)
    }

    /// # Safety
    /// As [`Self::view`], of what is between lines as well.
    unsafe fn slice<'a>(&self) -> &'a [T] {
        let len = self.len();
        if len == 0 {
            return &[];
        }
        // SAFETY: the caller's promise; an empty matrix, whose address may be anything, was left out.
        unsafe { slice::from_raw_parts(self.at, len) }
    }

    /// # Safety
    /// As [`Self::view_mut`], of what is between lines as well.
    unsafe fn slice_mut<'a>(&self) -> &'a mut [T] {
        let len = self.len();
        if len == 0 {
            return &mut [];
        }
        // SAFETY: as in `slice`, and nobody else has it.
        unsafe { slice::from_raw_parts_mut(self.at, len) }
    }
}

/// The operands of a product.
pub(crate) type Three<'a, P> =
    (&'a Laid<<P as Product>::A>, &'a Laid<<P as Product>::B>, &'a Laid<<P as Product>::C>);

/// Products of some types with some alpha and beta.
pub(crate) trait Product: Sync {
    type A: Plain;
    type B: Plain;
    type C: Plain;

    /// Whether A and B are read: alpha is not zero.
    fn reads_factors(&self) -> bool;

    /// Whether C is read: beta is not zero.
    fn reads_c(&self) -> bool;

    /// The same with an epilogue.
    ///
    /// # Safety
    /// Its numbers can be read.
    unsafe fn finished_by(self, epilogue: &Epilogue) -> Result<Self, Error>
    where
        Self: Sized,
    {
        epilogue.refused()?;
        Ok(self)
    }

    /// The largest magnitude of all that were computed, where the epilogue asks for it.
    fn largest(&self) -> Option<f32> {
        None
    }

    /// Whether several of them may be computed as one of more rows or columns.
    fn may_be_folded(&self) -> bool {
        true
    }

    /// Whether and by what a GPU computes it.
    fn placement(
        &self,
        place: &Place<'_>,
        sizes: [usize; 3],
        layouts: [Layout; 3],
    ) -> Result<Placement, Error> {
        let _ = (place, sizes, layouts);
        Ok(Placement::Cpu)
    }

    /// Whether matrix units of the CPU compute it.
    fn uses_matrix_units(&self, place: &Place<'_>, sizes: [usize; 3]) -> bool {
        let _ = (place, sizes);
        false
    }

    /// What is added up where there is a [shape](Self::near), which then are the elements as well.
    type Sum: Copy + Send + Sync;

    /// What a product has in common with others whose operands lie alike, where all are so small that a call is felt.
    ///
    /// # Safety
    /// As [`Self::on_cpu`].
    unsafe fn near(
        &self,
        operands: Three<'_, Self>,
        context: &CpuContext,
    ) -> Option<NearShape<Self::Sum>> {
        let _ = (operands, context);
        None
    }

    /// Computes one whose sizes fit.
    ///
    /// # Safety
    /// What is read of A and B can be read, and nobody writes it meanwhile; C can be read and written, and
    /// nobody else does either.
    unsafe fn on_cpu(&self, operands: Three<'_, Self>, context: &CpuContext) -> Result<(), Error>;

    /// Computes one that was placed on the GPU.
    ///
    /// # Safety
    /// As [`Self::on_cpu`], of what is between lines as well.
    unsafe fn on_gpu(&self, operands: Three<'_, Self>, place: &Place<'_>) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { self.on_cpu(operands, &place.context()) }
    }
}

/// Products of the library's list.
pub(crate) struct Typed<T: GemmTypes> {
    pub(crate) alpha: T::Acc,
    pub(crate) beta: T::Acc,
    pub(crate) epilogue: Option<Owned<T>>,
}

impl<T: GemmTypes> Typed<T> {
    fn problem(&self, [m, n, k]: [usize; 3], [a, b, c]: [Layout; 3]) -> Problem<T> {
        Problem::new(m, n, k).with_scalars(self.alpha, self.beta).with_layouts(a, b, c)
    }
}

impl<T: GemmTypes<A: Plain, B: Plain, Acc: Plain, C: Plain>> Product for Typed<T> {
    type A = T::A;
    type B = T::B;
    type C = T::C;

    fn reads_factors(&self) -> bool {
        self.alpha != T::Acc::ZERO
    }

    fn reads_c(&self) -> bool {
        self.beta != T::Acc::ZERO
    }

    unsafe fn finished_by(self, epilogue: &Epilogue) -> Result<Self, Error> {
        // SAFETY: the caller's promise.
        let epilogue = unsafe { epilogue.owned::<T>() }?;
        Ok(Self { epilogue, ..self })
    }

    fn largest(&self) -> Option<f32> {
        self.epilogue.as_ref().and_then(Owned::largest)
    }

    fn may_be_folded(&self) -> bool {
        self.epilogue.as_ref().is_none_or(|epilogue| !epilogue.has_numbers())
    }

    fn placement(
        &self,
        place: &Place<'_>,
        sizes: [usize; 3],
        layouts: [Layout; 3],
    ) -> Result<Placement, Error> {
        place.engine.placement(&self.problem(sizes, layouts))
    }

    fn uses_matrix_units(&self, place: &Place<'_>, [m, n, k]: [usize; 3]) -> bool {
        place.engine.uses_matrix_units(&Problem::<T>::new(m, n, k))
    }

    type Sum = T::Acc;

    unsafe fn near(
        &self,
        (a, b, c): Three<'_, Self>,
        context: &CpuContext,
    ) -> Option<NearShape<T::Acc>> {
        if self.epilogue.is_some() {
            return None;
        }
        // SAFETY: the caller's promise.
        let a = unsafe { a.view() };
        // SAFETY: the caller's promise.
        let b = unsafe { b.view() };
        // SAFETY: the caller's promise.
        let c = unsafe { c.view_mut() };
        cpu_gemm::near_typed::<T>(self.alpha, a, b, self.beta, c, context)
    }

    unsafe fn on_cpu(&self, (a, b, c): Three<'_, Self>, context: &CpuContext) -> Result<(), Error> {
        let (op, Self { alpha, beta, epilogue }) = (Op::NoTrans, self);
        // SAFETY: the caller's promise.
        let a = unsafe { a.view() };
        // SAFETY: the caller's promise.
        let b = unsafe { b.view() };
        // SAFETY: the caller's promise.
        let c = unsafe { c.view_mut() };
        if let Some(epilogue) = epilogue {
            let (scalars, slices) = ((*alpha, *beta), epilogue.slices());
            let largest =
                cpu_gemm::gemm_with_epilogue::<T>(scalars, a, b, None, c, &slices, context);
            epilogue.found(largest?);
            return Ok(());
        }
        blas3::gemm_typed::<T>(op, op, *alpha, a, b, *beta, c, context)
    }

    unsafe fn on_gpu(&self, (a, b, c): Three<'_, Self>, place: &Place<'_>) -> Result<(), Error> {
        if let Some(epilogue) = &self.epilogue {
            let (scalars, slices) = ((self.alpha, self.beta), epilogue.slices());
            // SAFETY: the caller's promise.
            let a = unsafe { a.view() };
            // SAFETY: the caller's promise.
            let b = unsafe { b.view() };
            // SAFETY: the caller's promise.
            let c = unsafe { c.view_mut() };
            let Place { engine, threads } = *place;
            let largest =
                engine.gemm_views_with_epilogue::<T>(threads, scalars, a, b, None, c, &slices);
            epilogue.found(largest?);
            return Ok(());
        }
        let problem = self.problem([c.rows, c.cols, a.cols], [a.layout, b.layout, c.layout]);
        // SAFETY: the caller's promise.
        let a = unsafe { a.slice() };
        // SAFETY: the caller's promise.
        let b = unsafe { b.slice() };
        // SAFETY: the caller's promise.
        let c = unsafe { c.slice_mut() };
        place.engine.gemm_slices(&problem, a, b, c)
    }
}

/// Products of complex numbers, which are computed on the CPU.
pub(crate) struct OfField<T: Field> {
    pub(crate) alpha: T,
    pub(crate) beta: T,
}

impl<T: Field + Plain> Product for OfField<T> {
    type A = T;
    type B = T;
    type C = T;

    fn reads_factors(&self) -> bool {
        self.alpha != T::ZERO
    }

    fn reads_c(&self) -> bool {
        self.beta != T::ZERO
    }

    type Sum = T;

    unsafe fn near(
        &self,
        (a, b, c): Three<'_, Self>,
        context: &CpuContext,
    ) -> Option<NearShape<T>> {
        // SAFETY: the caller's promise.
        let a = unsafe { a.view() };
        // SAFETY: the caller's promise.
        let b = unsafe { b.view() };
        // SAFETY: the caller's promise.
        let mut c = unsafe { c.view_mut() };
        let ops = (Op::NoTrans, Op::NoTrans);
        blas3::near_shape(ops, self.alpha, a, b, self.beta, &mut c, context)
    }

    unsafe fn on_cpu(&self, (a, b, c): Three<'_, Self>, context: &CpuContext) -> Result<(), Error> {
        let op = Op::NoTrans;
        // SAFETY: the caller's promise.
        let a = unsafe { a.view() };
        // SAFETY: the caller's promise.
        let b = unsafe { b.view() };
        // SAFETY: the caller's promise.
        let c = unsafe { c.view_mut() };
        blas3::gemm(op, op, self.alpha, a, b, self.beta, c, context)
    }
}

/// Products of 64-bit integers.
pub(crate) struct OfIntegers {
    pub(crate) alpha: i64,
    pub(crate) beta: i64,
}

impl Product for OfIntegers {
    type A = i64;
    type B = i64;
    type C = i64;
    type Sum = i64;

    fn reads_factors(&self) -> bool {
        self.alpha != 0
    }

    fn reads_c(&self) -> bool {
        self.beta != 0
    }

    unsafe fn on_cpu(&self, (a, b, c): Three<'_, Self>, context: &CpuContext) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        let a = unsafe { a.view() };
        // SAFETY: the caller's promise.
        let b = unsafe { b.view() };
        // SAFETY: the caller's promise.
        let c = unsafe { c.view_mut() };
        integers::multiply(self.alpha, a, b, self.beta, c, context);
        Ok(())
    }
}
