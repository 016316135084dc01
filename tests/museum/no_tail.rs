//! Seen in "Matrix Multiplication: the Hello World of parallel programming", the book section, the C++ AMP sample and the lecture notes.
//!
//! The loop over tiles runs k / W times, so that the k elements behind the last whole tile are lost.

use cuda_std::memory::{Shared, global, global_mut};
use cuda_std::{kernel, shared, thread};
use lab::verify::Pattern;

use super::{Caught, Piece, Tiles};

/// Width of a tile.
const W: usize = 8;

/// # Safety
/// None can be given: the kernel is wrong. It runs on the emulator alone.
#[kernel]
pub(crate) unsafe fn no_tail(
    m: usize,
    n: usize,
    k: usize,
    a: *const f32,
    b: *const f32,
    c: *mut f32,
) {
    // SAFETY: the emulator knows the three buffers.
    let (a, b, c) = unsafe { (global(a), global(b), global_mut(c)) };
    let (tx, ty) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let row = thread::block_idx_y() as usize * W + ty;
    let col = thread::block_idx_x() as usize * W + tx;
    // SAFETY: the launch provides the bytes.
    let tiles: Shared<f32> = unsafe { shared::launch_sized::<Tiles<W>>() }.cast();
    let (a_tile, b_tile) = (tiles, tiles.wrapping_add(W * W));
    let slot = ty * W + tx;
    let mut acc = 0.0f32;
    for tile in 0..k / W {
        let step = tile * W;
        // SAFETY: guarded reads, and a slot of this thread's own.
        unsafe {
            let inside = row < m && step + tx < k;
            let value = if inside { a.wrapping_add(row * k + step + tx).read() } else { 0.0 };
            a_tile.wrapping_add(slot).write(value);
            let inside = step + ty < k && col < n;
            let value = if inside { b.wrapping_add((step + ty) * n + col).read() } else { 0.0 };
            b_tile.wrapping_add(slot).write(value);
        }
        // SAFETY: all threads of the block are here.
        unsafe { thread::sync_threads() };
        for j in 0..W {
            // SAFETY: inside the tiles.
            let (x, y) = unsafe {
                (a_tile.wrapping_add(ty * W + j).read(), b_tile.wrapping_add(j * W + tx).read())
            };
            acc = x.mul_add(y, acc);
        }
        // SAFETY: all threads of the block are here.
        unsafe { thread::sync_threads() };
    }
    if row < m && col < n {
        // SAFETY: inside C.
        unsafe { c.wrapping_add(row * n + col).write(acc) };
    }
}

/// What is known of it.
pub(crate) const PIECE: Piece = Piece {
    name: "no_tail",
    width: W,
    sizes: (20, 28, 30),
    kernel: no_tail,
    source: include_str!("no_tail.rs"),
    cut_grid: false,
    caught: Caught::Checker,
    pattern: || Pattern::TailMissing { steps: 6, widths: vec![W] },
};
