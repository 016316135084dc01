//! Neighbours that are moved by one instruction where they are 16 bytes.

/// Four elements at an address that is a multiple of 16.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub(crate) struct Quad<T>(pub(crate) [T; 4]);

/// Two elements at an address that is a multiple of 16.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub(crate) struct Pair<T>(pub(crate) [T; 2]);

/// Two numbers of f32 at an address that is a multiple of 8.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(crate) struct F32Pair(pub(crate) [f32; 2]);
