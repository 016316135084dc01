//! Shared libraries that are looked for while the program runs and need not be there.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use libloading::Library;

/// An open library. It stays open until the process ends: threads of its own may still be at work in
/// it, and its functions are kept as plain addresses.
pub(crate) struct SharedLibrary {
    library: &'static Library,
    name: String,
}

impl SharedLibrary {
    /// Opens the first of `names` that opens, in each of the folders and then where the dynamic loader
    /// looks; else says what was tried.
    ///
    /// Opening a library runs its initialisers. The names are those of well-known libraries and the
    /// folders are the user's choice: what lies there is trusted as what the program links is.
    pub(crate) fn open(names: &[&str], folders: &[PathBuf]) -> Result<Self, String> {
        let mut broken = Vec::new();
        for folder in folders {
            for path in names.iter().map(|name| folder.join(name)).filter(|path| path.exists()) {
                match open(path.as_os_str()) {
                    Ok(library) => return Ok(library),
                    Err(reason) => broken.push(format!("{} ({reason})", path.display())),
                }
            }
        }
        for name in names {
            match open(OsStr::new(name)) {
                Ok(library) => return Ok(library),
                // That there is none of that name is told once, for all names; anything else here.
                Err(reason) if reason.contains("No such file") => {}
                Err(reason) => broken.push(format!("{name} ({reason})")),
            }
        }
        if broken.is_empty() {
            return Err(format!("none of {} is found", names.join(", ")));
        }
        Err(format!("cannot open {}", broken.join(", ")))
    }

    /// The name or path that it was opened by.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The folder that it was opened from, where one was named.
    pub(crate) fn folder(&self) -> Option<&Path> {
        Path::new(&self.name).parent().filter(|folder| !folder.as_os_str().is_empty())
    }

    /// The function of that name.
    ///
    /// # Safety
    /// `F` is a function pointer, and its type is that of the library's function.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &str) -> Option<F> {
        // SAFETY: the caller's promise. The library is never closed, so the address stays good.
        unsafe { self.library.get::<F>(name.as_bytes()) }.ok().map(|symbol| *symbol)
    }
}

fn open(path: &OsStr) -> Result<SharedLibrary, String> {
    let name = path.to_string_lossy().into_owned();
    // SAFETY: see `SharedLibrary::open` on whose initialisers these are.
    let library = unsafe { Library::new(path) }.map_err(|error| {
        // `libloading` keeps the loader's own words in the source of some of its errors.
        let words =
            std::error::Error::source(&error).map_or_else(|| error.to_string(), |s| s.to_string());
        words.strip_prefix(&format!("{name}: ")).unwrap_or(&words).to_owned()
    })?;
    Ok(SharedLibrary { library: Box::leak(Box::new(library)), name })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_and_what_is_broken_are_told_apart() {
        let names = ["libtessera-none.so.1", "libtessera-none.so"];
        let missing = SharedLibrary::open(&names, &[]).err().unwrap();
        assert_eq!(missing, "none of libtessera-none.so.1, libtessera-none.so is found");

        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(names[1]), "no library").unwrap();
        let broken = SharedLibrary::open(&names, &[folder.path().to_owned()]).err().unwrap();
        assert!(broken.starts_with("cannot open /") && broken.contains(names[1]), "{broken}");
    }

    #[test]
    fn functions_are_found_by_name() {
        let library = SharedLibrary::open(&["libm.so.6"], &[]).unwrap();
        assert_eq!((library.name(), library.folder()), ("libm.so.6", None));
        // SAFETY: the C library's `double cos(double)`.
        let cos = unsafe { library.function::<extern "C" fn(f64) -> f64>("cos") }.unwrap();
        assert_eq!(cos(0.0), 1.0);
        // SAFETY: there is no such function whatever its type.
        assert!(unsafe { library.function::<extern "C" fn()>("tessera_none") }.is_none());
    }
}
