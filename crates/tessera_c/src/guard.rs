//! The boundary to the caller.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::status::{Fault, TESSERA_INTERNAL_ERROR, TESSERA_SUCCESS, tessera_status};

thread_local! {
    /// Why the last function that failed on this thread did.
    static LAST: RefCell<CString> = RefCell::default();
}

/// Why the last function that failed on the calling thread did, in a line; empty where none has. Valid
/// until the next one fails on this thread. Never null.
#[unsafe(no_mangle)]
pub extern "C" fn tessera_last_error() -> *const c_char {
    // While a thread ends its message may be gone.
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Runs what a function does: a fault becomes its status and the thread's message, and so does a panic.
pub(crate) fn guard(work: impl FnOnce() -> Result<(), Fault>) -> tessera_status {
    let fault = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return TESSERA_SUCCESS,
        Ok(Err(fault)) => fault,
        Err(panic) => Fault { status: TESSERA_INTERNAL_ERROR, message: words(panic.as_ref()) },
    };
    let text: Vec<u8> = fault.message.bytes().filter(|&byte| byte != 0).collect();
    let _ = LAST.try_with(|last| last.replace(CString::new(text).unwrap_or_default()));
    fault.status
}

/// What a panic says.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("a fault of this library: {}", text.unwrap_or_default())
}

/// What a pointer points to.
///
/// # Safety
/// It is null, or that of a `T` which nobody writes meanwhile.
pub(crate) unsafe fn given<'a, T>(at: *const T, name: &str) -> Result<&'a T, Fault> {
    // SAFETY: the caller's promise.
    unsafe { at.as_ref() }.ok_or_else(|| Fault::argument(format!("{name} is null")))
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    fn last() -> String {
        // SAFETY: the thread's message, which stays while nothing fails.
        unsafe { CStr::from_ptr(tessera_last_error()) }.to_string_lossy().into_owned()
    }

    #[test]
    fn a_panic_becomes_a_status_and_a_message() {
        let status = guard(|| panic!("planted: {}", 1 + 1));
        assert_eq!(
            (status, last().as_str()),
            (TESSERA_INTERNAL_ERROR, "a fault of this library: planted: 2")
        );
        assert_eq!(guard(|| Ok(())), TESSERA_SUCCESS);
        assert!(last().ends_with("planted: 2"), "success leaves the message");
        let other = std::thread::spawn(last).join().expect("it ends");
        assert_eq!(other, "", "each thread has its own");
        assert_eq!(guard(|| Err(Fault::argument("a\0b"))), crate::status::TESSERA_INVALID_ARGUMENT);
        assert_eq!(last(), "ab");
    }
}
