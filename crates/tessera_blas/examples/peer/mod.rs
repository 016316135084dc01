//! This library and others, opened for their symbols.

use std::error::Error;
use std::path::{Path, PathBuf};

use libloading::Library;

/// A library that is compared.
pub(crate) struct Peer {
    /// What its columns are called.
    pub(crate) name: String,
    pub(crate) library: Library,
}

impl Peer {
    /// This library and those at some paths, in that order.
    pub(crate) fn own_and(paths: &[PathBuf]) -> Result<Vec<Self>, Box<dyn Error>> {
        std::iter::once(&own()?).chain(paths).map(|path| Self::open(path)).collect()
    }

    fn open(path: &Path) -> Result<Self, Box<dyn Error>> {
        // SAFETY: a library that the user has named; what its initialisers do is its own.
        let library = unsafe { Library::new(path) }
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(Self {
            name: name.trim_start_matches("lib").split('.').next().unwrap_or_default().to_owned(),
            library,
        })
    }

    /// Sets how many threads its products use, if it has such a setting.
    pub(crate) fn use_threads(&self, threads: i32) {
        for setter in [
            "tessera_set_num_threads",
            "openblas_set_num_threads",
            "scipy_openblas_set_num_threads",
            "MKL_Set_Num_Threads",
            "bli_thread_set_num_threads",
        ] {
            // SAFETY: the libraries' setters take one integer; that of BLIS has 64 bits, and the register is zero above.
            let set: Result<libloading::Symbol<'_, unsafe extern "C" fn(i64)>, _> =
                unsafe { self.library.get(setter.as_bytes()) };
            if let Ok(set) = set {
                // SAFETY: as above.
                unsafe { set(threads.into()) };
            }
        }
    }
}

/// This library, as it was built with the example.
fn own() -> Result<PathBuf, Box<dyn Error>> {
    let program = std::env::current_exe()?;
    let folder = program.parent().and_then(Path::parent).ok_or("the example is in no folder")?;
    let built = ["libtessera_blas.so", "deps/libtessera_blas.so"].map(|name| folder.join(name));
    let found = built.into_iter().find(|path| path.exists());
    found.ok_or_else(|| {
        "libtessera_blas.so is not built: cargo build --release -p tessera-blas".into()
    })
}
