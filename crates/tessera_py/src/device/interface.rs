//! The CUDA array interface.

use cuda_lazy::PointerInfo;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::refused;
use crate::dlpack::contiguous;
use crate::failure::failure;
use crate::kind::Kind;

/// What `__cuda_array_interface__` says of an array.
pub(super) struct Interface {
    pub(super) address: u64,
    pub(super) read_only: bool,
    /// As NumPy writes it.
    pub(super) typestr: String,
    pub(super) kind: Option<Kind>,
    pub(super) shape: Vec<usize>,
    /// In bytes.
    pub(super) strides: Vec<isize>,
    /// The stream that the array is ready in.
    pub(super) stream: Option<usize>,
}

impl Interface {
    /// Reads the interface of an object, where it has one.
    pub(super) fn of(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<Self>> {
        let py = object.py();
        let Some(given) = object.getattr_opt(intern!(py, "__cuda_array_interface__"))? else {
            return Ok(None);
        };
        let wrong = |what: &str| {
            PyTypeError::new_err(format!("{name}: __cuda_array_interface__ has no valid {what}"))
        };
        let given = given.cast_into::<PyDict>().map_err(|_| wrong("dictionary"))?;
        let entry = |key: &'static str| {
            let value = given.get_item(key)?;
            Ok::<_, PyErr>(value.filter(|value| !value.is_none()))
        };
        let version: u32 = entry("version")?
            .and_then(|version| version.extract().ok())
            .ok_or_else(|| wrong("version"))?;
        if version < 2 {
            let text =
                format!("{name}: __cuda_array_interface__ of version {version}, 2 is needed");
            return Err(PyTypeError::new_err(text));
        }
        if entry("mask")?.is_some() {
            return Err(PyTypeError::new_err(format!(
                "{name}: masked arrays are not multiplied here"
            )));
        }
        let shape: Vec<usize> =
            entry("shape")?.and_then(|shape| shape.extract().ok()).ok_or_else(|| wrong("shape"))?;
        let typestr: String = entry("typestr")?
            .and_then(|typestr| typestr.extract().ok())
            .ok_or_else(|| wrong("typestr"))?;
        let (address, read_only): (u64, bool) = match entry("data")? {
            Some(data) => data.extract().map_err(|_| wrong("data"))?,
            None => return Err(wrong("data")),
        };
        let (kind, size) = parse(&typestr).ok_or_else(|| wrong("typestr"))?;
        let strides = match entry("strides")? {
            None => contiguous(&shape, size.cast_signed()),
            Some(strides) => {
                let strides: Vec<isize> = strides.extract().map_err(|_| wrong("strides"))?;
                if strides.len() != shape.len() {
                    return Err(wrong("strides"));
                }
                strides
            }
        };
        let stream = match entry("stream")? {
            None => None,
            Some(stream) => match stream.extract::<usize>() {
                // 0 would be either of two streams, and is ruled out.
                Ok(stream) if stream != 0 => Some(stream),
                _ => return Err(wrong("stream")),
            },
        };
        Ok(Some(Self { address, read_only, typestr, kind, shape, strides, stream }))
    }

    /// Where its memory is, by the driver; `None` where there are no elements.
    pub(super) fn memory(&self, name: &str) -> PyResult<Option<PointerInfo>> {
        let Some((first, last)) = self.span() else { return Ok(None) };
        let missing = |reason: String| failure(tessera::Error::NoDevice { reason });
        let driver = cuda_lazy::load().map_err(|why| missing(why.to_string()))?;
        driver.init().map_err(|why| missing(why.to_string()))?;
        let found = driver.pointer_info(self.address).map_err(refused("looking at an array"))?;
        let Some(info) = found.filter(|info| info.on_device) else {
            return Err(PyValueError::new_err(format!(
                "{name} is at {:#x}, where the driver knows no device memory",
                self.address
            )));
        };
        let end = info.start.saturating_add(info.bytes as u64);
        // A driver that does not know the allocation says that it has no bytes.
        if info.bytes != 0 && (first < info.start || last > end) {
            return Err(PyValueError::new_err(format!(
                "{name} is larger than the device memory that it is in"
            )));
        }
        Ok(Some(info))
    }

    /// Addresses of its first byte and behind its last; `None` where there are no elements.
    fn span(&self) -> Option<(u64, u64)> {
        let size = parse(&self.typestr).map_or(1, |(_, size)| size);
        super::layout::span(self.address, &self.shape, &self.strides, size)
    }
}

/// The kind of a type as NumPy writes it, and its bytes. The order of bytes is the machine's.
fn parse(typestr: &str) -> Option<(Option<Kind>, usize)> {
    let mut letters = typestr.chars();
    let (order, letter) = (letters.next()?, letters.next()?);
    let size: usize = letters.as_str().parse().ok().filter(|&size| size > 0)?;
    let letter = u8::try_from(letter).ok()?;
    let kind = if order == '>' && size > 1 { None } else { Kind::of_interface(letter, size) };
    Some((kind, size))
}
