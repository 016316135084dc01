//! The symbols that the linker finds: one naked function each, which jumps through the table.
//!
//! A trampoline has no frame and touches no argument: registers and stack are the caller's when the
//! driver's function begins, and that function returns straight to the caller. So one shape serves
//! every signature, floats and arguments on the stack included.

use std::arch::naked_asm;
use std::mem::size_of;

use crate::symbols::Symbol;
use crate::table::TABLE;

macro_rules! define_trampolines {
    ($($name:ident)*) => {$(
        // The symbol is unmangled because it must be the one `cust` refers to. It cannot clash: the
        // driver is opened with local binding and nothing in the program links it.
        #[allow(non_snake_case, reason = "the name is the driver's")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn $name() {
            // No register changes. A plain load has acquire order on this processor.
            #[cfg(target_arch = "x86_64")]
            naked_asm!(
                "jmp qword ptr [rip + {table} + {offset}]",
                table = sym TABLE,
                offset = const Symbol::$name as usize * size_of::<usize>(),
            );
            // x16 is the register that the ABI sets aside for code between caller and callee.
            #[cfg(target_arch = "aarch64")]
            naked_asm!(
                "adrp x16, {table} + {offset}",
                "add x16, x16, :lo12:{table} + {offset}",
                "ldar x16, [x16]",
                "br x16",
                table = sym TABLE,
                offset = const Symbol::$name as usize * size_of::<usize>(),
            );
        }
    )*};
}
for_each_symbol!(define_trampolines);
