//! Lines about calls. Each is written by one call of the system and under no lock, so that lines of threads and
//! of children do not mix, and a child of a fork waits for nobody.

use std::fs::File;
use std::io::Write;

/// Where lines go.
#[derive(Debug)]
pub(super) enum Log {
    StandardError,
    File(File),
}

impl Log {
    pub(super) fn write(&self, line: &str) {
        match self {
            Self::StandardError => tell(line),
            Self::File(file) => {
                let mut file = file;
                // A log that is full or gone is no reason to fail.
                let _ = file.write_all(whole(line).as_bytes());
            }
        }
    }
}

/// Writes a line to standard error.
pub(super) fn tell(line: &str) {
    let line = whole(line);
    // There is nobody to tell that nobody could be told.
    // SAFETY: the bytes of a text, which is there until the call returns.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}

/// A line with who says it.
fn whole(line: &str) -> String {
    format!("tessera-blas[{}]: {line}\n", std::process::id())
}

/// Says why the process cannot go on, and ends it: a routine of BLAS has no other way to fail.
pub(super) fn die(why: &str) -> ! {
    tell(why);
    std::process::abort()
}
