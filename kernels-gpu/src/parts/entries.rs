//! Entry points, which take the fields of one of the structs of [`gemm_spec::params`].

/// Defines an entry: `pub unsafe fn name(params: PadParams) { .. }`, where `params` is the struct.
///
/// The entry itself takes the fields, one by one: the compiler knows of a pointer that is a parameter
/// by itself, but not of one in a struct, that it is to global memory. It begins with [`follow`].
macro_rules! entry {
    (
        $(#[$meta:meta])*
        pub unsafe fn $symbol:ident($params:ident: $struct:ident $(<$element:ty>)?) $body:block
    ) => {
        gemm_spec::$struct! {
            [$crate::parts::entries::define_entry]
            ($($element)?) [$(#[$meta])*] $symbol $params $body
        }
    };
}
pub(crate) use entry;

/// Lets the launch after this one start, and waits for those before it. All entries for compute capability
/// 9.0 begin with it, so that the host may have any of them overlap with the one before
/// ([`gemm_spec::Arch::overlaps`]).
#[inline(always)]
pub(crate) fn follow() {
    #[cfg(cuda_arch = "sm_90a")]
    {
        cuda_std::arch::sm90::grid::launch_dependents();
        cuda_std::arch::sm90::grid::wait();
    }
}

/// What [`entry`] defines, given the list of the parameters.
macro_rules! define_entry {
    // The helpers' scalars are f32.
    ($struct:ident $list:tt () $($rest:tt)+) => {
        $crate::parts::entries::define_entry! { @ [$struct] $list f32, $($rest)+ }
    };
    ($struct:ident $list:tt ($element:ty) $($rest:tt)+) => {
        $crate::parts::entries::define_entry! { @ [$struct::<$element>] $list $element, $($rest)+ }
    };
    (
        @ [$($struct:tt)+] [$($field:ident: $kind:tt),+] $element:ty,
        [$(#[$meta:meta])*] $symbol:ident $params:ident $body:block
    ) => {
        $(#[$meta])*
        #[cuda_std::kernel]
        #[allow(clippy::too_many_arguments, reason = "the parameters of an entry")]
        #[expect(unreachable_pub, reason = "an entry is reached through its symbol")]
        pub unsafe fn $symbol($($field: gemm_spec::param_type!($kind, $element)),+) {
            $crate::parts::entries::follow();
            let $params = gemm_spec::params::$($struct)+ { $($field),+ };
            $body
        }
    };
}
pub(crate) use define_entry;

/// The call of an entry with the fields of a struct, given the list of the parameters.
#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
macro_rules! call_entry {
    ($struct:ident [$($field:ident: $kind:tt),+] $symbol:ident $params:ident) => {
        $symbol($($params.$field),+)
    };
}
#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
pub(crate) use call_entry;

/// Defines the entries of a GEMM kernel that finds its operands by their addresses, one for each element
/// type from one generic body, and lists them.
///
/// `gemm_entries! { ENTRIES, EMULATED = body::<..>: f32 => symbol_f32, … }` makes for each type an entry
/// of that name which calls `body` with the arguments as a [`Gemm`](super::gemm::Gemm), and
/// `const ENTRIES: &[Entry]`. For the emulator it also makes `EMULATED`, the same functions as values.
macro_rules! gemm_entries {
    ($entries:ident, $emulated:ident = $body:expr; $($element:ident => $symbol:ident),+ $(,)?) => {
        $(
            $crate::parts::entries::entry! {
                /// # Safety
                /// 1. `a`, `b` and `c` are valid for m by k, k by n and m by n row-major elements at
                ///    their leading dimensions; `c` overlaps neither input and nobody else writes it.
                /// 2. The launch has the block, grid and shared memory that the kernel's spec gives for
                ///    this m and n, with m, n >= 1.
                pub unsafe fn $symbol(params: GemmParams<$element>) {
                    // SAFETY: obligation 1.
                    let gemm = unsafe { $crate::parts::gemm::Gemm::new(params) };
                    // SAFETY: the caller keeps obligations 1 and 2, which are the body's.
                    unsafe { $body(gemm) }
                }
            }
        )+

        const $entries: &[gemm_spec::Entry] = &[
            $(gemm_spec::Entry {
                types: <$element as gemm_spec::GemmTypes>::TYPES,
                symbol: stringify!($symbol),
            }),+
        ];

        #[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
        pub(crate) const $emulated: &[(&str, $crate::EmulatedEntry)] = &[$((
            stringify!($symbol),
            // SAFETY: the caller of the function keeps the entry's obligations.
            $crate::emulated::$element(|params| unsafe {
                gemm_spec::GemmParams! { [$crate::parts::entries::call_entry] $symbol params }
            }),
        )),+];
    };
}
pub(crate) use gemm_entries;

/// Lists entries as functions for the emulator, each with its name: `emulated!(Pad(PadParams): tensor_pad)`.
#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
macro_rules! emulated {
    ($($kind:ident($struct:ident): $($symbol:ident),+);+ $(;)?) => {
        &[$($((
            stringify!($symbol),
            // SAFETY: the caller of the function keeps the entry's obligations.
            $crate::EmulatedEntry::$kind(|params| unsafe {
                gemm_spec::$struct! { [$crate::parts::entries::call_entry] $symbol params }
            }),
        )),+),+]
    };
}
#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
pub(crate) use emulated;
