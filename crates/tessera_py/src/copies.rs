//! Arrays copied in place, and whether they may share memory.

use crate::array::Array;

/// Where elements lie.
#[derive(Clone, Copy)]
pub(crate) struct Lies<'a> {
    pub(crate) at: *mut u8,
    /// In bytes.
    pub(crate) strides: &'a [isize],
}

impl Lies<'_> {
    fn moved(self, bytes: isize) -> Self {
        Self { at: self.at.wrapping_offset(bytes), ..self }
    }

    fn inner(self) -> Self {
        Self { strides: &self.strides[1..], ..self }
    }
}

/// Copies elements of `size` bytes.
///
/// # Safety
/// Both have such elements in that shape; those of `from` can be read and those of `to` written, nobody
/// else uses them, and they are either apart or the same.
pub(crate) unsafe fn copy(to: Lies<'_>, from: Lies<'_>, shape: &[usize], size: usize) {
    let Some((&count, rest)) = shape.split_first() else {
        // SAFETY: the caller's promise: one element each.
        unsafe { to.at.copy_from(from.at, size) };
        return;
    };
    if count == 0 {
        return;
    }
    let whole = size.cast_signed();
    if rest.is_empty() && to.strides[0] == whole && from.strides[0] == whole {
        // SAFETY: the caller's promise: elements that follow each other.
        unsafe { to.at.copy_from(from.at, size * count) };
        return;
    }
    for at in 0..count.cast_signed() {
        let to = to.moved(at.wrapping_mul(to.strides[0])).inner();
        let from = from.moved(at.wrapping_mul(from.strides[0])).inner();
        // SAFETY: the caller's promise, of a part.
        unsafe { copy(to, from, rest, size) };
    }
}

/// Addresses of the first byte and behind the last; the same twice where there is no element.
fn span(at: *const u8, shape: &[usize], strides: &[isize], size: usize) -> (usize, usize) {
    let (mut first, mut last) = (at.addr(), at.addr());
    if shape.contains(&0) {
        return (first, first);
    }
    for (&count, &stride) in shape.iter().zip(strides) {
        let reach = stride.saturating_mul((count - 1).cast_signed());
        if reach < 0 {
            first = first.saturating_sub(reach.unsigned_abs());
        } else {
            last = last.saturating_add(reach.unsigned_abs());
        }
    }
    (first, last.saturating_add(size))
}

/// Whether two arrays may share memory: the bytes from first to last do.
pub(crate) fn may_overlap(one: &Array<'_>, other: &Array<'_>) -> bool {
    let of = |it: &Array<'_>| {
        let size = it.kind.map_or(1, crate::kind::Kind::size);
        span(it.at, &it.shape, &it.strides, size)
    };
    let (one, other) = (of(one), of(other));
    one.0 < other.1 && other.0 < one.1
}

/// Whether two arrays are the same elements in the same places.
pub(crate) fn is_same(one: &Array<'_>, other: &Array<'_>) -> bool {
    (one.at, &one.shape, &one.strides, one.kind)
        == (other.at, &other.shape, &other.strides, other.kind)
}
