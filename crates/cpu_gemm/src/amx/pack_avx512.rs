//! Packing with AVX-512: a row of a tile is a register.
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "the intrinsics of a step share one argument: the CPU has them, and the addresses are the caller's"
)]

use std::arch::x86_64::*;

use gemm_spec::{bf16, f16};

use super::pack::{Form, LINES, PLANE, Panels, TILE, step_bytes};
use super::pieces::{OnePiece, Pieces, Range, TwoPieces};
use crate::cache_line::LINE;

/// Steps that are packed before they are transposed, so that they are still in the L1.
const TRANSPOSED_AT_ONCE: usize = 4;

/// Elements that AVX-512 splits into pieces.
pub(super) trait Vectors: Pieces {
    /// A row of a tile for each plane: `count` elements of a line, contiguous; zeros behind them.
    ///
    /// # Safety
    /// Those can be read; the CPU has the features of [`pack`].
    unsafe fn line(from: *const Self, count: usize, watch: &mut Watch) -> [__m512i; 3];

    /// A row of each of two tiles for each plane: a group of steps, `apart` from one another, of those of 32
    /// contiguous lines that are in the mask; zeros for others and behind the last step.
    ///
    /// # Safety
    /// As above.
    unsafe fn group(
        from: *const Self,
        apart: usize,
        steps: usize,
        lines: __mmask32,
        watch: &mut Watch,
    ) -> [[__m512i; 2]; 3];
}

/// The range of what was loaded, by lanes: magnitudes less one, so that zeros are the largest.
#[derive(Clone, Copy)]
pub(super) struct Watch {
    least_less_one: __m512i,
    largest: __m512i,
}

impl Watch {
    #[inline(always)]
    unsafe fn new() -> Self {
        // SAFETY: the CPU has AVX-512, see `pack`.
        unsafe { Self { least_less_one: _mm512_set1_epi32(-1), largest: _mm512_setzero_si512() } }
    }

    /// Lanes of f32.
    #[inline(always)]
    unsafe fn f32(&mut self, x: __m512) {
        // SAFETY: as above.
        unsafe {
            let magnitude = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(i32::MAX));
            let less_one = _mm512_sub_epi32(magnitude, _mm512_set1_epi32(1));
            self.least_less_one = _mm512_min_epu32(self.least_less_one, less_one);
            self.largest = _mm512_max_epu32(self.largest, magnitude);
        }
    }

    /// Lanes of bf16.
    #[inline(always)]
    unsafe fn bf16(&mut self, x: __m512i) {
        // SAFETY: as above.
        unsafe {
            let magnitude = _mm512_and_si512(x, _mm512_set1_epi16(i16::MAX));
            let less_one = _mm512_sub_epi16(magnitude, _mm512_set1_epi16(1));
            self.least_less_one = _mm512_min_epu16(self.least_less_one, less_one);
            self.largest = _mm512_max_epu16(self.largest, magnitude);
        }
    }

    /// The range of those elements.
    #[inline(always)]
    unsafe fn range<E: Pieces>(self) -> Range {
        // SAFETY: a register of 32-bit lanes is as many numbers, of any bits.
        let lanes = |register| unsafe { std::mem::transmute::<__m512i, [u32; 16]>(register) };
        let (least, largest) = (lanes(self.least_less_one), lanes(self.largest));
        let mut range = Range::EMPTY;
        for (&least_less_one, &largest) in least.iter().zip(&largest) {
            if size_of::<E>() > 2 || E::PLANES > 1 {
                range = range.with(least_less_one.wrapping_add(1)).with(largest);
            } else {
                for shift in [0, 16] {
                    let least = (least_less_one >> shift).wrapping_add(1) & 0xffff;
                    let largest = largest >> shift & 0xffff;
                    range = range.with(least << 16).with(largest << 16);
                }
            }
        }
        range
    }
}

/// The first `count` lanes of 32 and of 64.
const fn first_of_32(count: usize) -> __mmask32 {
    if count >= 32 { !0 } else { (1 << count) - 1 }
}

const fn first_of_64(count: usize) -> __mmask64 {
    if count >= 64 { !0 } else { (1 << count) - 1 }
}

/// The lower and the upper lanes.
#[expect(clippy::cast_possible_truncation, reason = "half of the lanes each")]
const fn halves(lanes: __mmask32) -> [__mmask16; 2] {
    [lanes as __mmask16, (lanes >> 16) as __mmask16]
}

impl Vectors for i8 {
    #[inline(always)]
    unsafe fn line(from: *const Self, count: usize, _: &mut Watch) -> [__m512i; 3] {
        // SAFETY: the caller's promise for `count` elements; masked lanes are not read.
        unsafe { [_mm512_maskz_loadu_epi8(first_of_64(count), from); 3] }
    }

    #[inline(always)]
    unsafe fn group(
        from: *const Self,
        apart: usize,
        steps: usize,
        lines: __mmask32,
        _: &mut Watch,
    ) -> [[__m512i; 2]; 3] {
        // SAFETY: the caller's promise for the steps and lines that exist.
        unsafe {
            let row = |step: usize| match step < steps {
                true => _mm256_maskz_loadu_epi8(lines, from.wrapping_add(step.wrapping_mul(apart))),
                false => _mm256_setzero_si256(),
            };
            let (r0, r1, r2, r3) = (row(0), row(1), row(2), row(3));
            let (even0, odd0) = (_mm256_unpacklo_epi8(r0, r1), _mm256_unpackhi_epi8(r0, r1));
            let (even1, odd1) = (_mm256_unpacklo_epi8(r2, r3), _mm256_unpackhi_epi8(r2, r3));
            // Register q has lines 4 q and on in its lower half, 16 more in its upper.
            let q0 = _mm256_unpacklo_epi16(even0, even1);
            let q1 = _mm256_unpackhi_epi16(even0, even1);
            let q2 = _mm256_unpacklo_epi16(odd0, odd1);
            let q3 = _mm256_unpackhi_epi16(odd0, odd1);
            let joined = |low, high| _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
            let first = joined(
                _mm256_permute2x128_si256::<0x20>(q0, q1),
                _mm256_permute2x128_si256::<0x20>(q2, q3),
            );
            let second = joined(
                _mm256_permute2x128_si256::<0x31>(q0, q1),
                _mm256_permute2x128_si256::<0x31>(q2, q3),
            );
            [[first, second]; 3]
        }
    }
}

/// Lanes of 16 bits that bring those of two registers side by side, from that one on.
const fn alternating(first: i16) -> [i16; 32] {
    let mut lanes = [0; 32];
    let (mut pair, mut lane) = (0, first);
    while pair < 16 {
        lanes[2 * pair] = lane;
        lanes[2 * pair + 1] = 32 + lane;
        (pair, lane) = (pair + 1, lane + 1);
    }
    lanes
}

/// Two rows of 32 lanes of 16 bits as pairs of lanes: those of the first 16 lines, and of the others.
#[inline(always)]
unsafe fn pairs(first: __m512i, second: __m512i) -> [__m512i; 2] {
    static LOW: [i16; 32] = alternating(0);
    static HIGH: [i16; 32] = alternating(16);
    // SAFETY: the CPU has AVX-512 BW, see `pack`; the arrays are 64 bytes.
    unsafe {
        let low = _mm512_loadu_si512(LOW.as_ptr().cast());
        let high = _mm512_loadu_si512(HIGH.as_ptr().cast());
        [
            _mm512_permutex2var_epi16(first, low, second),
            _mm512_permutex2var_epi16(first, high, second),
        ]
    }
}

impl Vectors for bf16 {
    #[inline(always)]
    unsafe fn line(from: *const Self, count: usize, watch: &mut Watch) -> [__m512i; 3] {
        // SAFETY: the caller's promise for `count` elements.
        unsafe {
            let row = _mm512_maskz_loadu_epi16(first_of_32(count), from.cast());
            watch.bf16(row);
            [row; 3]
        }
    }

    #[inline(always)]
    unsafe fn group(
        from: *const Self,
        apart: usize,
        steps: usize,
        lines: __mmask32,
        watch: &mut Watch,
    ) -> [[__m512i; 2]; 3] {
        // SAFETY: the caller's promise for the steps and lines that exist.
        unsafe {
            let row = |step: usize| match step < steps {
                true => _mm512_maskz_loadu_epi16(
                    lines,
                    from.wrapping_add(step.wrapping_mul(apart)).cast(),
                ),
                false => _mm512_setzero_si512(),
            };
            let (first, second) = (row(0), row(1));
            watch.bf16(first);
            watch.bf16(second);
            [pairs(first, second); 3]
        }
    }
}

/// Sixteen numbers rounded to bf16, in the lower halves of 32 bits, and what is left of them.
#[inline(always)]
unsafe fn cut(x: __m512) -> (__m512i, __m512) {
    // SAFETY: the CPU has AVX512-BF16, see `pack`; 16 bf16 are 256 bits.
    unsafe {
        let rounded = std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(x));
        let rounded = _mm512_cvtepu16_epi32(rounded);
        let wide = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(rounded));
        (rounded, _mm512_sub_ps(x, wide))
    }
}

/// Elements that are split as f32.
trait Split: Pieces {
    /// Those of sixteen elements that are in the mask as f32; the others are zeros.
    unsafe fn load(from: *const Self, lanes: __mmask16) -> __m512;
}

macro_rules! split_f32 {
    ($($element:ty),*) => {$(
        impl Split for $element {
            #[inline(always)]
            unsafe fn load(from: *const Self, lanes: __mmask16) -> __m512 {
                // SAFETY: the caller's promise for those elements, each an f32; masked lanes are not read.
                unsafe { _mm512_maskz_loadu_ps(lanes, from.cast()) }
            }
        }
    )*};
}

split_f32!(f32, TwoPieces, OnePiece);

impl Split for f16 {
    #[inline(always)]
    unsafe fn load(from: *const Self, lanes: __mmask16) -> __m512 {
        // SAFETY: the caller's promise for those elements; masked lanes are not read.
        unsafe { _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes, from.cast())) }
    }
}

macro_rules! split_vectors {
    ($($element:ty),*) => {$(
        impl Vectors for $element {
            #[inline(always)]
            unsafe fn line(from: *const Self, count: usize, watch: &mut Watch) -> [__m512i; 3] {
                // SAFETY: the caller's promise for `count` elements.
                unsafe {
                    let [lanes, more] = halves(first_of_32(count));
                    let mut low = Self::load(from, lanes);
                    let mut high = Self::load(from.wrapping_add(16), more);
                    watch.f32(low);
                    watch.f32(high);
                    let mut rows = [_mm512_setzero_si512(); 3];
                    for row in rows.iter_mut().take(Self::PLANES) {
                        let (low_piece, low_rest) = cut(low);
                        let (high_piece, high_rest) = cut(high);
                        let lower = _mm512_castsi256_si512(_mm512_cvtepi32_epi16(low_piece));
                        *row = _mm512_inserti64x4::<1>(lower, _mm512_cvtepi32_epi16(high_piece));
                        (low, high) = (low_rest, high_rest);
                    }
                    rows
                }
            }

            #[inline(always)]
            unsafe fn group(
                from: *const Self,
                apart: usize,
                steps: usize,
                lines: __mmask32,
                watch: &mut Watch,
            ) -> [[__m512i; 2]; 3] {
                // SAFETY: the caller's promise for the steps and lines that exist.
                unsafe {
                    let mut rows = [[_mm512_setzero_si512(); 2]; 3];
                    for half in 0..2 {
                        let lines = halves(lines)[half];
                        let at = |step: usize| {
                            let lines = if step < steps { lines } else { 0 };
                            let from = from.wrapping_add(step.wrapping_mul(apart));
                            Self::load(from.wrapping_add(16 * half), lines)
                        };
                        let (mut first, mut second) = (at(0), at(1));
                        watch.f32(first);
                        watch.f32(second);
                        for row in rows.iter_mut().take(Self::PLANES) {
                            let (first_piece, first_rest) = cut(first);
                            let (second_piece, second_rest) = cut(second);
                            let second_piece = _mm512_slli_epi32::<16>(second_piece);
                            row[half] = _mm512_or_si512(first_piece, second_piece);
                            (first, second) = (first_rest, second_rest);
                        }
                    }
                    rows
                }
            }
        }
    )*};
}

split_vectors!(f32, f16, TwoPieces, OnePiece);

/// Packs panels, as [`super::pack::pack`].
///
/// # Safety
/// As there; the CPU has those features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
pub(super) unsafe fn pack<E: Vectors>(panels: &Panels<E>) -> Range {
    // SAFETY: the caller's promises.
    unsafe {
        if panels.apart == 1 {
            pack_lines(panels)
        } else if panels.along == 1 {
            pack_groups(panels)
        } else {
            super::pack::pack(panels)
        }
    }
}

/// Lines are contiguous.
#[inline(always)]
unsafe fn pack_lines<E: Vectors>(panels: &Panels<E>) -> Range {
    let &Panels { from, along, lines, missing, k, ahead, steps, to, panel, form, .. } = panels;
    let transposed = form == Form::Groups;
    let at_once = if transposed { TRANSPOSED_AT_ONCE } else { steps };
    // SAFETY: the caller's promises: whole steps of panels that exist, and elements of lines that exist.
    unsafe {
        let mut watch = Watch::new();
        for tile_line in (0..lines.next_multiple_of(LINES)).step_by(16) {
            let tile = to.wrapping_add(tile_line / LINES * panel + tile_line % LINES / 16 * TILE);
            for first in (0..steps).step_by(at_once.max(1)) {
                let end = steps.min(first + at_once);
                for row in 0..16 {
                    let line = tile_line + row;
                    let from = from.wrapping_add(line.wrapping_mul(along));
                    let k = if (missing..lines).contains(&line) { k } else { 0 };
                    for step in first..end {
                        let count = k.saturating_sub(step * E::STEP).min(E::STEP);
                        let at = from.wrapping_add(step * E::STEP);
                        if let Some(ahead) = ahead {
                            ask(at.wrapping_add(ahead), E::STEP);
                        }
                        let rows = E::line(at, count, &mut watch);
                        let to = tile.wrapping_add(step * step_bytes::<E>() + row * 64);
                        for (plane, row) in rows.into_iter().enumerate().take(E::PLANES) {
                            _mm512_store_si512(to.wrapping_add(plane * PLANE).cast(), row);
                        }
                    }
                }
                if transposed {
                    for step in first..end {
                        for plane in 0..E::PLANES {
                            let at = step * step_bytes::<E>() + plane * PLANE;
                            transpose(tile.wrapping_add(at));
                        }
                    }
                }
            }
        }
        watch.range::<E>()
    }
}

/// The lines of a step are contiguous.
#[inline(always)]
unsafe fn pack_groups<E: Vectors>(panels: &Panels<E>) -> Range {
    let &Panels { from, apart, lines, missing, k, ahead, steps, to, panel, form, .. } = panels;
    // SAFETY: the caller's promises: whole steps of panels that exist, and elements of steps that exist.
    unsafe {
        let mut watch = Watch::new();
        for step in 0..steps {
            let tile = |first_line: usize| {
                to.wrapping_add(first_line / LINES * panel + step * step_bytes::<E>())
            };
            // A row of all panels before the next: rows that are a power of two apart evict each other.
            for row in 0..16 {
                let p = step * E::STEP + row * E::GROUP;
                let from = from.wrapping_add(p.wrapping_mul(apart));
                let exist = k.saturating_sub(p).min(E::GROUP);
                if let Some(ahead) = ahead {
                    for step in ahead..ahead + E::GROUP {
                        ask(from.wrapping_add(step.wrapping_mul(apart)), lines);
                    }
                }
                for first_line in (0..lines).step_by(LINES) {
                    let absent = first_of_32(missing.saturating_sub(first_line));
                    let mask = first_of_32(lines - first_line) & !absent;
                    let from = from.wrapping_add(first_line);
                    let rows = E::group(from, apart, exist, mask, &mut watch);
                    let to = tile(first_line).wrapping_add(row * 64);
                    for (plane, [first, second]) in rows.into_iter().enumerate().take(E::PLANES) {
                        let to = to.wrapping_add(plane * PLANE);
                        _mm512_store_si512(to.cast(), first);
                        _mm512_store_si512(to.wrapping_add(TILE).cast(), second);
                    }
                }
            }
            if form == Form::Lines {
                for first_line in (0..lines).step_by(LINES) {
                    for half in 0..2 * E::PLANES {
                        transpose(tile(first_line).wrapping_add(half * TILE));
                    }
                }
            }
        }
        watch.range::<E>()
    }
}

/// Asks for the cache lines of some contiguous elements, which need not exist.
#[inline(always)]
unsafe fn ask<E>(from: *const E, count: usize) {
    for line in (0..count * size_of::<E>()).step_by(LINE) {
        // SAFETY: a prefetch faults nowhere.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(from.cast::<i8>().wrapping_add(line)) };
    }
}

/// Transposes a tile as a square of 32 bits, in place.
///
/// # Safety
/// It is this thread's to read and write, and begins at a cache line; the CPU has AVX-512F.
#[inline(always)]
unsafe fn transpose(tile: *mut u8) {
    // SAFETY: the caller's promises.
    unsafe {
        let tile = tile.cast::<__m512i>();
        let mut pairs = [_mm512_setzero_si512(); 16];
        // Within each quarter, squares of four: rows 4 q to 4 q + 3 give columns c of all quarters.
        for q in 0..4 {
            let row = |i: usize| _mm512_load_si512(tile.wrapping_add(4 * q + i));
            let (r0, r1, r2, r3) = (row(0), row(1), row(2), row(3));
            let (t0, t1) = (_mm512_unpacklo_epi32(r0, r1), _mm512_unpackhi_epi32(r0, r1));
            let (t2, t3) = (_mm512_unpacklo_epi32(r2, r3), _mm512_unpackhi_epi32(r2, r3));
            pairs[4 * q] = _mm512_unpacklo_epi64(t0, t2);
            pairs[4 * q + 1] = _mm512_unpackhi_epi64(t0, t2);
            pairs[4 * q + 2] = _mm512_unpacklo_epi64(t1, t3);
            pairs[4 * q + 3] = _mm512_unpackhi_epi64(t1, t3);
        }
        // Quarter j of pairs[4 q + c] has column 4 j + c of rows 4 q to 4 q + 3.
        for c in 0..4 {
            let (p0, p1, p2, p3) = (pairs[c], pairs[4 + c], pairs[8 + c], pairs[12 + c]);
            let (low0, low1) =
                (_mm512_shuffle_i32x4::<0x44>(p0, p1), _mm512_shuffle_i32x4::<0x44>(p2, p3));
            let (high0, high1) =
                (_mm512_shuffle_i32x4::<0xee>(p0, p1), _mm512_shuffle_i32x4::<0xee>(p2, p3));
            let store = |column: usize, row| _mm512_store_si512(tile.wrapping_add(column), row);
            store(c, _mm512_shuffle_i32x4::<0x88>(low0, low1));
            store(4 + c, _mm512_shuffle_i32x4::<0xdd>(low0, low1));
            store(8 + c, _mm512_shuffle_i32x4::<0x88>(high0, high1));
            store(12 + c, _mm512_shuffle_i32x4::<0xdd>(high0, high1));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::super::pack::{PackFn, pack as pack_singly};
    use super::*;
    use crate::buffer::Buffer;

    /// Both ways to pack give the same bytes and range, for lines and steps that end anywhere.
    fn same<E: Vectors + Debug>(element: impl Fn(u32) -> E) {
        let has = is_x86_feature_detected!("avx512bf16") && is_x86_feature_detected!("avx512dq");
        if !has {
            eprintln!("not run: the CPU has no AVX512-BF16");
            return;
        }
        let mut state = 1u32;
        let mut random = move || {
            state = state.wrapping_mul(0x915f_77f5).wrapping_add(0x3c6e_f35f);
            state >> 8 ^ state << 16
        };
        for (lines, k) in
            [(1usize, 1usize), (31, 63), (32, 64), (33, 65), (47, 200), (64, 31), (70, 130)]
        {
            let from: Vec<E> = (0..lines * k).map(|_| element(random())).collect();
            let steps = k.div_ceil(E::STEP) + 1;
            let panel = steps * step_bytes::<E>();
            let bytes = lines.div_ceil(LINES) * panel;
            let forms = [Form::Lines, Form::Groups].map(|form| [(form, 0), (form, lines.min(17))]);
            for (along, apart) in [(k, 1), (1, lines)] {
                for (form, missing) in forms.into_iter().flatten() {
                    let pack_by = |pack: PackFn<E>| {
                        let buffer = Buffer::new(bytes).expect("memory");
                        let to = buffer.as_mut_ptr::<u8>();
                        // SAFETY: the buffer holds that many bytes, all of which packing writes.
                        unsafe {
                            to.write_bytes(0xee, bytes);
                            let from = from.as_ptr();
                            let panels = Panels {
                                from,
                                along,
                                apart,
                                lines,
                                missing,
                                k,
                                ahead: (steps > 2).then_some(64),
                                steps,
                                to,
                                panel,
                                form,
                            };
                            let range = pack(&panels);
                            (std::slice::from_raw_parts(to, bytes).to_vec(), range)
                        }
                    };
                    let (expected, expected_range) = pack_by(pack_singly::<E>);
                    let (packed, range) = pack_by(pack::<E>);
                    assert!(packed == expected, "{lines} x {k}, {along}, {apart}");
                    assert_eq!(range, expected_range, "{lines} x {k}");
                }
            }
        }
    }

    #[test]
    fn registers_pack_what_elements_pack_singly() {
        same(|bits| bits.to_le_bytes()[0].cast_signed());
        same(|bits| bf16::from_bits(u16::try_from(bits & 0xbf7f).expect("16 bits")));
        same(|bits| f16::from_bits(u16::try_from(bits & 0xbfff).expect("16 bits")));
        // Exponents at which no piece is subnormal.
        same(|bits| f32::from_bits(bits & 0x807f_ffff | (90 + bits % 90) << 23));
    }
}
