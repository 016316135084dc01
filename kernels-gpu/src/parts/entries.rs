//! One entry point for each element type, from one generic body.

/// Defines the entries of a kernel and lists them.
///
/// `gemm_entries! { ENTRIES = body::<..>: f32 => symbol_f32, … }` makes for each type a `#[kernel]`
/// of that name which calls `body` with the arguments as a [`Gemm`](super::gemm::Gemm), and
/// `const ENTRIES: &[Entry]`. For the host it also makes `EMULATED`, the same functions as values.
macro_rules! gemm_entries {
    ($entries:ident, $emulated:ident = $body:expr; $($element:ident => $symbol:ident),+ $(,)?) => {
        $(
            /// # Safety
            /// 1. `a`, `b` and `c` are valid for m by k, k by n and m by n row-major elements at
            ///    their leading dimensions; `c` overlaps neither input and nobody else writes it.
            /// 2. The launch has the block, grid and shared memory that the kernel's spec gives for
            ///    this m and n, with m, n >= 1.
            #[cuda_std::kernel]
            #[expect(clippy::too_many_arguments, reason = "the parameters of a GEMM entry")]
            #[expect(unreachable_pub, reason = "an entry is reached through its symbol")]
            pub unsafe fn $symbol(
                m: u32,
                n: u32,
                k: u32,
                alpha: $element,
                a: *const $element,
                lda: u64,
                b: *const $element,
                ldb: u64,
                beta: $element,
                c: *mut $element,
                ldc: u64,
            ) {
                // SAFETY: obligation 1.
                let a = unsafe { cuda_std::memory::global(a) };
                // SAFETY: obligation 1.
                let b = unsafe { cuda_std::memory::global(b) };
                // SAFETY: obligation 1.
                let c = unsafe { cuda_std::memory::global_mut(c) };
                let gemm = $crate::parts::gemm::Gemm {
                    m, n, k, alpha, a, lda, b, ldb, beta, c, ldc,
                };
                // SAFETY: the caller keeps obligations 1 and 2, which are the body's.
                unsafe { $body(gemm) }
            }
        )+

        const $entries: &[gemm_spec::Entry] = &[
            $(gemm_spec::Entry {
                types: <$element as gemm_spec::GemmTypes>::TYPES,
                symbol: stringify!($symbol),
            }),+
        ];

        #[cfg(not(target_arch = "nvptx64"))]
        pub(crate) const $emulated: &[(&str, $crate::EmulatedEntry)] =
            &[$((stringify!($symbol), $crate::module::emulated::$element($symbol))),+];
    };
}

pub(crate) use gemm_entries;
