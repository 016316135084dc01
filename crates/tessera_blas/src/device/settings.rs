//! What the environment says of devices, read once.

use std::fs::{File, OpenOptions};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use tessera::Accuracy;

use super::log::{Log, tell};

/// Says where products are computed.
const DEVICE: &str = "TESSERA_BLAS_DEVICE";
/// Says what kernels of a GPU keep to.
const ACCURACY: &str = "TESSERA_BLAS_ACCURACY";
/// Says where each call leaves a line.
const LOG: &str = "TESSERA_BLAS_LOG";

/// Where products are to be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// On the CPU, and nobody asks where a pointer points to.
    Cpu,
    /// On the CPU or the first GPU, whichever should end first.
    Auto,
    /// On the GPU of that number, whatever it can compute.
    Cuda(u32),
}

/// All settings.
pub(super) struct Settings {
    pub(super) device: Wanted,
    pub(super) accuracy: Accuracy,
    pub(super) log: Option<Log>,
}

impl Settings {
    /// Whether calls are computed on the CPU and nobody wants to know of it.
    fn is_plain(&self) -> bool {
        self.device == Wanted::Cpu && self.log.is_none()
    }
}

/// The settings of the process; what is not understood is told, once.
pub(super) fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let of = |name| std::env::var(name).unwrap_or_default();
        Settings {
            device: told(DEVICE, device_of(&of(DEVICE)), Wanted::Cpu),
            accuracy: told(ACCURACY, accuracy_of(&of(ACCURACY)), Accuracy::Componentwise),
            log: told(LOG, log_of(&of(LOG)), None),
        }
    })
}

/// Whether calls are computed on the CPU and nobody wants to know of it: one load, after the first time.
#[inline]
pub(crate) fn is_plain() -> bool {
    const PLAIN: u8 = 1;
    const NOT: u8 = 2;
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    #[cold]
    fn look() -> bool {
        if KNOWN.load(Ordering::Relaxed) == NOT {
            return false;
        }
        let plain = settings().is_plain();
        KNOWN.store(if plain { PLAIN } else { NOT }, Ordering::Relaxed);
        plain
    }
    KNOWN.load(Ordering::Relaxed) == PLAIN || look()
}

/// What a variable says, or what is usual, with a line on standard error.
pub(crate) fn told<T>(name: &str, said: Result<T, String>, usual: T) -> T {
    said.unwrap_or_else(|why| {
        tell(&format!("{name} is not used: {why}"));
        usual
    })
}

fn device_of(text: &str) -> Result<Wanted, String> {
    match text.trim() {
        "" | "cpu" => return Ok(Wanted::Cpu),
        "auto" => return Ok(Wanted::Auto),
        "cuda" => return Ok(Wanted::Cuda(0)),
        _ => {}
    }
    let number = text.trim().strip_prefix("cuda:").and_then(|number| number.parse().ok());
    let none = || format!("`{text}` is none of cpu, auto, cuda and cuda:0 with any number");
    number.map(Wanted::Cuda).ok_or_else(none)
}

fn accuracy_of(text: &str) -> Result<Accuracy, String> {
    match text.trim() {
        "" => Ok(Accuracy::Componentwise),
        name => name.parse(),
    }
}

fn log_of(text: &str) -> Result<Option<Log>, String> {
    match text {
        "" => Ok(None),
        "stderr" => Ok(Some(Log::StandardError)),
        path => {
            let opened: std::io::Result<File> =
                OpenOptions::new().append(true).create(true).open(path);
            let why = |error| format!("`{path}` cannot be opened to append to it: {error}");
            opened.map(|file| Some(Log::File(file))).map_err(why)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_variables() {
        for (text, wanted) in [
            ("", Wanted::Cpu),
            ("cpu", Wanted::Cpu),
            (" auto ", Wanted::Auto),
            ("cuda", Wanted::Cuda(0)),
            ("cuda:3", Wanted::Cuda(3)),
        ] {
            assert_eq!(device_of(text), Ok(wanted), "{text}");
        }
        for text in ["gpu", "cuda:", "cuda:-1", "cuda0", "CPU"] {
            let why = device_of(text).expect_err("it is no device");
            assert!(why.starts_with(&format!("`{text}` is none of cpu, auto")), "{why}");
        }
        assert_eq!(accuracy_of(""), Ok(Accuracy::Componentwise));
        assert_eq!(accuracy_of("fp32"), Ok(Accuracy::Fp32));
        assert!(accuracy_of("f16x3").is_err());
        assert!(matches!(log_of(""), Ok(None)));
        assert!(matches!(log_of("stderr"), Ok(Some(Log::StandardError))));
        assert!(log_of("/nonexistent/log").is_err_and(|why| why.contains("/nonexistent/log")));
    }
}
