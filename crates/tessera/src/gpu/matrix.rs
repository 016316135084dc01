//! Matrices on the device: those that own their memory, and views of memory that others own.

use std::marker::PhantomData;
use std::ops::Range;

use cuda_lazy::{DeviceMemory, DevicePtr, LineCopy};
use gemm_spec::{Layout, Order, ShapeError};

use super::allocate::allocate;
use super::context::Context;
use super::refused;
use super::stream::Stream;
use crate::element::{Element, bytes, bytes_mut};
use crate::error::Error;
use crate::matrix::{MatRef, Matrix};
use crate::operand_fault::OperandFault;

/// A matrix on the device and its memory, which is freed with it. Its lines begin at multiples of 16 bytes,
/// so that kernels read them as they are.
///
/// [`DeviceMatrix::from_host`] and [`DeviceMatrix::to_host`] wait for their copies, and nothing else does:
/// products of [`Stream::gemm`] are queued.
///
/// ```no_run
/// // Not run: it needs a GPU. docs/embed.md has the whole program.
/// use tessera::Matrix;
/// use tessera::gpu::{Context, DeviceMatrix, Stream};
///
/// let stream = Stream::new(&Context::primary(0)?)?;
/// let a = Matrix::from_fn(4, 3, |row, col| (row + col) as f32)?;
/// let on_gpu = DeviceMatrix::from_host(&stream, a.view())?;
/// let mut square = DeviceMatrix::zeros(&stream, 4, 4)?;
/// stream.gemm(1.0, on_gpu.view(), on_gpu.view().transposed(), 0.0, &mut square.view_mut())?;
/// assert_eq!(square.to_host(&stream)?.get(3, 3), Some(50.0));
/// # Ok::<(), tessera::Error>(())
/// ```
#[derive(Debug)]
pub struct DeviceMatrix<T> {
    memory: DeviceMemory,
    rows: usize,
    cols: usize,
    layout: Layout,
    context: Context,
    elements: PhantomData<T>,
}

impl<T: Element> DeviceMatrix<T> {
    /// A row-major matrix of zeros, which are queued in the stream.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] and [`Error::Cuda`].
    pub fn zeros(stream: &Stream, rows: usize, cols: usize) -> Result<Self, Error> {
        let matrix = Self::allocated(stream, rows, cols, Order::RowMajor)?;
        let (at, len) = (matrix.memory.address(), matrix.memory.len());
        let _current = stream.context().enter()?;
        // SAFETY: the memory is this matrix's alone, and stays until the driver has done what is queued; the
        // stream is of the context that was entered.
        unsafe { stream.context().driver().memset_async(stream.as_raw(), at, 0, len) }
            .map_err(refused("clearing a matrix"))?;
        Ok(matrix)
    }

    /// A matrix with the elements of one in host memory, in its order. It waits for the copy.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] and [`Error::Cuda`].
    pub fn from_host(stream: &Stream, from: MatRef<'_, T>) -> Result<Self, Error> {
        let mut matrix = Self::allocated(stream, from.rows(), from.cols(), from.layout().order)?;
        matrix.view_mut().copy_from_host(stream, from)?;
        Ok(matrix)
    }

    /// The elements as a matrix in host memory, once what the stream was given before is done.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] and [`Error::Cuda`], also for a kernel that failed meanwhile.
    pub fn to_host(&self, stream: &Stream) -> Result<Matrix<T>, Error> {
        self.view().to_host(stream)
    }

    fn allocated(stream: &Stream, rows: usize, cols: usize, order: Order) -> Result<Self, Error> {
        let context = stream.context().clone();
        let line = match order {
            Order::RowMajor => cols,
            Order::ColMajor => rows,
        };
        let too_large = ShapeError::TooLarge { operand: gemm_spec::Operand::C, rows, cols };
        let elements = LINE_BYTES / size_of::<T>();
        let ld = line.checked_next_multiple_of(elements).ok_or(too_large)?;
        let layout = Layout { order, ld };
        let len = layout.required_len(rows, cols).ok_or(too_large)?;
        let bytes = len.checked_mul(size_of::<T>()).ok_or(too_large)?;
        let memory = allocate(&context, bytes as u64, "a matrix")?;
        Ok(Self { memory, rows, cols, layout, context, elements: PhantomData })
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many columns there are.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// How the elements lie in memory.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The device's address of the first element.
    #[must_use]
    pub fn address(&self) -> DevicePtr {
        self.memory.address()
    }

    /// A view of the whole matrix.
    #[must_use]
    pub fn view(&self) -> DeviceMatRef<'_, T> {
        DeviceMatRef {
            address: self.memory.address(),
            rows: self.rows,
            cols: self.cols,
            layout: self.layout,
            context: &self.context,
            elements: PhantomData,
        }
    }

    /// A view of the whole matrix that can be written.
    #[must_use]
    pub fn view_mut(&mut self) -> DeviceMatMut<'_, T> {
        DeviceMatMut { view: self.view(), exclusive: PhantomData }
    }
}

/// Of what the bytes of a line of an owned matrix are a multiple.
const LINE_BYTES: usize = 16;

/// A matrix on the device that somebody else owns.
#[derive(Debug)]
pub struct DeviceMatRef<'a, T> {
    address: DevicePtr,
    rows: usize,
    cols: usize,
    layout: Layout,
    context: &'a Context,
    elements: PhantomData<&'a T>,
}

impl<T> Clone for DeviceMatRef<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DeviceMatRef<'_, T> {}

impl<'a, T: Element> DeviceMatRef<'a, T> {
    /// A view of `rows` by `cols` elements that begin at an address on the device.
    ///
    /// # Errors
    /// [`Error::Shape`] where the leading dimension is too small or the matrix larger than an address space.
    ///
    /// # Safety
    /// The elements are in memory of that context, aligned to their type. Until all work that is queued with
    /// the view is over they stay there, and nobody writes them but work that the stream orders.
    pub unsafe fn from_raw(
        context: &'a Context,
        address: DevicePtr,
        rows: usize,
        cols: usize,
        layout: Layout,
    ) -> Result<Self, Error> {
        let operand = gemm_spec::Operand::A;
        let min = layout.min_ld(rows, cols);
        if layout.ld < min {
            return Err(ShapeError::LeadingDimension { operand, ld: layout.ld, min }.into());
        }
        let bytes = layout.required_len(rows, cols).and_then(|len| len.checked_mul(size_of::<T>()));
        if bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
            return Err(ShapeError::TooLarge { operand, rows, cols }.into());
        }
        Ok(Self { address, rows, cols, layout, context, elements: PhantomData })
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many columns there are.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// How the elements lie in memory.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The device's address of the first element.
    #[must_use]
    pub fn address(&self) -> DevicePtr {
        self.address
    }

    /// The context that it is of.
    #[must_use]
    pub fn context(&self) -> &'a Context {
        self.context
    }

    /// The transposed matrix: the same memory, read the other way round.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self { rows: self.cols, cols: self.rows, layout: self.layout.transposed(), ..self }
    }

    /// Some of its rows and columns, in place.
    ///
    /// # Errors
    /// [`Error::Part`] where there are not as many.
    pub fn part(self, rows: Range<usize>, cols: Range<usize>) -> Result<Self, Error> {
        let fits = |part: &Range<usize>, all: usize| part.start <= part.end && part.end <= all;
        if !fits(&rows, self.rows) || !fits(&cols, self.cols) {
            return Err(Error::Part { rows, cols, of: (self.rows, self.cols) });
        }
        let (rows_left, cols_left) = (rows.len(), cols.len());
        let offset = match rows_left == 0 || cols_left == 0 {
            true => 0,
            false => self.layout.index(rows.start, cols.start) * size_of::<T>(),
        };
        let address = self.address + offset as u64;
        Ok(Self { address, rows: rows_left, cols: cols_left, ..self })
    }

    /// The elements as a matrix in host memory, once what the stream was given before is done.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] and [`Error::Cuda`], also for a kernel that failed meanwhile.
    pub fn to_host(self, stream: &Stream) -> Result<Matrix<T>, Error> {
        let Self { rows, cols, layout, address, context, .. } = self;
        of_one_context(context, stream)?;
        let mut data = crate::memory::allocate(rows, cols, "a matrix")?;
        let (lines, line) = match layout.order {
            Order::RowMajor => (rows, cols),
            Order::ColMajor => (cols, rows),
        };
        if rows != 0 && cols != 0 {
            let _current = context.enter()?;
            let line = line * size_of::<T>();
            let from_pitch = layout.ld * size_of::<T>();
            let copy = LineCopy { lines, bytes: line, from_pitch, to_pitch: line };
            let (driver, to) = (context.driver(), bytes_mut::<T>(&mut data).as_mut_ptr());
            // SAFETY: the view's elements are there by its making; the target has as many bytes, and nobody
            // uses it before the wait below.
            let queued = unsafe { driver.copy_lines_to_host(stream.as_raw(), to, address, copy) };
            let done = stream.synchronize();
            queued.map_err(refused("copying a matrix from the device"))?;
            done?;
        }
        Matrix::from_vec(data, rows, cols, layout.order)
    }
}

/// A matrix on the device that somebody else owns, to be written.
#[derive(Debug)]
pub struct DeviceMatMut<'a, T> {
    view: DeviceMatRef<'a, T>,
    exclusive: PhantomData<&'a mut T>,
}

impl<'a, T: Element> DeviceMatMut<'a, T> {
    /// A view of `rows` by `cols` elements that begin at an address on the device.
    ///
    /// # Errors
    /// As [`DeviceMatRef::from_raw`].
    ///
    /// # Safety
    /// As [`DeviceMatRef::from_raw`], and nobody else reads the elements either.
    pub unsafe fn from_raw(
        context: &'a Context,
        address: DevicePtr,
        rows: usize,
        cols: usize,
        layout: Layout,
    ) -> Result<Self, Error> {
        // SAFETY: the caller's promise.
        let view = unsafe { DeviceMatRef::from_raw(context, address, rows, cols, layout) }?;
        Ok(Self { view, exclusive: PhantomData })
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.view.rows
    }

    /// How many columns there are.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.view.cols
    }

    /// How the elements lie in memory.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.view.layout
    }

    /// The device's address of the first element.
    #[must_use]
    pub fn address(&self) -> DevicePtr {
        self.view.address
    }

    /// The context that it is of.
    #[must_use]
    pub fn context(&self) -> &'a Context {
        self.view.context
    }

    /// The same matrix, to be read.
    #[must_use]
    pub fn view(&self) -> DeviceMatRef<'_, T> {
        self.view
    }

    /// The transposed matrix: the same memory, written the other way round.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self { view: self.view.transposed(), ..self }
    }

    /// Some of its rows and columns, in place.
    ///
    /// # Errors
    /// [`Error::Part`] where there are not as many.
    pub fn part(self, rows: Range<usize>, cols: Range<usize>) -> Result<Self, Error> {
        Ok(Self { view: self.view.part(rows, cols)?, ..self })
    }

    /// Overwrites it by a matrix in host memory, and waits for the copy.
    ///
    /// # Errors
    /// [`Error::OuterDim`] where the sizes differ, [`Error::CopyOrder`] where the orders do,
    /// [`Error::OutOfMemory`] and [`Error::Cuda`].
    pub fn copy_from_host(&mut self, stream: &Stream, from: MatRef<'_, T>) -> Result<(), Error> {
        let DeviceMatRef { address, rows, cols, layout, context, .. } = self.view;
        of_one_context(context, stream)?;
        if (from.rows(), from.cols()) != (rows, cols) {
            let (m, n) = (from.rows(), from.cols());
            return Err(Error::OuterDim { rows, cols, m, n });
        }
        if from.layout().order != layout.order {
            return Err(Error::CopyOrder);
        }
        if rows == 0 || cols == 0 {
            return Ok(());
        }
        let (lines, line) = match layout.order {
            Order::RowMajor => (rows, cols),
            Order::ColMajor => (cols, rows),
        };
        let _current = context.enter()?;
        let size = size_of::<T>();
        let copy = LineCopy {
            lines,
            bytes: line * size,
            from_pitch: from.layout().ld * size,
            to_pitch: layout.ld * size,
        };
        let (driver, source) = (context.driver(), bytes::<T>(from.as_slice()).as_ptr());
        // SAFETY: the view's elements are there by its making; the source has as many lines by the making of
        // its view, and is borrowed until the wait below.
        let queued = unsafe { driver.copy_lines_to_device(stream.as_raw(), address, source, copy) };
        let done = stream.synchronize();
        queued.map_err(refused("copying a matrix to the device"))?;
        done
    }
}

/// Refuses a matrix of another context than the stream's.
fn of_one_context(context: &Context, stream: &Stream) -> Result<(), Error> {
    if context.is(stream.context()) {
        return Ok(());
    }
    let (plan, fault) = (format!("a copy on {:?}", stream.context()), OperandFault::OtherContext);
    Err(Error::DeviceOperand { plan, operand: "the matrix", fault })
}
