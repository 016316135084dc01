//! Which rows and steps of which matrix the descriptors of a product take.

use super::sm90::launch;
use super::*;
use crate::arch::sm90::wgmma::{Accumulators, Descriptor};
use crate::arch::sm90::{mbarrier, tensor, wgmma};
use crate::memory::SharedAddress;
use crate::tensor_map;

/// Columns of B.
const N: u32 = 128;
/// Steps of a box: a line of the swizzle.
const STEPS: u32 = 64;
/// Bytes of the boxes of A and of both.
const OF_A: u32 = 64 * 2 * STEPS;
const BOXES: u32 = OF_A + N * 2 * STEPS;

/// The fields of the descriptors of the tiles, and how far they are from the beginning of their boxes.
#[derive(Clone, Copy)]
struct Tiles {
    /// Bytes.
    from: [u32; 2],
    /// Bytes from eight lines to the next.
    stride: [u64; 2],
    /// The swizzle: 1 is that of the boxes.
    swizzle: u64,
    /// The first step that is copied of A, and of B.
    steps: [u32; 2],
}

const RIGHT: Tiles = Tiles { from: [0; 2], stride: [1024; 2], swizzle: 1, steps: [STEPS; 2] };

/// A warpgroup multiplies 64 rows and 128 columns of ones, which TMA has copied.
fn product(tiles: Tiles) -> Result<(), EmulationError> {
    let matrix = |lines: u32| vec![[0x3c00u16; 8]; (lines * 4 * STEPS / 8) as usize];
    let (a, b) = (matrix(64), matrix(N));
    let map = |matrix: &[[u16; 8]], lines: u32| TensorMap {
        address: matrix.as_ptr().expose_provenance(),
        element_bytes: 2,
        dims: [4 * u64::from(STEPS), lines.into()],
        pitch: 8 * u64::from(STEPS),
        matrices: None,
        box_dims: [STEPS, lines],
        swizzle: Swizzle::B128,
    };
    let launch = launch().with_buffer(Buffer::input("A", &a)).with_buffer(Buffer::input("B", &b));
    let maps = vec![map(&a, 64), map(&b, N)];
    let shared_bytes = (BOXES + 8) as usize;
    let launch = Launch { block: (128, 1, 1), maps, shared_bytes, ..launch.asynchronous() };
    let right = AtomicU32::new(0);
    run(&launch, || {
        // SAFETY: the launch provides the boxes and a barrier; what is wrong with a tile, the emulator stops.
        unsafe {
            let boxes = crate::shared::launch_sized::<[u8; (BOXES + 8) as usize]>().cast::<u8>();
            let boxes = SharedAddress::new(boxes);
            let barrier = boxes.wrapping_add(BOXES as usize).cast();
            if thread::thread_idx_x() == 0 {
                mbarrier::init(barrier, 1);
                mbarrier::fence_init();
                mbarrier::arrive_and_expect_tx(barrier, BOXES);
                tensor::load(boxes, tensor_map!("entry", 0), tiles.steps[0], 0, barrier);
                let to = boxes.wrapping_add(OF_A as usize);
                tensor::load(to, tensor_map!("entry", 1), tiles.steps[1], 0, barrier);
            }
            thread::sync_threads();
            mbarrier::wait(barrier, 0);
            let tile = |at: u32, stride: u64| {
                let start = u64::from((boxes.get() + at) >> 4);
                Descriptor::from_bits(start | 1 << 16 | stride >> 4 << 32 | tiles.swizzle << 62)
            };
            let mut acc: Accumulators<8> = [[0.0; 8]; 8];
            wgmma::arrive_m64n128k16_f32_f16_f16::<true, false, false>(
                &mut acc,
                tile(tiles.from[0], tiles.stride[0]),
                tile(OF_A + tiles.from[1], tiles.stride[1]),
            );
            wgmma::commit_group();
            wgmma::wait_group_n128::<0>(&mut acc);
            if acc.iter().flatten().all(|&sum| sum == 16.0) {
                right.fetch_add(1, Ordering::Relaxed);
            }
        }
    })?;
    assert_eq!(right.into_inner(), 128);
    Ok(())
}

#[test]
fn a_tile_is_rows_and_steps_of_one_matrix() {
    assert_eq!(product(RIGHT), Ok(()));
    assert_eq!(product(Tiles { from: [96; 2], ..RIGHT }), Ok(()));
    // All elements are the same: the sums would be right in each of these.
    for (tiles, operand, found, expected) in [
        // Every other eight rows.
        (Tiles { stride: [2048, 1024], ..RIGHT }, "A", [0, 16], Some([0, 8])),
        // The same eight rows again.
        (Tiles { stride: [1024, 0], ..RIGHT }, "B", [0, 0], Some([0, 8])),
        // Rows of 16 bytes: the second row is the next piece of the first one.
        (Tiles { swizzle: 0, ..RIGHT }, "A", [8, 0], Some([0, 1])),
        // Eight rows too far, so that the last ones are of B.
        (Tiles { from: [1024, 0], ..RIGHT }, "A", [0, 0], None),
    ] {
        let error = product(tiles).unwrap_err();
        let from_box = |[element, line]: [i64; 2]| [element + i64::from(STEPS), line];
        let EmulationError::TileShape { operand: of, found: at, expected: not, .. } = error else {
            panic!("{error}")
        };
        assert_eq!((of, at, not), (operand, from_box(found), expected.map(from_box)), "{error}");
    }
}

#[test]
fn both_operands_begin_at_one_step() {
    for tiles in [Tiles { from: [32, 0], ..RIGHT }, Tiles { steps: [STEPS + 16, STEPS], ..RIGHT }] {
        let error = product(tiles).unwrap_err();
        let EmulationError::TileK { a, b, .. } = error else { panic!("{error}") };
        assert_eq!((a, b), (80, 64), "{error}");
    }
    assert_eq!(product(Tiles { from: [0, 32], steps: [STEPS + 16, STEPS], ..RIGHT }), Ok(()));
}

/// On an H100 that is an illegal instruction.
#[test]
fn a_swizzled_box_begins_with_16_bytes_of_a_line() {
    for step in [1, 4, 7, 9] {
        let error = product(Tiles { steps: [step; 2], ..RIGHT }).unwrap_err();
        let EmulationError::Operand { reason, .. } = error else { panic!("{error}") };
        assert!(reason.contains(&format!("begins {} bytes into the lines", 2 * step)), "{reason}");
    }
    assert_eq!(product(Tiles { steps: [8; 2], ..RIGHT }), Ok(()));
}
