//! The micro-kernel: 32 by 32 sums in four tiles, over the steps of a block of k.
//!
//! Tiles 0 to 3 are sums: columns 0 to 15 of the rows 0 to 15 and 16 to 31, then columns 16 to 31 of the
//! same. Tiles 4 and 5 hold B, 6 and 7 A. Each step loads four tiles for four products of each pair of planes.
//!
//! B streams from the L2 by `tileloaddt1`, so that it does not push the panel of A, which all panels of B meet,
//! out of the L1.
//!
//! A tile's contents live within one block of assembly: the compiler does not know that the registers exist.

use std::arch::asm;

use gemm_spec::bf16;

use super::model::{dot_bf16, dot_i8, dot_i8_u8, dot_u8, dot_u8_i8};
use super::pack::{LINES, PLANE, TILE};

/// Bytes of a column of sums.
pub(super) const SUMS_COLUMN: usize = LINES * 4;
/// Bytes of the sums of a micro-kernel.
pub(super) const SUMS: usize = LINES * SUMS_COLUMN;

/// What a micro-kernel computes. Addresses to be asked for ahead need not exist.
#[repr(C)]
pub(super) struct MicroTile {
    /// k elements, at least one.
    pub(super) steps: usize,
    /// A packed panel of A.
    pub(super) a: *const u8,
    /// A packed panel of B.
    pub(super) b: *const u8,
    /// Sums to go on from, [`SUMS_COLUMN`] bytes from column to column, or null for zeros.
    pub(super) sums: *const u8,
    /// Where the sums go.
    pub(super) to: *mut u8,
    /// Bytes from one column of `to` to the next.
    pub(super) ld: usize,
    /// The next panel of A, some steps of it.
    pub(super) ahead_a: *const u8,
    /// What of B the next block of panels begins with.
    pub(super) ahead_b: *const u8,
    /// The next sums.
    pub(super) ahead_sums: *const u8,
}

/// Computes a micro-tile.
pub(super) type MicroKernel = unsafe fn(&MicroTile);

/// Products of all planes of a step: load B or A of a plane, multiply.
macro_rules! load_b {
    ($plane:literal) => {
        concat!(
            "tileloaddt1 tmm4, [{b}+{s}*1+2048*",
            $plane,
            "]\n",
            "tileloaddt1 tmm5, [{b}+{s}*1+2048*",
            $plane,
            "+1024]",
        )
    };
}
macro_rules! load_a {
    ($plane:literal) => {
        concat!(
            "tileloadd tmm6, [{a}+{s}*1+2048*",
            $plane,
            "]\n",
            "tileloadd tmm7, [{a}+{s}*1+2048*",
            $plane,
            "+1024]",
        )
    };
}
macro_rules! multiply {
    ($multiply:literal) => {
        concat!(
            $multiply,
            " tmm0, tmm4, tmm6\n",
            $multiply,
            " tmm1, tmm4, tmm7\n",
            $multiply,
            " tmm2, tmm5, tmm6\n",
            $multiply,
            " tmm3, tmm5, tmm7",
        )
    };
}
/// Asks for two lines of the operands ahead, of a step's share, and for two of the sums.
macro_rules! ask_operands {
    ($at:literal) => {
        concat!(
            "prefetcht1 [{ahead_a}+",
            $at,
            "]\n",
            "prefetcht1 [{ahead_a}+64+",
            $at,
            "]\n",
            "prefetcht1 [{ahead_b}+",
            $at,
            "]\n",
            "prefetcht1 [{ahead_b}+64+",
            $at,
            "]",
        )
    };
}
macro_rules! ask_sums {
    ($at:literal) => {
        concat!("prefetchw [{ahead_sums}+", $at, "]\nprefetchw [{ahead_sums}+64+", $at, "]")
    };
}

/// A micro-kernel of assembly: bytes of a step, bytes of A and of B that a step asks for ahead, and the
/// instructions of a step.
macro_rules! micro_kernel {
    ($name:ident, $step:literal, $a_share:literal, $b_share:literal, $($instructions:expr),+ $(,)?) => {
        /// # Safety
        /// This thread has configured its tiles; the panels hold that many steps, `sums` is null or holds
        /// sums, and 32 columns of 128 bytes at `to` are this thread's to write. All but the rows of `to`
        /// begin at cache lines.
        pub(super) unsafe fn $name(tile: &MicroTile) {
            let &MicroTile { steps, a, b, sums, to, ld, ahead_a, ahead_b, ahead_sums } = tile;
            // SAFETY: the caller's promises: what is loaded and stored exists. No tile outlives the block,
            // and prefetches fault nowhere.
            unsafe {
                asm!(
                    "test {sums}, {sums}",
                    "jz 3f",
                    "tileloadd tmm0, [{sums}+{s}*2]",
                    "tileloadd tmm1, [{sums}+{s}*2+64]",
                    "tileloadd tmm2, [{sums}+{s}*2+2048]",
                    "tileloadd tmm3, [{sums}+{s}*2+2112]",
                    "jmp 2f",
                    "3:",
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    ".p2align 5",
                    "2:",
                    $($instructions,)+
                    concat!("add {a}, ", $step),
                    concat!("add {b}, ", $step),
                    concat!("add {ahead_a}, ", $a_share),
                    concat!("add {ahead_b}, ", $b_share),
                    "add {ahead_sums}, 256",
                    "dec {steps}",
                    "jnz 2b",
                    "tilestored [{to}+{ld}*1], tmm0",
                    "tilestored [{to}+{ld}*1+64], tmm1",
                    "tilestored [{second}+{ld}*1], tmm2",
                    "tilestored [{second}+{ld}*1+64], tmm3",
                    steps = inout(reg) steps => _,
                    a = inout(reg) a => _,
                    b = inout(reg) b => _,
                    s = in(reg) 64usize,
                    sums = in(reg) sums,
                    to = in(reg) to,
                    second = in(reg) to.wrapping_add(ld.wrapping_mul(16)),
                    ld = in(reg) ld,
                    ahead_a = inout(reg) ahead_a => _,
                    ahead_b = inout(reg) ahead_b => _,
                    ahead_sums = inout(reg) ahead_sums => _,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    };
}

/// A step of one plane, with 128 bytes of A, 256 of B and 256 of the sums asked for ahead.
macro_rules! one_plane {
    ($multiply:literal) => {
        concat!(
            "tileloadd tmm6, [{a}+{s}*1]\n",
            "tileloaddt1 tmm4, [{b}+{s}*1]\n",
            $multiply,
            " tmm0, tmm4, tmm6\n",
            "prefetcht1 [{ahead_a}]\n",
            "prefetcht1 [{ahead_a}+64]\n",
            "prefetchw [{ahead_sums}]\n",
            "prefetchw [{ahead_sums}+64]\n",
            "tileloadd tmm7, [{a}+{s}*1+1024]\n",
            $multiply,
            " tmm1, tmm4, tmm7\n",
            "prefetchw [{ahead_sums}+128]\n",
            "prefetchw [{ahead_sums}+192]\n",
            "tileloaddt1 tmm5, [{b}+{s}*1+1024]\n",
            $multiply,
            " tmm2, tmm5, tmm6\n",
            "prefetcht1 [{ahead_b}]\n",
            "prefetcht1 [{ahead_b}+64]\n",
            "prefetcht1 [{ahead_b}+128]\n",
            "prefetcht1 [{ahead_b}+192]\n",
            $multiply,
            " tmm3, tmm5, tmm7",
        )
    };
}

micro_kernel!(multiply_bf16, 2048, 128, 256, one_plane!("tdpbf16ps"));
micro_kernel!(multiply_i8, 2048, 128, 256, one_plane!("tdpbssd"));
// The first factor of the instruction is B.
micro_kernel!(multiply_i8_u8, 2048, 128, 256, one_plane!("tdpbusd"));
micro_kernel!(multiply_u8_i8, 2048, 128, 256, one_plane!("tdpbsud"));
micro_kernel!(multiply_u8, 2048, 128, 256, one_plane!("tdpbuud"));

// All four products of two pieces, the smallest first.
micro_kernel!(
    multiply_two_pieces_b_first,
    4096,
    512,
    512,
    load_b!(1),
    load_a!(1),
    multiply!("tdpbf16ps"),
    ask_operands!(0),
    load_a!(0),
    multiply!("tdpbf16ps"),
    ask_operands!(128),
    ask_sums!(0),
    load_b!(0),
    load_a!(1),
    multiply!("tdpbf16ps"),
    ask_operands!(256),
    ask_sums!(128),
    load_a!(0),
    multiply!("tdpbf16ps"),
    ask_operands!(384),
);

// All products of two pieces but that of both rests.
micro_kernel!(
    multiply_two_pieces_but_rests_b_first,
    4096,
    512,
    512,
    load_b!(1),
    load_a!(0),
    multiply!("tdpbf16ps"),
    ask_operands!(0),
    ask_operands!(128),
    load_b!(0),
    multiply!("tdpbf16ps"),
    ask_operands!(256),
    ask_sums!(0),
    load_a!(1),
    multiply!("tdpbf16ps"),
    ask_operands!(384),
    ask_sums!(128),
);
micro_kernel!(
    multiply_two_pieces_but_rests_a_first,
    4096,
    512,
    512,
    load_b!(0),
    load_a!(1),
    multiply!("tdpbf16ps"),
    ask_operands!(0),
    ask_operands!(128),
    load_a!(0),
    multiply!("tdpbf16ps"),
    ask_operands!(256),
    ask_sums!(0),
    load_b!(1),
    multiply!("tdpbf16ps"),
    ask_operands!(384),
    ask_sums!(128),
);

// Of three pieces the products that count but the largest: one operand changes at a time.
micro_kernel!(
    multiply_three_pieces_small_b_first,
    6144,
    768,
    768,
    load_b!(2),
    load_a!(0),
    multiply!("tdpbf16ps"),
    ask_operands!(0),
    load_b!(1),
    multiply!("tdpbf16ps"),
    ask_operands!(128),
    ask_sums!(0),
    load_a!(1),
    multiply!("tdpbf16ps"),
    ask_operands!(256),
    load_b!(0),
    multiply!("tdpbf16ps"),
    ask_operands!(384),
    ask_sums!(128),
    load_a!(2),
    multiply!("tdpbf16ps"),
    ask_operands!(512),
    ask_operands!(640),
);

// The same with A and B in each other's place: whichever of the two multiplies the transposed product, both add
// in the same order. It is the former, being a little faster, since most matrices are row-major.
micro_kernel!(
    multiply_two_pieces_a_first,
    4096,
    512,
    512,
    load_b!(1),
    load_a!(1),
    multiply!("tdpbf16ps"),
    ask_operands!(0),
    load_b!(0),
    multiply!("tdpbf16ps"),
    ask_operands!(128),
    ask_sums!(0),
    load_b!(1),
    load_a!(0),
    multiply!("tdpbf16ps"),
    ask_operands!(256),
    ask_sums!(128),
    load_b!(0),
    multiply!("tdpbf16ps"),
    ask_operands!(384),
);
micro_kernel!(
    multiply_three_pieces_small_a_first,
    6144,
    768,
    768,
    load_b!(0),
    load_a!(2),
    multiply!("tdpbf16ps"),
    ask_operands!(0),
    load_a!(1),
    multiply!("tdpbf16ps"),
    ask_operands!(128),
    ask_sums!(0),
    load_b!(1),
    multiply!("tdpbf16ps"),
    ask_operands!(256),
    load_a!(0),
    multiply!("tdpbf16ps"),
    ask_operands!(384),
    ask_sums!(128),
    load_b!(2),
    multiply!("tdpbf16ps"),
    ask_operands!(512),
    ask_operands!(640),
);

// The largest.
micro_kernel!(
    multiply_three_pieces_large,
    6144,
    0,
    0,
    "tileloadd tmm6, [{a}+{s}*1]",
    "tileloadd tmm4, [{b}+{s}*1]",
    "tdpbf16ps tmm0, tmm4, tmm6",
    "tileloadd tmm7, [{a}+{s}*1+1024]",
    "tdpbf16ps tmm1, tmm4, tmm7",
    "tileloadd tmm5, [{b}+{s}*1+1024]",
    "tdpbf16ps tmm2, tmm5, tmm6",
    "tdpbf16ps tmm3, tmm5, tmm7",
);

/// The same computed by the model of the instructions: `PLANES` of a step, products of planes of A and B by
/// the list.
///
/// # Safety
/// As the micro-kernels, but that no tiles are needed.
unsafe fn modelled<Piece: Copy, Sum: Copy + Default, const GROUP: usize, const STEP: usize>(
    tile: &MicroTile,
    planes: usize,
    products: &[(usize, usize)],
    dot: impl Fn(Sum, &[Piece; STEP], &[Piece; STEP]) -> Sum,
) {
    let &MicroTile { steps, a, b, sums, to, ld, .. } = tile;
    for col in 0..LINES {
        for row in 0..LINES {
            let mut sum = Sum::default();
            if !sums.is_null() {
                let at = sums.wrapping_add(col * SUMS_COLUMN + row * 4).cast::<Sum>();
                // SAFETY: the caller's promise: an earlier micro-kernel has written it there.
                sum = unsafe { at.read() };
            }
            for step in 0..steps {
                let at = step * planes * PLANE;
                for &(plane_a, plane_b) in products {
                    let a = a.wrapping_add(at + plane_a * PLANE + row / 16 * TILE + row % 16 * 4);
                    let b = b.wrapping_add(at + plane_b * PLANE + col / 16 * TILE + col % 16 * 64);
                    let line_a = std::array::from_fn(|p| {
                        let group = a.wrapping_add(p / GROUP * 64).cast::<Piece>();
                        // SAFETY: the caller's promise: packing has written this step of the panel.
                        unsafe { group.wrapping_add(p % GROUP).read() }
                    });
                    // SAFETY: as above; a row of a tile of B is a line.
                    let line_b = unsafe { b.cast::<[Piece; STEP]>().read() };
                    sum = dot(sum, &line_a, &line_b);
                }
            }
            let to = to.wrapping_add(col * ld + row * 4).cast::<Sum>();
            // SAFETY: the caller's promise: 32 columns of 128 bytes are this thread's to write.
            unsafe { to.write_unaligned(sum) };
        }
    }
}

macro_rules! model {
    ($name:ident, $piece:ty, $sum:ty, $dot:ident, $group:literal, $step:literal, $planes:literal, $products:expr) => {
        /// # Safety
        /// As `modelled`.
        pub(super) unsafe fn $name(tile: &MicroTile) {
            // SAFETY: the caller's promises.
            unsafe { modelled::<$piece, $sum, $group, $step>(tile, $planes, &$products, $dot) }
        }
    };
}

model!(model_bf16, bf16, f32, dot_bf16, 2, 32, 1, [(0, 0)]);
model!(model_i8, i8, i32, dot_i8, 4, 64, 1, [(0, 0)]);
model!(model_i8_u8, i8, i32, dot_i8_u8, 4, 64, 1, [(0, 0)]);
model!(model_u8_i8, i8, i32, dot_u8_i8, 4, 64, 1, [(0, 0)]);
model!(model_u8, i8, i32, dot_u8, 4, 64, 1, [(0, 0)]);
model!(model_two_pieces_b_first, bf16, f32, dot_bf16, 2, 32, 2, [(1, 1), (0, 1), (1, 0), (0, 0)]);
model!(model_two_pieces_a_first, bf16, f32, dot_bf16, 2, 32, 2, [(1, 1), (1, 0), (0, 1), (0, 0)]);
model!(model_two_pieces_but_rests_b_first, bf16, f32, dot_bf16, 2, 32, 2, [(0, 1), (0, 0), (1, 0)]);
model!(model_two_pieces_but_rests_a_first, bf16, f32, dot_bf16, 2, 32, 2, [(1, 0), (0, 0), (0, 1)]);
model!(
    model_three_pieces_small_b_first,
    bf16,
    f32,
    dot_bf16,
    2,
    32,
    3,
    [(0, 2), (0, 1), (1, 1), (1, 0), (2, 0)]
);
model!(
    model_three_pieces_small_a_first,
    bf16,
    f32,
    dot_bf16,
    2,
    32,
    3,
    [(2, 0), (1, 0), (1, 1), (0, 1), (0, 2)]
);
model!(model_three_pieces_large, bf16, f32, dot_bf16, 2, 32, 3, [(0, 0)]);
