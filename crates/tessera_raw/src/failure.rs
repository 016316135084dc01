//! Why there is no product.

use gemm_spec::Types;
use tessera::Error;

use crate::scalar::Scalar;

/// Why there is no product.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The library says why.
    #[error(transparent)]
    Library(#[from] Error),
    /// Nothing multiplies these types.
    #[error("there are no products of {a} by {b} with a C of {c}; there are: {}", known())]
    Types {
        /// Elements of A.
        a: Scalar,
        /// Elements of B.
        b: Scalar,
        /// Elements of C.
        c: Scalar,
    },
    /// A factor cannot be what sums are multiplied by.
    #[error("{name} is {}, which is no number of type {sums}, in which sums are computed", complex(*re, *im))]
    Factor {
        /// Which.
        name: &'static str,
        /// Its real part.
        re: f64,
        /// Its imaginary part.
        im: f64,
        /// The type of sums.
        sums: &'static str,
    },
}

/// All products that there are.
fn known() -> String {
    let names = Types::ALL.map(|it| format!("{} by {} to {}", it.a(), it.b(), it.c())).join(", ");
    let same = [Scalar::Complex64, Scalar::Complex128, Scalar::Int64].map(Scalar::name);
    format!("{names}, and {} by the same", same.join(", "))
}

fn complex(re: f64, im: f64) -> String {
    if im == 0.0 { re.to_string() } else { format!("{re} + {im}i") }
}
