//! A matrix in host memory and its copy on the device, as bytes: which line goes where.

use std::sync::{Mutex, PoisonError};

use cpu_gemm::run_on;
use cuda_lazy::LineCopy;
use rayon::ThreadPool;

use super::host_bytes::{HostBytes, HostBytesMut};

/// Lines on the device begin at multiples of this many bytes, so that kernels may load several
/// elements at once; it is a multiple of every element's size.
const ALIGNMENT: usize = 16;
/// Lines shorter than this many bytes follow one another without a gap: padding would be a good part
/// of what travels.
const LEAST_PADDED: usize = 256;
/// Bytes up to which one thread copies alone: to wake another takes as long.
const ALONE: usize = 512 << 10;
/// Bytes that one of several threads copies at a time.
const PIECE: usize = 256 << 10;

/// A part of a matrix: lines that are contiguous each, `ld` bytes apart in host memory and `pitch`
/// bytes apart on the device. A line is a row of a row-major matrix, a column of a column-major one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Where the first line begins in the host's matrix.
    start: usize,
    lines: usize,
    /// Bytes of a line.
    width: usize,
    ld: usize,
    pitch: usize,
}

/// The bytes from one line's beginning to the next's on the device.
pub(super) fn pitch(width: usize) -> usize {
    if width < LEAST_PADDED { width } else { width.next_multiple_of(ALIGNMENT) }
}

/// Bytes that are contiguous on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    /// Where it begins in the host's matrix.
    host: usize,
    /// Where it begins in the piece.
    at: usize,
    len: usize,
}

impl Block {
    /// Lines of `width` bytes, `ld` apart, the first at `start`.
    pub(super) fn new(start: usize, lines: usize, width: usize, ld: usize) -> Self {
        let pitch = pitch(width);
        if ld == width && pitch == width {
            // Nothing lies between the lines: they are one.
            let width = lines * width;
            return Self { start, lines: usize::from(width > 0), width, ld: width, pitch: width };
        }
        Self { start, lines, width, ld, pitch }
    }

    /// Bytes on the device.
    pub(super) fn bytes(&self) -> usize {
        self.lines * self.pitch
    }

    /// Where the first line begins in the host's matrix.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    /// All of it on its way to the device.
    pub(super) fn copy_up(&self) -> LineCopy {
        let Self { lines, width, ld, pitch, .. } = *self;
        LineCopy { lines, bytes: width, from_pitch: ld, to_pitch: pitch }
    }

    /// All of it on its way back.
    pub(super) fn copy_down(&self) -> LineCopy {
        let LineCopy { from_pitch, to_pitch, .. } = self.copy_up();
        LineCopy { from_pitch: to_pitch, to_pitch: from_pitch, ..self.copy_up() }
    }

    /// The parts of the block's bytes on the device that hold something, from `from` on for `len`.
    fn segments(&self, from: usize, len: usize) -> impl Iterator<Item = Segment> + use<> {
        let Self { start, width, ld, pitch, .. } = *self;
        let end = from + len;
        let first = from.checked_div(pitch).unwrap_or(0);
        let last = end.div_ceil(pitch.max(1));
        (first..last).filter_map(move |line| {
            let begins = (line * pitch).max(from);
            let ends = (line * pitch + width).min(end);
            let host = start + line * ld + (begins - line * pitch);
            (begins < ends).then(|| Segment { host, at: begins - from, len: ends - begins })
        })
    }

    /// Copies what belongs into these bytes of the block, from `from` on, out of the host's matrix.
    ///
    /// # Safety
    /// As [`Self::load`].
    unsafe fn gather(&self, host: HostBytes<'_>, from: usize, to: &mut [u8]) {
        for Segment { host: source, at, len } in self.segments(from, to.len()) {
            // SAFETY: a segment is of one line of the block, and so of the matrix.
            unsafe { host.read(source, &mut to[at..at + len]) };
        }
    }

    /// Fills `to` with the block's bytes from `from` on; what pads lines keeps its value.
    ///
    /// # Safety
    /// The lines of the block are parts of lines of the matrix, at the same offsets.
    pub(super) unsafe fn load(
        &self,
        pool: &ThreadPool,
        host: HostBytes<'_>,
        from: usize,
        to: &mut [u8],
    ) {
        if to.len() <= ALONE {
            // SAFETY: the caller's promise.
            return unsafe { self.gather(host, from, to) };
        }
        share(pool, to.chunks_mut(PIECE).enumerate(), |(index, piece)| {
            // SAFETY: the caller's promise.
            unsafe { self.gather(host, from + index * PIECE, piece) };
        });
    }

    /// Puts the block's bytes from `from` on into the host's matrix, whose other bytes stay as they are.
    ///
    /// # Safety
    /// As [`Self::load`].
    pub(super) unsafe fn store(
        &self,
        pool: &ThreadPool,
        from: usize,
        data: &[u8],
        host: &mut HostBytesMut<'_>,
    ) {
        if data.len() <= ALONE {
            // SAFETY: the caller's promise; nobody else has the matrix.
            return unsafe { self.scatter(from, data, host) };
        }
        let host = &*host;
        share(pool, data.chunks(PIECE).enumerate(), |(index, piece)| {
            // SAFETY: the caller's promise; no two pieces have a byte of a line in common, and nobody but this
            // function has the matrix.
            unsafe { self.scatter(from + index * PIECE, piece, host) };
        });
    }

    /// Puts the block's bytes from `from` on into the host's matrix.
    ///
    /// # Safety
    /// As [`Self::load`], and no other thread uses what belongs there.
    unsafe fn scatter(&self, from: usize, data: &[u8], host: &HostBytesMut<'_>) {
        for Segment { host: to, at, len } in self.segments(from, data.len()) {
            // SAFETY: a segment is of one line of the block, and so of the matrix; the rest is the caller's promise.
            unsafe { host.write(to, &data[at..at + len]) };
        }
    }
}

/// Works on pieces, the caller from the first on, the pool's threads on what is left when they wake.
fn share<P: Send>(
    pool: &ThreadPool,
    pieces: impl ExactSizeIterator<Item = P> + Send,
    work: impl Fn(P) + Sync,
) {
    let threads = pieces.len().min(pool.current_num_threads());
    let pieces = Mutex::new(pieces);
    let next = || pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
    let draw = || {
        while let Some(piece) = next() {
            work(piece);
        }
    };
    run_on(pool, threads, draw);
}

#[cfg(test)]
mod tests {
    use rayon::ThreadPoolBuilder;

    use super::*;

    #[test]
    fn lines_are_aligned_where_padding_is_little() {
        assert_eq!([0, 4, 255, 256, 257, 40_960].map(pitch), [0, 4, 255, 256, 272, 40_960]);
        assert!((0..5000).all(|width| pitch(width) >= width && pitch(width) * 16 <= width * 17));
    }

    /// Every byte of every line in exactly one segment, wherever the block is cut.
    #[test]
    fn segments_cover_each_byte_of_a_line_once_and_no_padding() {
        for (lines, width, ld) in [(1, 5, 5), (7, 300, 300), (5, 257, 300), (3, 9, 20), (4, 0, 3)] {
            let block = Block::new(11, lines, width, ld);
            for cut in [1, 2, 3, 16, 100, 271, 272, 273, 10_000] {
                let mut seen = vec![0; 11 + lines * ld];
                for from in (0..block.bytes()).step_by(cut) {
                    let len = cut.min(block.bytes() - from);
                    let mut end = 0;
                    for segment in block.segments(from, len) {
                        assert!(segment.at >= end && segment.len > 0);
                        end = segment.at + segment.len;
                        assert!(end <= len);
                        seen[segment.host..][..segment.len].iter_mut().for_each(|n| *n += 1);
                    }
                }
                for (place, count) in seen.into_iter().enumerate() {
                    let within = place.checked_sub(11).is_some_and(|place| place % ld < width);
                    assert_eq!(count, usize::from(within), "{place} of {block:?} cut by {cut}");
                }
            }
        }
    }

    /// There and back through pieces of many lines, of parts of a line, and cuts within lines.
    #[test]
    fn a_block_comes_back_as_it_went_and_nothing_else_is_touched() {
        let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        for (lines, width, ld) in [(3000, 300, 320), (2, 700_001, 700_003), (900, 1024, 1024)] {
            let host: Vec<u8> = (0..251).cycle().take(lines * ld + 5).collect();
            let block = Block::new(5, lines, width, ld);
            let mut back = vec![255; host.len()];
            for from in (0..block.bytes()).step_by(600_007) {
                let mut staged = vec![254; 600_007.min(block.bytes() - from)];
                // SAFETY: the lines of the block are within the slice.
                unsafe { block.load(&pool, HostBytes::of(&host), from, &mut staged) };
                let mut to = HostBytesMut::of(&mut back);
                // SAFETY: as above.
                unsafe { block.store(&pool, from, &staged, &mut to) };
            }
            for (place, &byte) in back.iter().enumerate() {
                let within = place >= 5 && (place - 5) % ld < width;
                assert_eq!(byte, if within { host[place] } else { 255 }, "{place} of {block:?}");
            }
        }
    }
}
