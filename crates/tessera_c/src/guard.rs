//! The boundary to the caller.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::status::{Fault, TESSERA_INTERNAL_ERROR, TESSERA_SUCCESS, tessera_status};

thread_local! {
    /// Why the last function that failed on this thread did.
    static LAST: RefCell<CString> = RefCell::default();
    /// The driver's code, where it was the driver that refused.
    static LAST_CODE: Cell<i32> = const { Cell::new(0) };
}

/// Why the last function that failed on the calling thread did, in a line; empty where none has. Valid
/// until the next one fails on this thread. Never null.
#[unsafe(no_mangle)]
pub extern "C" fn tessera_last_error() -> *const c_char {
    // While a thread ends its message may be gone.
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The driver's code, a CUresult, where the last function that failed on the calling thread did because the
/// driver refused a call; else 0.
#[unsafe(no_mangle)]
pub extern "C" fn tessera_last_driver_code() -> i32 {
    LAST_CODE.try_with(Cell::get).unwrap_or(0)
}

/// Runs what a function does: a fault becomes its status and the thread's message, and so does a panic.
pub(crate) fn guard(work: impl FnOnce() -> Result<(), Fault>) -> tessera_status {
    let fault = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return TESSERA_SUCCESS,
        Ok(Err(fault)) => fault,
        Err(panic) => {
            Fault { status: TESSERA_INTERNAL_ERROR, message: words(panic.as_ref()), code: None }
        }
    };
    let _ = LAST.try_with(|last| last.replace(text_of(&fault.message)));
    let _ = LAST_CODE.try_with(|code| code.set(fault.code.unwrap_or(0)));
    fault.status
}

/// A text as C has it.
pub(crate) fn text_of(text: &str) -> CString {
    let bytes: Vec<u8> = text.bytes().filter(|&byte| byte != 0).collect();
    CString::new(bytes).unwrap_or_default()
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
/// It is null, not aligned, or that of a `T` which nobody writes meanwhile.
pub(crate) unsafe fn given<'a, T>(at: *const T, name: &str) -> Result<&'a T, Fault> {
    check(at, name)?;
    // SAFETY: the caller's promise; it is neither null nor misaligned.
    Ok(unsafe { &*at })
}

/// The elements of an array; where there are none its address may be anything.
///
/// # Safety
/// It is null, not aligned, or that of as many `T` which nobody writes meanwhile.
pub(crate) unsafe fn given_array<'a, T>(
    at: *const T,
    count: usize,
    name: &str,
) -> Result<&'a [T], Fault> {
    if count == 0 {
        return Ok(&[]);
    }
    check(at, name)?;
    let bytes = count.checked_mul(size_of::<T>()).and_then(|bytes| isize::try_from(bytes).ok());
    if bytes.is_none() {
        return Err(Fault::argument(format!("{name} has {count} elements, which no array has")));
    }
    // SAFETY: the caller's promise; it is neither null nor misaligned, and an address space holds it.
    Ok(unsafe { std::slice::from_raw_parts(at, count) })
}

/// A number of bytes that is asked of what was handed out; 0 where that is null.
///
/// # Safety
/// As of [`given`].
pub(crate) unsafe fn bytes_of<T>(
    handle: *const T,
    name: &str,
    of: impl FnOnce(&T) -> u64,
) -> usize {
    let mut bytes = 0;
    guard(|| {
        // SAFETY: the caller's promise.
        let number = of(unsafe { given(handle, name) }?);
        bytes = usize::try_from(number).unwrap_or(usize::MAX);
        Ok(())
    });
    bytes
}

/// Puts a value on the heap, and its address where the caller wants it.
///
/// # Safety
/// `to` is null, not aligned, or points to room for an address.
pub(crate) unsafe fn hand_out<T>(
    to: *mut *mut T,
    name: &str,
    make: impl FnOnce() -> Result<T, Fault>,
) -> Result<(), Fault> {
    check(to.cast_const(), name)?;
    let made = Box::into_raw(Box::new(make()?));
    // SAFETY: the caller's promise; it is neither null nor misaligned.
    unsafe { to.write(made) };
    Ok(())
}

/// Ends what was handed out; does nothing where it is null.
///
/// # Safety
/// It is null or of [`hand_out`], nobody uses it any more, and it is taken back once.
pub(crate) unsafe fn take_back<T>(at: *mut T) {
    if at.is_null() {
        return;
    }
    guard(|| {
        // SAFETY: the caller's promise: it was made by a box, and nobody has it.
        drop(unsafe { Box::from_raw(at) });
        Ok(())
    });
}

/// Fails where an address is none that a `T` can have.
fn check<T>(at: *const T, name: &str) -> Result<(), Fault> {
    if at.is_null() {
        return Err(Fault::argument(format!("{name} is null")));
    }
    if !at.is_aligned() {
        let (at, of) = (at.addr(), align_of::<T>());
        return Err(Fault::argument(format!("{name} is at {at:#x}, no multiple of {of}")));
    }
    Ok(())
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
    fn addresses_that_point_to_nothing_are_faults() {
        let numbers = [1u32, 2, 3];
        let at = numbers.as_ptr();
        let odd = at.wrapping_byte_add(1);
        // SAFETY: three numbers, and addresses that are refused.
        let found = unsafe { given_array(at, 3, "it") }.map_err(|fault| fault.message);
        assert_eq!(found, Ok(&numbers[..]));
        // SAFETY: nothing is read.
        let none = unsafe { given_array(odd, 0, "it") }.map_err(|fault| fault.message);
        assert_eq!(none, Ok(&[][..]));
        // SAFETY: it is refused.
        let refused = unsafe { given_array(odd, 3, "it") }.expect_err("it is not aligned");
        assert!(refused.message.ends_with("no multiple of 4"), "{}", refused.message);
        // SAFETY: it is refused.
        let refused = unsafe { given(odd, "it") }.expect_err("it is not aligned");
        assert!(refused.message.starts_with("it is at 0x"), "{}", refused.message);
        // SAFETY: it is refused.
        assert!(unsafe { given_array(at, usize::MAX, "it") }.is_err());
        // SAFETY: it is refused.
        let refused = unsafe { hand_out(std::ptr::null_mut(), "it", || Ok(1)) };
        assert_eq!(refused.map_err(|fault| fault.message), Err("it is null".to_owned()));
        // SAFETY: null.
        unsafe { take_back::<u32>(std::ptr::null_mut()) };
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
