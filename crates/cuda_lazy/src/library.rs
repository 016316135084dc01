//! Finding and opening the driver's library.

use std::ffi::{CStr, OsStr, OsString, c_void};
use std::ptr::NonNull;

use libloading::Library;

use crate::error::{Attempt, LoadError};

/// The environment variable that names the driver's library, for installations where the dynamic
/// loader does not find it by name. An empty value counts as unset.
pub const LIBRARY_VARIABLE: &str = "TESSERA_LIBCUDA";

/// What is tried, in order: the driver's own name, then the one that development packages add.
const NAMES: &[&str] = &["libcuda.so.1", "libcuda.so"];

/// A library that has at least `cuInit`.
pub(crate) struct Libcuda {
    library: Library,
    name: String,
}

impl Libcuda {
    /// Opens the library that the user `chosen`, else the first of the usual names that opens.
    pub(crate) fn open(chosen: Option<OsString>) -> Result<Self, LoadError> {
        let opened = match chosen.filter(|path| !path.is_empty()) {
            Some(path) => try_open(&path).map_err(|attempt| LoadError::Override { attempt })?,
            None => open_first(NAMES)?,
        };
        if opened.find(c"cuInit").is_none() {
            return Err(LoadError::NotADriver { library: opened.name, symbol: "cuInit" });
        }
        Ok(opened)
    }

    /// The name or path it was opened by.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The address of an exported function.
    pub(crate) fn find(&self, symbol: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the symbol is taken as an address, which any symbol has, and is not called here.
        let found = unsafe { self.library.get::<*mut c_void>(symbol) };
        found.ok().and_then(|address| NonNull::new(*address))
    }
}

/// Whether the process has the library already that [`Libcuda::open`] would open, whoever opened it. To ask again costs
/// a few nanoseconds, while no library is loaded.
#[cfg(target_os = "linux")]
pub(crate) fn is_in_process(chosen: impl FnOnce() -> Option<OsString>) -> bool {
    use std::sync::atomic::{AtomicU64, Ordering};

    use libloading::os::unix::Library as Handle;

    /// How many libraries there were when it was not among them.
    static ABSENT: AtomicU64 = AtomicU64::new(0);
    /// Opens what is there alone: where it is not, the loader goes through all of its folders before it says so.
    const FLAGS: std::ffi::c_int = libc::RTLD_LAZY | libc::RTLD_NOLOAD;

    let so_far = libraries_so_far();
    if so_far != 0 && ABSENT.load(Ordering::Relaxed) == so_far {
        return false;
    }
    // SAFETY: a library that is not there yet is not opened, so that no initialiser runs.
    let has = |name: &OsStr| unsafe { Handle::open(Some(name), FLAGS) }.is_ok();
    let found = match chosen().filter(|path| !path.is_empty()) {
        Some(path) => has(&path),
        None => NAMES.iter().any(|name| has(OsStr::new(name))),
    };
    if !found {
        ABSENT.store(so_far, Ordering::Relaxed);
    }
    found
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_in_process(_: impl FnOnce() -> Option<OsString>) -> bool {
    false
}

/// How many libraries the process has loaded so far, those among them that it has closed; 0 where the loader does not
/// say.
#[cfg(target_os = "linux")]
fn libraries_so_far() -> u64 {
    unsafe extern "C" fn of_the_first(
        info: *mut libc::dl_phdr_info,
        size: libc::size_t,
        so_far: *mut c_void,
    ) -> std::ffi::c_int {
        if size >= size_of::<libc::dl_phdr_info>() {
            // SAFETY: the loader's description of a library, of which it has said the size.
            let adds = unsafe { (*info).dlpi_adds };
            // SAFETY: the number below, which waits for this call.
            unsafe { so_far.cast::<u64>().write(adds) };
        }
        // Each has the same number: no other is asked for.
        1
    }
    let mut so_far = 0_u64;
    // SAFETY: the function takes what the loader gives it, and the number is there until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(of_the_first), (&raw mut so_far).cast()) };
    so_far
}

/// Opens the first of `names` that opens.
fn open_first(names: &[&str]) -> Result<Libcuda, LoadError> {
    let mut tried = Vec::new();
    for name in names {
        match try_open(OsStr::new(name)) {
            Ok(opened) => return Ok(opened),
            Err(attempt) => tried.push(attempt),
        }
    }
    Err(LoadError::NotFound { tried })
}

fn try_open(path: &OsStr) -> Result<Libcuda, Attempt> {
    let name = path.to_string_lossy().into_owned();
    // SAFETY: opening a library runs its initialisers. By these names it is the machine's driver, or
    // what the user names in its stead, and is trusted like any library that the program links.
    match unsafe { Library::new(path) } {
        Ok(library) => Ok(Libcuda { library, name }),
        Err(error) => {
            let reason = reason(&error, &name);
            Err(Attempt { library: name, reason })
        }
    }
}

/// The loader's own words, without the library's name where they begin with it. `libloading` keeps
/// the words in the source of some of its errors.
fn reason(error: &libloading::Error, name: &str) -> String {
    let words = match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    };
    let bare = words.strip_prefix(name).and_then(|rest| rest.strip_prefix(": "));
    bare.map_or(words.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(chosen: &str) -> String {
        match Libcuda::open(Some(OsString::from(chosen))) {
            Ok(_) => panic!("{chosen} opened as a driver"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_wrong_path_is_named_with_its_reason_and_remedy() {
        let message = message("/no/such/folder/libcuda.so.1");
        assert!(message.contains(LIBRARY_VARIABLE), "{message}");
        assert!(message.contains("/no/such/folder/libcuda.so.1"), "{message}");
        assert!(message.contains("No such file"), "{message}");
        assert!(message.contains("unset it"), "{message}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_library_without_cu_init_is_no_driver() {
        let message = message("libc.so.6");
        assert!(message.contains("libc.so.6 is not an NVIDIA driver"), "{message}");
        assert!(message.contains("cuInit"), "{message}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_library_is_seen_when_somebody_loads_it() {
        let name = "libutil.so.1";
        let chosen = || Some(OsString::from(name));
        assert!(libraries_so_far() > 0);
        assert!(!is_in_process(chosen));
        assert!(!is_in_process(|| panic!("nothing was loaded since")));
        // SAFETY: a part of the C library, which does nothing when it is opened.
        let opened = unsafe { Library::new(name) }.expect("every system has it");
        assert!(is_in_process(chosen));
        drop(opened);
    }

    #[test]
    fn every_name_that_was_tried_is_in_the_message() {
        let Err(error) = open_first(&["libtessera-none.so.1", "libtessera-none.so"]) else {
            panic!("a library of that name opened");
        };
        let message = error.to_string();
        assert!(message.contains("libtessera-none.so.1 ("), "{message}");
        assert!(message.contains("libtessera-none.so (cannot open"), "{message}");
        assert!(message.contains("install an NVIDIA driver"), "{message}");
        assert!(message.contains("without a GPU"), "{message}");
    }
}
