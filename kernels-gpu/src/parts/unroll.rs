//! Loops that are written out, so that their index is a constant.
//!
//! The elements of an array live in registers only where every index is known when the kernel is
//! compiled. LLVM unrolls short loops by itself, but not those with long bodies; `unroll!` does not
//! leave it to chance.

/// `unroll!(for I in 0..8 { … })`: the body two, four, eight or sixteen times, with `I` a constant
/// each time. For the emulator it is a loop, which the host compiles in a fraction of the time.
#[cfg(target_arch = "nvptx64")]
macro_rules! unroll {
    (for $i:ident in 0..2 $body:block) => {
        unroll!(@ $i $body 0 1)
    };
    (for $i:ident in 0..4 $body:block) => {
        unroll!(@ $i $body 0 1 2 3)
    };
    (for $i:ident in 0..8 $body:block) => {
        unroll!(@ $i $body 0 1 2 3 4 5 6 7)
    };
    (for $i:ident in 0..16 $body:block) => {
        unroll!(@ $i $body 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $i:ident $body:block $($value:literal)+) => {
        $({
            const $i: usize = $value;
            $body
        })+
    };
}

#[cfg(not(target_arch = "nvptx64"))]
macro_rules! unroll {
    (for $i:ident in 0..$times:literal $body:block) => {
        #[allow(non_snake_case, reason = "a constant on the device")]
        for $i in 0..$times {
            let $i: usize = $i;
            $body
        }
    };
}

pub(crate) use unroll;
