//! What cuBLAS and cuBLASLt have in common: where they are found, what a product is to them, and what
//! their answers mean.

use std::ffi::c_void;
use std::path::PathBuf;
use std::ptr;

use gemm_spec::{AccType, DType, Problem, Types};

use crate::column_major::ColumnMajor;
use crate::scalar::ScalarTypes;
use crate::shared_library::SharedLibrary;

/// The environment variable that names a folder with the libraries, where the dynamic loader does not
/// find them.
pub(crate) const FOLDER_VARIABLE: &str = "TESSERA_CUBLAS";

/// The major versions that are tried, the newest first.
const MAJORS: [u32; 3] = [13, 12, 11];

/// Opens `libcublas` or `libcublasLt`: in the user's folders, in CUDA's, then where the dynamic loader
/// looks (the system's folders and LD_LIBRARY_PATH).
pub(super) fn open(stem: &str, folders: &[PathBuf]) -> Result<SharedLibrary, String> {
    let mut folders = folders.to_vec();
    folders.extend(std::env::var_os(FOLDER_VARIABLE).filter(|v| !v.is_empty()).map(PathBuf::from));
    for variable in ["CUDA_PATH", "CUDA_HOME"] {
        let root = std::env::var_os(variable).filter(|value| !value.is_empty());
        folders.extend(root.map(|root| PathBuf::from(root).join("lib64")));
    }
    folders.push(PathBuf::from("/usr/local/cuda/lib64"));
    let names: Vec<String> = MAJORS.iter().map(|major| format!("{stem}.so.{major}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    SharedLibrary::open(&names, &folders)
        .map_err(|reason| format!("{reason}; name its folder in {FOLDER_VARIABLE}"))
}

/// Defines a table of a library's functions, and how it is filled.
macro_rules! functions {
    ($(#[$doc:meta])* $table:ident { $($field:ident = $symbol:literal: fn($($argument:ty),* $(,)?);)+ }) => {
        $(#[$doc])*
        pub(super) struct $table {
            $($field: unsafe extern "C" fn($($argument),*) -> std::ffi::c_int,)+
        }

        impl $table {
            /// Takes the functions from the library.
            pub(super) fn load(
                library: &crate::shared_library::SharedLibrary,
            ) -> Result<Self, String> {
                Ok(Self {
                    // SAFETY: the types are those of the library's headers, from version 11 on.
                    $($field: unsafe { library.function($symbol) }
                        .ok_or_else(|| format!("{} has no {}", library.name(), $symbol))?,)+
                })
            }
        }
    };
}
pub(super) use functions;

/// A value of `cublasStatus_t` that is not success, with its name.
///
/// Source: cublas_api.h.
pub(super) fn check(call: &str, status: i32) -> Result<(), String> {
    let name = match status {
        0 => return Ok(()),
        1 => "CUBLAS_STATUS_NOT_INITIALIZED",
        3 => "CUBLAS_STATUS_ALLOC_FAILED",
        7 => "CUBLAS_STATUS_INVALID_VALUE",
        8 => "CUBLAS_STATUS_ARCH_MISMATCH",
        11 => "CUBLAS_STATUS_MAPPING_ERROR",
        13 => "CUBLAS_STATUS_EXECUTION_FAILED",
        14 => "CUBLAS_STATUS_INTERNAL_ERROR",
        15 => "CUBLAS_STATUS_NOT_SUPPORTED",
        16 => "CUBLAS_STATUS_LICENSE_ERROR",
        _ => "a status that this program does not know",
    };
    Err(format!("{call}: {name} ({status})"))
}

/// `cudaDataType_t` of the factors, of C, and of alpha and beta, and `cublasComputeType_t`.
///
/// Source: library_types.h and cublas_api.h. The compute types here keep the operands' precision, and
/// sum elements of 16 bits up in f32: TF32 and `CUBLAS_COMPUTE_16F` would be others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DataTypes {
    /// Of the factors, in the library's order.
    pub(super) first: i32,
    pub(super) second: i32,
    pub(super) result: i32,
    pub(super) scalar: i32,
    pub(super) compute: i32,
}

const CUDA_R_32F: i32 = 0;
const CUDA_R_64F: i32 = 1;
const CUDA_R_16F: i32 = 2;
const CUDA_R_16BF: i32 = 14;
const CUBLAS_COMPUTE_32F: i32 = 68;
const CUBLAS_COMPUTE_64F: i32 = 70;

impl DataTypes {
    fn of(types: Types, call: &ColumnMajor) -> Result<Self, String> {
        let refused = || format!("has no product in {types}");
        let element = |dtype| match dtype {
            DType::F32 => Ok(CUDA_R_32F),
            DType::F64 => Ok(CUDA_R_64F),
            DType::F16 => Ok(CUDA_R_16F),
            DType::BF16 => Ok(CUDA_R_16BF),
            DType::I32 | DType::I8 => Err(refused()),
        };
        let compute = match types.acc() {
            AccType::F32 => CUBLAS_COMPUTE_32F,
            AccType::F64 => CUBLAS_COMPUTE_64F,
            AccType::I32 => return Err(refused()),
        };
        let (first, second) = call.ordered(element(types.a())?, element(types.b())?);
        let (result, scalar) = (element(types.c())?, element(types.acc().dtype())?);
        Ok(Self { first, second, result, scalar, compute })
    }
}

/// A product on the device, in a library's terms.
pub(super) struct DeviceProduct {
    pub(super) types: DataTypes,
    pub(super) call: ColumnMajor,
    /// Address of the scalar, on the host.
    pub(super) alpha: *const c_void,
    pub(super) beta: *const c_void,
    /// Device addresses.
    pub(super) first: u64,
    pub(super) second: u64,
    pub(super) c: u64,
}

impl DeviceProduct {
    /// The problem on operands at these device addresses. The factors are read from `problem`, which
    /// must outlive the use of this.
    pub(super) fn new<T: ScalarTypes>(
        problem: &Problem<T>,
        a: u64,
        b: u64,
        c: u64,
    ) -> Result<Self, String> {
        let call = ColumnMajor::new(problem)?;
        let (first, second) = call.ordered(a, b);
        Ok(Self {
            types: DataTypes::of(T::TYPES, &call)?,
            call,
            alpha: ptr::from_ref(&problem.alpha).cast(),
            beta: ptr::from_ref(&problem.beta).cast(),
            first,
            second,
            c,
        })
    }
}

/// `cublasOperation_t`.
pub(super) fn operation(transposed: bool) -> i32 {
    i32::from(transposed)
}

/// A version as the libraries encode it: 130100 is 13.1.0.
pub(super) fn version_words(version: usize) -> String {
    format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_names_and_versions_have_parts() {
        assert_eq!(check("cublasCreate_v2", 0), Ok(()));
        let error = check("cublasCreate_v2", 3).unwrap_err();
        assert_eq!(error, "cublasCreate_v2: CUBLAS_STATUS_ALLOC_FAILED (3)");
        assert!(check("x", 99).unwrap_err().ends_with("(99)"));
        assert_eq!(version_words(130_100), "13.1.0");
        assert_eq!(version_words(120_804), "12.8.4");
    }

    #[test]
    fn elements_of_16_bits_are_summed_up_in_f32() {
        let call = ColumnMajor::new(&Problem::<f32>::new(1, 1, 1)).unwrap();
        let types = |types| {
            let DataTypes { first, second, result, scalar, compute } =
                DataTypes::of(types, &call).unwrap();
            assert_eq!(first, second);
            (first, result, scalar, compute)
        };
        assert_eq!(types(Types::F32), (0, 0, 0, 68));
        assert_eq!(types(Types::F64), (1, 1, 1, 70));
        assert_eq!(types(Types::F16), (2, 2, 0, 68));
        assert_eq!(types(Types::BF16), (14, 14, 0, 68));
        assert_eq!(types(Types::F16F32), (2, 0, 0, 68));
        assert_eq!(types(Types::BF16F32), (14, 0, 0, 68));
        assert!(DataTypes::of(Types::I8, &call).is_err());
        assert!(DataTypes::of(Types::I32, &call).is_err());
        // The factors are where the library looks for numbers of the scalar type.
        let problem = Problem::<gemm_spec::bf16>::new(1, 1, 1).with_scalars(0.1, 0.7);
        let product = DeviceProduct::new(&problem, 0, 0, 0).unwrap();
        let factors = [product.alpha, product.beta].map(|factor| {
            // SAFETY: one of the problem's own factors, which are f32 here.
            unsafe { *factor.cast::<f32>() }
        });
        assert_eq!(factors, [0.1, 0.7]);
    }

    #[test]
    fn a_missing_library_says_how_to_name_it() {
        let error = open("libtessera-none", &[]).err().unwrap();
        assert!(
            error.contains("libtessera-none.so.13") && error.contains(FOLDER_VARIABLE),
            "{error}"
        );
    }
}
