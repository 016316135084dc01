//! Which factors of a measured product are stored transposed.

use std::fmt;
use std::str::FromStr;

use gemm_spec::{GemmTypes, Layout, Problem};
use serde::{Deserialize, Serialize};

/// Which factors are stored transposed, in the letters of BLAS: those of A and B.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ops {
    /// Both row-major.
    #[default]
    Nn,
    /// B is stored as n rows of k elements, as a linear layer's weights are.
    Nt,
    /// A is stored as k rows of m elements.
    Tn,
    /// Both are stored transposed.
    Tt,
}

impl Ops {
    /// Every one, in the order in which they are listed to users.
    pub const ALL: [Self; 4] = [Self::Nn, Self::Nt, Self::Tn, Self::Tt];

    /// The name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nn => "nn",
            Self::Nt => "nt",
            Self::Tn => "tn",
            Self::Tt => "tt",
        }
    }

    /// Whether this is the usual one: nothing transposed.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::Nn
    }

    /// The problem with its factors, tightly packed, stored so; C is row-major.
    pub(crate) const fn of<T: GemmTypes>(self, problem: Problem<T>) -> Problem<T> {
        let Problem { m, n, k, .. } = problem;
        let a = match self {
            Self::Nn | Self::Nt => Layout::row_major(k),
            Self::Tn | Self::Tt => Layout::col_major(m),
        };
        let b = match self {
            Self::Nn | Self::Tn => Layout::row_major(n),
            Self::Nt | Self::Tt => Layout::col_major(k),
        };
        problem.with_layouts(a, b, Layout::row_major(n))
    }
}

impl fmt::Display for Ops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Ops {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|ops| ops.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{name}` is none of {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use gemm_spec::Operand;

    use super::*;

    #[test]
    fn names_lead_back_and_operands_keep_their_size() {
        let problem = Problem::<f32>::new(3, 5, 7);
        for ops in Ops::ALL {
            assert_eq!(ops.name().parse(), Ok(ops));
            assert_eq!(serde_json::to_value(ops).unwrap(), ops.name());
            let stored = ops.of(problem);
            for operand in [Operand::A, Operand::B, Operand::C] {
                assert_eq!(stored.required_len(operand), problem.required_len(operand), "{ops}");
            }
            let turned = |operand| stored.layout(operand) != problem.layout(operand);
            let letters = [Operand::A, Operand::B].map(|it| if turned(it) { 't' } else { 'n' });
            assert_eq!(String::from_iter(letters), ops.name());
        }
        assert!("tx".parse::<Ops>().is_err());
    }
}
