//! Matrices in `.npy` files, as NumPy writes them.

mod element;
mod foreign;
mod header;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use gemm_spec::{DType, Order};
use ndarray_npy::npy::header::{Header, Layout};
use tessera::Matrix;

use crate::memory::reserve;
pub(super) use element::NpyElement;
use element::dtype;
use header::read_header;

/// A file that holds a matrix, its header read and its elements not yet.
pub(super) struct Npy {
    file: File,
    header: Header,
    /// Type of the elements.
    pub(super) dtype: DType,
    /// Rows of the matrix.
    pub(super) rows: usize,
    /// Columns of the matrix.
    pub(super) cols: usize,
}

impl Npy {
    /// Opens a file and checks that it holds a matrix, and all of it.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        Self::look(path).with_context(|| format!("cannot read {}", path.display()))
    }

    fn look(path: &Path) -> anyhow::Result<Self> {
        // To open a pipe would wait for somebody who writes into it.
        let plain = std::fs::metadata(path)?.is_file();
        ensure!(plain, "it is no plain file; name one that holds a matrix");
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        let header = read_header(&mut file, metadata.len())?;
        let dtype = dtype(&header)?;
        let &[rows, cols] = header.shape.as_slice() else {
            bail!(
                "it holds an array of {} dimensions, a matrix has 2; reshape it",
                header.shape.len()
            );
        };
        ensure!(rows > 0 && cols > 0, "it holds a matrix of {rows} x {cols}; sizes start at 1");
        let claimed = (rows as u128)
            .checked_mul(cols as u128)
            .and_then(|elements| elements.checked_mul(dtype.size() as u128))
            .with_context(|| format!("its header claims {rows} x {cols} elements"))?;
        let held = u128::from(metadata.len() - file.stream_position()?);
        ensure!(
            claimed == held,
            "its header claims {rows} x {cols} elements of {dtype}, {claimed} bytes, and it holds \
             {held}; {}",
            if held < claimed { "it was cut short: write it again" } else { "write it again" },
        );
        Ok(Self { file, header, dtype, rows, cols })
    }

    /// Reads the elements; they are of type `T`.
    pub(super) fn read<T: NpyElement>(mut self, path: &Path) -> anyhow::Result<Matrix<T>> {
        // The length was checked against the file, so this allocates no more than the file holds. It
        // would abort where even that cannot be had, so it is asked for before.
        drop(reserve::<T>(self.rows, self.cols, "a matrix")?);
        let data = T::read_all(&mut self.file, self.rows * self.cols)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let order = match self.header.layout {
            Layout::Standard => Order::RowMajor,
            Layout::Fortran => Order::ColMajor,
        };
        Ok(Matrix::from_vec(data, self.rows, self.cols, order)?)
    }
}

/// Writes row-major elements as a `.npy` file in C order.
pub(super) fn write<T: NpyElement>(
    to: impl Write,
    rows: usize,
    cols: usize,
    data: &[T],
) -> anyhow::Result<()> {
    T::write_all(to, rows, cols, data)
}
