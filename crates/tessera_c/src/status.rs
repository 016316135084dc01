//! What functions return.

#![expect(non_camel_case_types, reason = "the names of C")]

use std::ffi::{CStr, c_char};

use tessera::Error;
use tessera_raw::Failure;

/// What a function returns: TESSERA_SUCCESS, or why it did nothing.
pub type tessera_status = i32;

/// It is done.
pub const TESSERA_SUCCESS: tessera_status = 0;
/// An argument is null, not aligned, no number of its kind, or a struct of another size than it says; or an
/// operand or a workspace on a device is not what the plan counts on.
pub const TESSERA_INVALID_ARGUMENT: tessera_status = 1;
/// The sizes of the matrices do not fit together, or an address space does not hold them; or leading
/// dimensions, strides or factors of a description do not.
pub const TESSERA_INVALID_SIZE: tessera_status = 2;
/// Nothing multiplies these types, or not on that device, with that accuracy or in that workspace.
pub const TESSERA_UNSUPPORTED: tessera_status = 3;
/// There is no such GPU, no driver, or no context that is current.
pub const TESSERA_NO_DEVICE: tessera_status = 4;
/// Memory is short.
pub const TESSERA_OUT_OF_MEMORY: tessera_status = 5;
/// The GPU's driver refused a call or a kernel failed; some of C may have been written.
pub const TESSERA_DEVICE_FAILED: tessera_status = 6;
/// The system starts no threads.
pub const TESSERA_NO_THREADS: tessera_status = 7;
/// A fault of the library itself.
pub const TESSERA_INTERNAL_ERROR: tessera_status = 8;

/// The name of a status; never null.
#[unsafe(no_mangle)]
pub extern "C" fn tessera_status_string(status: tessera_status) -> *const c_char {
    name(status).as_ptr()
}

fn name(status: tessera_status) -> &'static CStr {
    match status {
        TESSERA_SUCCESS => c"success",
        TESSERA_INVALID_ARGUMENT => c"invalid argument",
        TESSERA_INVALID_SIZE => c"sizes do not fit",
        TESSERA_UNSUPPORTED => c"not supported",
        TESSERA_NO_DEVICE => c"no such device",
        TESSERA_OUT_OF_MEMORY => c"out of memory",
        TESSERA_DEVICE_FAILED => c"the device failed",
        TESSERA_NO_THREADS => c"no threads",
        TESSERA_INTERNAL_ERROR => c"internal error",
        _ => c"unknown status",
    }
}

/// Why a function did nothing.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) status: tessera_status,
    pub(crate) message: String,
    /// The driver's code, where it was the driver that refused.
    pub(crate) code: Option<i32>,
}

impl Fault {
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self { status: TESSERA_INVALID_ARGUMENT, message: message.into(), code: None }
    }

    /// The same with what it is a fault of before its message.
    pub(crate) fn of(self, name: &str) -> Self {
        Self { message: format!("{name}: {}", self.message), ..self }
    }
}

impl From<Error> for Fault {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the library may add to its errors")]
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::Shape(_)
            | Error::InnerDim { .. }
            | Error::OuterDim { .. }
            | Error::Operand { .. }
            | Error::Length { .. }
            | Error::Descriptor { .. } => TESSERA_INVALID_SIZE,
            Error::DeviceOperand { .. } => TESSERA_INVALID_ARGUMENT,
            Error::Unsupported { .. }
            | Error::NoKernel { .. }
            | Error::Epilogue { .. }
            | Error::Accuracy { .. }
            | Error::Capturing { .. }
            | Error::Isa(_) => TESSERA_UNSUPPORTED,
            Error::NoDevice { .. } | Error::NoSuchDevice { .. } => TESSERA_NO_DEVICE,
            Error::OutOfMemory { .. } => TESSERA_OUT_OF_MEMORY,
            Error::Threads { .. } => TESSERA_NO_THREADS,
            Error::Cuda { .. } => TESSERA_DEVICE_FAILED,
            _ => TESSERA_INTERNAL_ERROR,
        };
        let code = if let Error::Cuda { code, .. } = &error { *code } else { None };
        Self { status, message: error.to_string(), code }
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        let message = failure.to_string();
        match failure {
            Failure::Library(error) => error.into(),
            Failure::Types { .. } => Self { status: TESSERA_UNSUPPORTED, message, code: None },
            Failure::Factor { .. } => Self::argument(message),
            _ => Self { status: TESSERA_INTERNAL_ERROR, message, code: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_a_name_of_its_own() {
        let mut names: Vec<_> = (TESSERA_SUCCESS..=TESSERA_INTERNAL_ERROR + 1).map(name).collect();
        assert_eq!(name(-1), name(TESSERA_INTERNAL_ERROR + 1));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
