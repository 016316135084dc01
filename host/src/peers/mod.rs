//! Peers: matrix products of other projects, measured beside this one's.
//!
//! No peer is needed to build or to run anything. Libraries are opened while the program runs, where
//! they are found; crates are compiled in by the feature `peers`. Each is asked in its strongest form,
//! and where the usual form is another one, in both: OpenBLAS picks its kernels by a list of
//! processors, and on one that it does not know yet it picks those of a much older one.
//!
//! The number of threads is fixed when a library is opened, by the environment. So a peer works in a
//! process of its own, and `environment` says what that process is told.

mod blas;
mod onednn;
#[cfg(feature = "peers")]
mod rust_crates;

use std::ffi::OsString;
use std::path::PathBuf;

use gemm_spec::Problem;
use wildmatch::WildMatch;

use crate::cpu::CpuContext;
use crate::error::Error;
use crate::gpu::CudaLibrary;
use crate::scalar::ScalarTypes;
use crate::shared_library::SharedLibrary;

/// The environment variable that names folders of peers' libraries.
pub const FOLDERS_VARIABLE: &str = "TESSERA_PEER_PATH";

/// A matrix product of another project, in one form.
pub struct Peer {
    /// Name on the command line and in reports.
    pub id: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    form: Form,
}

/// How a peer is reached.
enum Form {
    /// A shared library for the CPU.
    Library {
        names: &'static [&'static str],
        interface: Interface,
        /// Forced to its kernels for AVX-512, by this variable.
        avx512: Option<(&'static str, &'static str)>,
    },
    /// A crate that the feature `peers` compiles in.
    Crate(RustCrate),
    /// A library for the GPU.
    Cuda(CudaLibrary),
}

#[derive(Clone, Copy)]
enum Interface {
    Blas,
    OneDnn,
}

/// The crates of the feature `peers`.
#[derive(Clone, Copy, Debug)]
enum RustCrate {
    Gemm,
    Faer,
    MatrixMultiply,
}

impl RustCrate {
    fn name(self) -> &'static str {
        match self {
            Self::Gemm => "gemm",
            Self::Faer => "faer",
            Self::MatrixMultiply => "matrixmultiply",
        }
    }
}

const OPENBLAS: &[&str] =
    &["libopenblas.so.0", "libopenblas.so", "libscipy_openblas.so", "libopenblasp.so"];

/// Every peer, CPU before GPU.
pub const PEERS: &[Peer] = &[
    Peer {
        id: "openblas",
        about: "OpenBLAS with the kernels that it picks",
        form: Form::Library { names: OPENBLAS, interface: Interface::Blas, avx512: None },
    },
    Peer {
        id: "openblas-skylakex",
        about: "OpenBLAS forced to its AVX-512 kernels",
        form: Form::Library {
            names: OPENBLAS,
            interface: Interface::Blas,
            avx512: Some(("OPENBLAS_CORETYPE", "SkylakeX")),
        },
    },
    Peer {
        id: "onednn",
        about: "oneDNN's dnnl_sgemm, and its products of i8 and of bf16 with a C of f32",
        form: Form::Library {
            names: &["libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"],
            interface: Interface::OneDnn,
            avx512: None,
        },
    },
    Peer {
        id: "blis",
        about: "BLIS, upstream's or AMD's",
        form: Form::Library {
            names: &["libblis-mt.so", "libblis.so.5", "libblis.so.4", "libblis.so"],
            interface: Interface::Blas,
            avx512: None,
        },
    },
    Peer {
        id: "mkl",
        about: "Intel MKL by its single library; also f16 and bf16 with a C of f32",
        form: Form::Library {
            names: &["libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so.1", "libmkl_rt.so"],
            interface: Interface::Blas,
            avx512: None,
        },
    },
    Peer {
        id: "gemm",
        about: "the Rust crate gemm with AVX-512",
        form: Form::Crate(RustCrate::Gemm),
    },
    Peer { id: "faer", about: "the Rust crate faer", form: Form::Crate(RustCrate::Faer) },
    Peer {
        id: "matrixmultiply",
        about: "the Rust crate matrixmultiply",
        form: Form::Crate(RustCrate::MatrixMultiply),
    },
    Peer {
        id: "cublas",
        about: "cuBLAS in the precision of the operands, without TF32",
        form: Form::Cuda(CudaLibrary::Cublas),
    },
    Peer {
        id: "cublaslt",
        about: "cuBLASLt in the precision of the operands, without TF32: its first heuristic",
        form: Form::Cuda(CudaLibrary::CublasLt),
    },
];

/// The peers that a list of patterns selects, in the order of [`PEERS`]; all for an empty list.
///
/// # Errors
/// [`Error::UnknownKernel`] where a pattern matches none.
pub fn select(patterns: &str) -> Result<Vec<&'static Peer>, Error> {
    let patterns: Vec<&str> =
        patterns.split(',').map(str::trim).filter(|pattern| !pattern.is_empty()).collect();
    let matches = |pattern: &str, peer: &Peer| WildMatch::new(pattern).matches(peer.id);
    if let Some(slip) = patterns.iter().find(|slip| !PEERS.iter().any(|peer| matches(slip, peer))) {
        let ids: Vec<_> = PEERS.iter().map(|peer| peer.id).collect();
        let hint = format!("peers are {}", ids.join(", "));
        return Err(Error::UnknownKernel { name: (*slip).to_owned(), hint });
    }
    let taken = |peer: &&Peer| patterns.is_empty() || patterns.iter().any(|p| matches(p, peer));
    Ok(PEERS.iter().filter(taken).collect())
}

/// The peer of that exact name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Peer> {
    PEERS.iter().find(|peer| peer.id == name)
}

impl Peer {
    /// The library of a GPU peer.
    #[must_use]
    pub fn cuda(&self) -> Option<CudaLibrary> {
        if let Form::Cuda(library) = self.form { Some(library) } else { None }
    }

    /// What a process must have in its environment to do its products by this peer with that many
    /// threads, and what it must not have (`None`).
    pub(crate) fn environment(&self, threads: usize) -> Vec<(&'static str, Option<OsString>)> {
        let mut environment = threads_environment(threads);
        if let Form::Library { avx512, .. } = &self.form {
            let forced = avx512.map(|(_, value)| OsString::from(value));
            environment.push(("OPENBLAS_CORETYPE", forced));
        }
        environment
    }
}

/// What fixes the number of threads of everything that may be in a process.
pub(crate) fn threads_environment(threads: usize) -> Vec<(&'static str, Option<OsString>)> {
    let number = Some(OsString::from(threads.to_string()));
    let off = Some(OsString::from("FALSE"));
    let numbers = [
        "OPENBLAS_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "RAYON_NUM_THREADS",
        "MATMUL_NUM_THREADS",
    ];
    let numbers = numbers.map(|name| (name, number.clone())).into_iter();
    numbers.chain([("OMP_DYNAMIC", off.clone()), ("MKL_DYNAMIC", off)]).collect()
}

/// A peer for the CPU that is ready to multiply.
pub(crate) struct CpuPeer {
    product: Product,
    /// What it says of itself.
    pub(crate) description: String,
}

enum Product {
    Blas(blas::Blas),
    OneDnn(onednn::OneDnn),
    #[cfg_attr(
        not(feature = "peers"),
        expect(dead_code, reason = "without the crates none is made")
    )]
    Crate(RustCrate),
}

impl CpuPeer {
    /// Opens the peer's library, in these folders first; says why where it cannot be used.
    pub(crate) fn open(
        peer: &Peer,
        folders: &[PathBuf],
        context: &CpuContext,
    ) -> Result<Self, String> {
        let (names, interface, avx512) = match &peer.form {
            Form::Library { names, interface, avx512 } => (names, *interface, avx512.is_some()),
            Form::Crate(which) => return Self::of_crate(*which),
            Form::Cuda(_) => return Err("works on a GPU".to_owned()),
        };
        if avx512 && !has_avx512() {
            return Err("this processor has no AVX-512".to_owned());
        }
        let library = SharedLibrary::open(names, folders)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (product, description) = match interface {
            Interface::Blas => {
                (Product::Blas(blas::Blas::new(&library)?), blas::describe(&library))
            }
            Interface::OneDnn => {
                let (product, words) = onednn::OneDnn::new(&library, context.threads(), cores)?;
                (Product::OneDnn(product), words)
            }
        };
        Ok(Self { product, description })
    }

    #[cfg(feature = "peers")]
    fn of_crate(which: RustCrate) -> Result<Self, String> {
        let description = rust_crates::describe(which.name());
        Ok(Self { product: Product::Crate(which), description })
    }

    #[cfg(not(feature = "peers"))]
    fn of_crate(which: RustCrate) -> Result<Self, String> {
        Err(format!(
            "the crate {} is not in this program: build it with --features peers",
            which.name()
        ))
    }

    /// Computes the problem's C; says in words what the peer cannot do.
    pub(crate) fn multiply<T: ScalarTypes>(
        &self,
        problem: &Problem<T>,
        a: &[T::A],
        b: &[T::B],
        c: &mut [T::C],
        context: &CpuContext,
    ) -> Result<(), String> {
        match &self.product {
            Product::Blas(blas) => blas.multiply(problem, a, b, c),
            Product::OneDnn(onednn) => onednn.multiply(problem, a, b, c),
            #[cfg(feature = "peers")]
            Product::Crate(which) => rust_crates::multiply(*which, problem, a, b, c, context),
            #[cfg(not(feature = "peers"))]
            Product::Crate(_) => {
                let _ = context;
                unreachable!("invariant: without the feature no crate is opened")
            }
        }
    }
}

fn has_avx512() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx512f")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_selected_by_name_and_slips_are_named() {
        let ids =
            |patterns| -> Vec<_> { select(patterns).unwrap().iter().map(|peer| peer.id).collect() };
        assert_eq!(ids("").len(), PEERS.len());
        assert_eq!(ids("mkl, openblas*"), ["openblas", "openblas-skylakex", "mkl"]);
        let slip = select("openblas,cublass").err().map(|error| error.to_string()).unwrap();
        assert!(slip.contains("`cublass`") && slip.contains("cublaslt"), "{slip}");
        // One name must not mean two things.
        assert!(PEERS.iter().all(|peer| crate::registry::find(peer.id).is_err()));
    }

    #[test]
    fn the_environment_fixes_threads_and_kernels() {
        let variable = |id: &str, name: &str| {
            let environment = find(id).unwrap().environment(3);
            environment.into_iter().find(|(key, _)| *key == name).unwrap().1
        };
        assert_eq!(variable("openblas", "OPENBLAS_NUM_THREADS"), Some("3".into()));
        assert_eq!(variable("openblas", "OPENBLAS_CORETYPE"), None);
        assert_eq!(variable("openblas-skylakex", "OPENBLAS_CORETYPE"), Some("SkylakeX".into()));
        assert_eq!(variable("gemm", "RAYON_NUM_THREADS"), Some("3".into()));
    }
}
