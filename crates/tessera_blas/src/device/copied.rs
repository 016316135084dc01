//! Operands on a device that are computed in host memory: routines other than products, numbers that have no kernel, and
//! operands that are not together.

use tessera::gpu::{DeviceMatMut, DeviceMatRef};
use tessera::{Error, Layout, Matrix};

use super::log::die;
use super::number::Number;
use super::opened::{Lane, lane};
use super::pointers::Place;
use super::stored::Stored;
use crate::xerbla::Routine;

/// A copy in host memory of what is on a device, as real numbers: of complex ones twice the rows.
struct Copied<R> {
    data: Vec<R>,
    device: u32,
}

/// Calls with operands that are all in host memory, copies of those that are on a device, and writes back what is
/// written of these.
///
/// # Safety
/// As the [module](super) says; the operands are in those places.
pub(super) unsafe fn with_copies<T: Number, const N: usize>(
    routine: Routine,
    operands: [Stored<T>; N],
    places: [Place; N],
    body: impl FnOnce([Stored<T>; N]),
) {
    let why = |error: Error| format!("{routine}: an operand on a device: {error}");
    let mut copies = [const { None }; N];
    let mut own = operands;
    for (((operand, place), own), copy) in
        operands.iter().zip(places).zip(&mut own).zip(&mut copies)
    {
        let Place::Device(device, _) = place else { continue };
        // SAFETY: the driver knows the address as this device's, and the caller has a matrix there.
        let data = lane(device).and_then(|lane| unsafe { bring::<T>(&lane, *operand) });
        let Copied { data, .. } =
            copy.insert(Copied { data: data.unwrap_or_else(|error| die(&why(error))), device });
        *own = Stored { at: data.as_mut_ptr().cast(), ld: operand.rows.max(1), ..*operand };
    }
    body(own);
    for (operand, copy) in operands.iter().zip(copies) {
        let Some(Copied { data, device }) = copy.filter(|_| operand.written) else { continue };
        // SAFETY: as above, and the caller lets it be written.
        let done = lane(device).and_then(|lane| unsafe { give_back(&lane, *operand, data) });
        done.unwrap_or_else(|error| die(&why(error)));
    }
}

/// Rows of real numbers.
fn real_rows<T: Number>(rows: usize) -> usize {
    if T::IS_COMPLEX { 2 * rows } else { rows }
}

/// The numbers of a matrix on a device.
///
/// # Safety
/// It is there.
unsafe fn bring<T: Number>(lane: &Lane, from: Stored<T>) -> Result<Vec<T::Real>, Error> {
    let (rows, layout) = (real_rows::<T>(from.rows), Layout::col_major(real_rows::<T>(from.ld)));
    // SAFETY: the caller's promise; a complex number is its two parts, one after the other.
    let there =
        unsafe { DeviceMatRef::from_raw(&lane.context, from.address(), rows, from.cols, layout) }?;
    Ok(there.to_host(&lane.stream)?.into_vec())
}

/// Writes the numbers of a matrix on a device.
///
/// # Safety
/// It is there, and nobody else uses it.
unsafe fn give_back<T: Number>(
    lane: &Lane,
    to: Stored<T>,
    data: Vec<T::Real>,
) -> Result<(), Error> {
    let (rows, layout) = (real_rows::<T>(to.rows), Layout::col_major(real_rows::<T>(to.ld)));
    let data = Matrix::from_vec(data, rows, to.cols, layout.order)?;
    // SAFETY: the caller's promise, as above.
    let mut there =
        unsafe { DeviceMatMut::from_raw(&lane.context, to.address(), rows, to.cols, layout) }?;
    there.copy_from_host(&lane.stream, data.view())
}
