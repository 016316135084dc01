//! Structs that begin with their size, so that a program and a library of different age understand each
//! other: what a program does not know is zero, which stands for the usual, and what the library does not
//! know must be.

use crate::guard::given;
use crate::status::Fault;

/// A struct whose first field is its size in bytes.
///
/// # Safety
/// It is `repr(C)`, begins with a `usize`, and any bytes are a value, zeros among them.
pub(crate) unsafe trait Sized: Copy {
    const NAME: &'static str;
    /// The size of its first version, which no program's is below.
    const LEAST: usize;
}

/// A program's struct, with zeros for what it does not know.
///
/// # Safety
/// `at` is null, or that of as many bytes as its first field says, which nobody writes meanwhile.
pub(crate) unsafe fn read<T: Sized>(at: *const T, name: &str) -> Result<T, Fault> {
    // Structs grow and do not shrink.
    const { assert!(size_of::<T>() >= T::LEAST) };
    // SAFETY: the caller's promise: the struct begins with its size.
    let size = *unsafe { given(at.cast::<usize>(), name) }?;
    if size < T::LEAST || size > 1 << 16 {
        let of = T::NAME;
        return Err(Fault::argument(format!("{name}: size is {size}, it must be sizeof({of})")));
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(at.cast::<u8>(), size) };
    let known = size.min(size_of::<T>());
    if bytes[known..].iter().any(|&byte| byte != 0) {
        let message = format!("{name}: a field is set that is newer than this library");
        return Err(Fault::argument(message));
    }
    // SAFETY: zeros are a value.
    let mut value: T = unsafe { std::mem::zeroed() };
    // SAFETY: both hold as many bytes, and any bytes are a value.
    unsafe { (&raw mut value).cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), known) };
    Ok(value)
}

/// Structs that follow each other, as far apart as the first says that it is long.
///
/// # Safety
/// `first` is null, not aligned, or that of `count` structs of as many bytes as their first field says, which
/// nobody writes meanwhile.
pub(crate) unsafe fn read_each<T: Sized>(
    first: *const T,
    count: usize,
    of: &str,
) -> Result<Vec<T>, Fault> {
    let (mut all, mut at, mut length) = (Vec::new(), first, None);
    for index in 0..count {
        let name = format!("{of}[{index}]");
        // SAFETY: the caller's promise: those before were as long as this one's distance from the first.
        all.push(unsafe { read(at, &name) }?);
        // SAFETY: as above, and it begins with its size.
        let size = unsafe { at.cast::<usize>().read() };
        if *length.get_or_insert(size) != size {
            return Err(Fault::argument(format!("{name}: size is not that of {of}[0]")));
        }
        at = at.wrapping_byte_add(size);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Two {
        size: usize,
        old: usize,
        new: usize,
    }

    // SAFETY: three numbers, the first of which is the size.
    unsafe impl Sized for Two {
        const NAME: &'static str = "two";
        const LEAST: usize = 16;
    }

    #[test]
    fn older_and_newer_programs_are_understood() {
        let of = |numbers: &[usize]| {
            // SAFETY: as many bytes as the first says, or refused before.
            unsafe { read(numbers.as_ptr().cast::<Two>(), "it") }
        };
        let older = of(&[16, 5]).expect("it is as long as the first version");
        assert_eq!((older.old, older.new), (5, 0));
        let newer = of(&[32, 5, 6, 0]).expect("what is not known is zero");
        assert_eq!((newer.size, newer.old, newer.new), (32, 5, 6));
        let refused = |numbers: &[usize]| of(numbers).err().map(|fault| fault.message);
        assert!(refused(&[32, 5, 6, 1]).is_some_and(|it| it.contains("newer than this library")));
        let wrong = refused(&[8, 5]).expect("it is too short");
        assert_eq!(wrong, "it: size is 8, it must be sizeof(two)");
        assert!(refused(&[usize::MAX, 5]).is_some());
        // SAFETY: null.
        assert!(unsafe { read::<Two>(std::ptr::null(), "it") }.is_err());
    }
}
