//! The buffers of a launch: where they are, what of them is their matrix, and which bytes of them were written.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

/// Bits of an address within a window.
const WINDOW_BITS: u32 = 44;
/// Addresses of windows: none that a processor has.
const WINDOWS: usize = 0xe000_0000_0000_0000;
/// Bits of an address that are the same in a window: an operand is aligned there as it is in memory.
const ALIGNMENT: usize = 15;

/// Memory that a launch may touch, by address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Its name in reports.
    pub name: &'static str,
    /// Where it begins, for the kernel.
    pub address: usize,
    /// Bytes that it has.
    pub bytes: usize,
    /// Whether the launch may write it.
    pub writable: bool,
    /// Where it begins.
    memory: usize,
    /// Bytes of a line, and from one to the next, where it is a matrix.
    lines: Option<[usize; 2]>,
    written: Option<Arc<Written>>,
}

impl Buffer {
    fn new(name: &'static str, address: usize, bytes: usize, writable: bool) -> Self {
        Self { name, address, bytes, writable, memory: address, lines: None, written: None }
    }

    /// A buffer that the launch reads.
    #[must_use]
    pub fn input<T>(name: &'static str, elements: &[T]) -> Self {
        Self::new(name, elements.as_ptr().addr(), size_of_val(elements), false)
    }

    /// A buffer that the launch reads and writes.
    #[must_use]
    pub fn output<T>(name: &'static str, elements: &mut [T]) -> Self {
        Self::new(name, elements.as_mut_ptr().addr(), size_of_val(elements), true)
    }

    /// The same, which the kernel sees at an address of its own, far from every other buffer's: an access that strays
    /// from it reaches none. Each buffer of a launch has another number.
    ///
    /// The memory's provenance must be exposed.
    #[must_use]
    pub fn in_window(self, number: usize) -> Self {
        let address = WINDOWS | (number + 1) << WINDOW_BITS | self.memory & ALIGNMENT;
        Self { address, ..self }
    }

    /// The same as a matrix whose lines of that many bytes begin a pitch apart. What is between them may not be
    /// accessed.
    #[must_use]
    pub fn with_lines(self, bytes: usize, pitch: usize) -> Self {
        Self { lines: Some([bytes, pitch]), ..self }
    }

    /// The same, which nobody has written: what no launch has written may not be read. Clones share what was written.
    #[must_use]
    pub fn unwritten(self) -> Self {
        let written = Some(Arc::new(Written(Pages::new(self.bytes))));
        Self { written, ..self }
    }

    /// Where in memory an address is that the kernel has.
    #[must_use]
    pub fn in_memory(&self, address: usize) -> usize {
        address.wrapping_sub(self.address).wrapping_add(self.memory)
    }

    /// Takes these bytes as written.
    pub fn note_written(&self, address: usize, bytes: usize) {
        if let Some(written) = &self.written {
            written.note(address.wrapping_sub(self.address), bytes);
        }
    }

    /// Whether nobody has written any of these bytes.
    pub(super) fn is_unwritten(&self, address: usize, bytes: usize) -> bool {
        let place = (address - self.address, bytes);
        self.written.as_ref().is_some_and(|written| written.missing(place) == bytes)
    }

    /// The pieces of four bytes of a line of whole ones, from its beginning, of which nobody has written some.
    pub(super) fn unwritten_words(&self, address: usize, bytes: usize) -> Vec<usize> {
        let first = address - self.address;
        let Some(written) = &self.written else { return Vec::new() };
        if written.missing((first, bytes)) == 0 {
            return Vec::new();
        }
        let lacks = |at: &usize| written.missing((first + at, 4.min(bytes - at))) > 0;
        (0..bytes).step_by(4).filter(lacks).collect()
    }

    pub(super) fn contains(&self, address: usize, bytes: usize) -> bool {
        address
            .checked_sub(self.address)
            .and_then(|offset| offset.checked_add(bytes))
            .is_some_and(|end| end <= self.bytes)
    }

    /// Bytes between the buffer and an address.
    pub(super) fn distance(&self, address: usize) -> usize {
        let end = self.address.saturating_add(self.bytes);
        self.address.saturating_sub(address).max(address.saturating_sub(end))
    }

    /// Which element of that size an address is.
    pub(super) fn element(&self, address: usize, size: usize) -> i64 {
        (address.wrapping_sub(self.address) as i64).div_euclid(size as i64)
    }

    /// Whether accesses to it are held against others.
    pub(super) fn is_watched(&self) -> bool {
        self.writable || self.written.is_some()
    }

    /// The line of these bytes and the first that is not in it, if one is not.
    pub(super) fn between_lines(&self, address: usize, bytes: usize) -> Option<[usize; 2]> {
        let [line, pitch] = self.lines?;
        let at = (address - self.address) % pitch;
        (at + bytes > line).then(|| [(address - self.address) / pitch, at.max(line)])
    }
}

/// The buffer in whose window an address is, or which has it.
#[inline]
pub(super) fn find(buffers: &[Buffer], address: usize) -> Option<usize> {
    let same_window = |buffer: &Buffer| (buffer.address ^ address) >> WINDOW_BITS == 0;
    if address >= WINDOWS {
        return buffers.iter().position(same_window);
    }
    buffers.iter().position(|buffer| buffer.contains(address, 1))
}

/// Bytes of a page.
const PAGE: usize = 64 * 1024;

/// Something for each byte of a buffer, or for some of them together, of which a page is made when it is touched.
pub(super) struct Pages<T> {
    bytes: usize,
    /// Those of a page.
    all: Box<[OnceLock<Box<[T]>>]>,
}

impl<T: Default> Pages<T> {
    pub(super) fn new(bytes: usize) -> Self {
        Self { bytes, all: (0..bytes.div_ceil(PAGE)).map(|_| OnceLock::new()).collect() }
    }

    /// The pages that some bytes are on, each with what it has for `each` bytes together, and which of its bytes they
    /// are.
    #[inline]
    pub(super) fn on(
        &self,
        (start, bytes): (usize, usize),
        each: usize,
    ) -> impl Iterator<Item = (&[T], usize, usize)> {
        let end = start + bytes;
        (start / PAGE..end.div_ceil(PAGE)).map(move |number| {
            let first = number * PAGE;
            let page = self.all[number].get_or_init(|| {
                let size = PAGE.min(self.bytes - first).div_ceil(each);
                (0..size).map(|_| T::default()).collect()
            });
            (&page[..], start.max(first) - first, end.min(first + PAGE) - first)
        })
    }
}

/// Which bytes of a buffer were written, a bit for each.
struct Written(Pages<AtomicU8>);

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Written").finish_non_exhaustive()
    }
}

impl PartialEq for Written {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Written {}

/// Bytes whose bits are together.
const TOGETHER: usize = 8;

impl Written {
    fn bits(from: usize, to: usize, at: usize) -> u8 {
        let first = from.saturating_sub(at * TOGETHER);
        let end = (to - at * TOGETHER).min(TOGETHER);
        (0xff_u8 << first) & (0xff_u8 >> (TOGETHER - end))
    }

    fn note(&self, start: usize, bytes: usize) {
        for (page, from, to) in self.0.on((start, bytes), TOGETHER) {
            let first = from / TOGETHER;
            for (at, written) in page[first..to.div_ceil(TOGETHER)].iter().enumerate() {
                let bits = Self::bits(from, to, first + at);
                if written.load(Ordering::Relaxed) & bits != bits {
                    written.fetch_or(bits, Ordering::Relaxed);
                }
            }
        }
    }

    /// How many of the bytes nobody has written.
    fn missing(&self, place: (usize, usize)) -> usize {
        let mut missing = 0;
        for (page, from, to) in self.0.on(place, TOGETHER) {
            let first = from / TOGETHER;
            for (at, written) in page[first..to.div_ceil(TOGETHER)].iter().enumerate() {
                let lacks = Self::bits(from, to, first + at) & !written.load(Ordering::Relaxed);
                missing += lacks.count_ones() as usize;
            }
        }
        missing
    }
}
