//! Every implementation, CPU and GPU, by name.

use gemm_spec::Types;
use kernels_gpu::{KERNELS, Kernel};
use wildmatch::WildMatch;

use crate::cpu::{CPU, CpuImpl};
use crate::error::Error;

/// One way to compute a product.
#[derive(Clone, Copy)]
pub enum Implementation {
    /// A function of this program.
    Cpu(&'static CpuImpl),
    /// A kernel.
    Gpu(Kernel),
}

impl Implementation {
    /// Name on the command line and in reports.
    #[must_use]
    pub fn id(&self) -> &'static str {
        match self {
            Self::Cpu(implementation) => implementation.id,
            Self::Gpu(kernel) => kernel.spec().id,
        }
    }

    /// What it does, in one line.
    #[must_use]
    pub fn about(&self) -> &'static str {
        match self {
            Self::Cpu(implementation) => implementation.about,
            Self::Gpu(kernel) => kernel.spec().about,
        }
    }

    /// The document that the scheme comes from.
    #[must_use]
    pub fn origin(&self) -> &'static str {
        match self {
            Self::Cpu(implementation) => implementation.origin,
            Self::Gpu(kernel) => kernel.spec().origin,
        }
    }

    /// Whether it runs on a GPU.
    #[must_use]
    pub fn on_gpu(&self) -> bool {
        matches!(self, Self::Gpu(_))
    }

    /// Whether it runs only where it is named.
    #[must_use]
    pub fn study(&self) -> bool {
        matches!(self, Self::Cpu(implementation) if implementation.study)
    }

    /// CPU threads that it uses, of those there are; `None` where it runs on a GPU.
    #[must_use]
    pub fn threads(&self, threads: usize) -> Option<usize> {
        match self {
            Self::Cpu(implementation) if implementation.parallel => Some(threads),
            Self::Cpu(_) => Some(1),
            Self::Gpu(_) => None,
        }
    }

    /// Whether it multiplies elements of this type, on this machine if it runs on the CPU.
    #[must_use]
    pub fn has(&self, types: Types) -> bool {
        match self {
            Self::Cpu(implementation) => implementation.runs(types).is_ok(),
            Self::Gpu(spec) => spec.entry(types).is_ok(),
        }
    }
}

/// Every implementation, in the order of the ladder: CPU first, then GPU.
pub fn all() -> impl Iterator<Item = Implementation> {
    let cpu = CPU.iter().copied().map(Implementation::Cpu);
    cpu.chain(KERNELS.iter().copied().map(Implementation::Gpu))
}

/// The implementation of that exact name.
///
/// # Errors
/// [`Error::UnknownKernel`] with the nearest name.
pub fn find(name: &str) -> Result<Implementation, Error> {
    all().find(|implementation| implementation.id() == name).ok_or_else(|| unknown(name))
}

/// The implementations that a list of patterns selects, in registry order.
///
/// Patterns are separated by commas; `*` and `?` stand for any text and any character; `!` in front
/// takes away. Without a pattern that adds, all but the studies are taken first.
///
/// # Errors
/// [`Error::UnknownKernel`] where a pattern matches nothing, so that a slip is not silent.
pub fn select(patterns: &str) -> Result<Vec<Implementation>, Error> {
    let patterns: Vec<&str> =
        patterns.split(',').map(str::trim).filter(|pattern| !pattern.is_empty()).collect();
    let mut matchers = Vec::with_capacity(patterns.len());
    for pattern in &patterns {
        let (add, text) = match pattern.strip_prefix('!') {
            Some(rest) => (false, rest),
            None => (true, *pattern),
        };
        let matcher = WildMatch::new(text);
        if !all().any(|implementation| matcher.matches(implementation.id())) {
            return Err(unknown(text));
        }
        matchers.push((add, matcher));
    }
    let adds = matchers.iter().any(|(add, _)| *add);
    Ok(all()
        .filter(|implementation| {
            let first = !adds && !implementation.study();
            matchers.iter().fold(first, |taken, (add, matcher)| {
                if matcher.matches(implementation.id()) { *add } else { taken }
            })
        })
        .collect())
}

fn unknown(name: &str) -> Error {
    let nearest = all()
        .map(|implementation| implementation.id())
        .map(|id| (strsim::damerau_levenshtein(name, id), id))
        .min();
    let hint = match nearest {
        Some((distance, id)) if distance <= name.len().max(3) / 2 => {
            format!("did you mean `{id}`? `tessera list` shows all")
        }
        _ => "`tessera list` shows all".to_owned(),
    };
    Error::UnknownKernel { name: name.to_owned(), hint }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn ids(patterns: &str) -> Vec<&'static str> {
        select(patterns).unwrap().iter().map(Implementation::id).collect()
    }

    #[test]
    fn ids_are_unique_across_cpu_and_gpu() {
        let mut seen = HashSet::new();
        assert!(all().all(|implementation| seen.insert(implementation.id())));
        assert_eq!(all().next().map(|first| first.id()), Some("serial"));
    }

    #[test]
    fn patterns_add_and_take_away_in_registry_order() {
        let by_default = all().filter(|implementation| !implementation.study()).count();
        assert_eq!(ids("").len(), by_default);
        assert_eq!(ids("naive,serial"), ["serial", "naive"]);
        assert_eq!(ids("tiled*,!tiled?"), ["tiled16", "tiled32"]);
        assert!(!ids("!serial").contains(&"serial"));
        assert_eq!(ids("!serial").len(), by_default - 1);
    }

    #[test]
    fn a_study_runs_where_it_is_named() {
        assert!(!ids("").contains(&"loop_order") && !ids("!serial").contains(&"loop_order"));
        assert_eq!(ids("loop_order,serial"), ["serial", "loop_order"]);
        assert_eq!(ids("*").len(), all().count());
    }

    #[test]
    fn a_slip_names_the_nearest() {
        let error = select("tilde32").err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("`tilde32`") && error.contains("`tiled32`"), "{error}");
        assert!(select("serial,!nope").is_err());
        assert!(find("tiled*").is_err());
    }
}
