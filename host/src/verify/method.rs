//! How a result is checked, by name.

use std::fmt;
use std::str::FromStr;

use gemm_spec::{Problem, Types};
use serde::Serialize;
use thiserror::Error;

use crate::scalar::ScalarTypes;

/// How a result is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// [`Method::Full`] where that takes a fraction of a second, else [`Method::Freivalds`].
    #[default]
    Auto,
    /// Every element against the reference: `2 m n k` operations in f64, 16 bytes for each element.
    Full,
    /// Every row by random vectors, and a few rows element by element: `O(mk + kn + mn)`.
    Freivalds,
    /// A few rows and columns element by element. Errors elsewhere stay unseen.
    Sample,
    /// Nothing at all.
    None,
}

/// A name that no method has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no way of checking is called `{0}`; there are auto, full, freivalds, sample and none")]
pub struct UnknownMethod(String);

impl Method {
    /// Every method, in the order in which they are listed to users.
    pub const ALL: [Self; 5] = [Self::Auto, Self::Full, Self::Freivalds, Self::Sample, Self::None];

    /// The name used on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Full => "full",
            Self::Freivalds => "freivalds",
            Self::Sample => "sample",
            Self::None => "none",
        }
    }

    /// Bytes of the reference that a check of a problem keeps, where it is as large as C.
    pub(crate) fn reference_bytes<T: ScalarTypes>(self, problem: &Problem<T>) -> u128 {
        match self.resolve(problem) {
            Self::Full => (problem.m as u128 * problem.n as u128).saturating_mul(16),
            Self::Auto | Self::Freivalds | Self::Sample | Self::None => 0,
        }
    }

    /// What [`Method::Auto`] means for a problem; other methods stay what they are.
    #[must_use]
    pub fn resolve<T: ScalarTypes>(self, problem: &Problem<T>) -> Self {
        if self != Self::Auto {
            return self;
        }
        // The reference for f64 takes four times as long.
        let most_products = if T::TYPES == Types::F64 { 1e8 } else { 4e8 };
        let elements = problem.m as f64 * problem.n as f64;
        let full = problem.flops() <= most_products && elements <= f64::from(1 << 22);
        if full { Self::Full } else { Self::Freivalds }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(name: &str) -> Result<Self, UnknownMethod> {
        Self::ALL
            .into_iter()
            .find(|method| method.name() == name)
            .ok_or_else(|| UnknownMethod(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_methods() {
        for method in Method::ALL {
            assert_eq!(method.name().parse(), Ok(method));
        }
        let message = "fully".parse::<Method>().unwrap_err().to_string();
        for method in Method::ALL {
            assert!(message.contains(method.name()), "{message}");
        }
    }

    #[test]
    fn auto_is_full_for_small_problems_only() {
        let auto = |m, n, k| Method::Auto.resolve(&Problem::<f32>::new(m, n, k));
        assert_eq!(auto(512, 512, 512), Method::Full);
        assert_eq!(auto(10_240, 10_240, 1), Method::Freivalds);
        assert_eq!(auto(1024, 1024, 1024), Method::Freivalds);
        assert_eq!(Method::Auto.resolve(&Problem::<f64>::new(512, 512, 512)), Method::Freivalds);
        assert_eq!(Method::Sample.resolve(&Problem::<f32>::new(1, 1, 1)), Method::Sample);
    }
}
