//! Implementations that have no row: one line for each reason.

use crate::measure::{NO_DEVICE, Skipped, about_no_gpu};

/// Up to this many GPU kernels are named where there is no GPU; more are counted.
const NAMED: usize = 3;
/// Implementations, each with the places at which it was skipped.
type Kernels<'s> = Vec<(&'s str, Vec<String>)>;

/// A line for each reason, with the sizes at which implementations were skipped for it.
pub(crate) fn lines(skipped: &[Skipped]) -> Vec<String> {
    let mut reasons: Vec<(&str, Kernels<'_>)> = Vec::new();
    for Skipped { kernel, size, reason } in skipped {
        let place = size.map(|[m, n, k]| format!("{m} x {n} x {k}"));
        let at = reasons.iter().position(|(other, _)| *other == reason).unwrap_or_else(|| {
            reasons.push((reason, Vec::new()));
            reasons.len() - 1
        });
        let kernels = &mut reasons[at].1;
        match kernels.iter_mut().find(|(other, _)| *other == kernel) {
            Some((_, places)) => places.extend(place),
            None => kernels.push((kernel, Vec::from_iter(place))),
        }
    }
    let line = |(reason, kernels): (&str, Kernels<'_>)| {
        if about_no_gpu(reason) {
            let kernels: Vec<&str> = kernels.iter().map(|(kernel, _)| *kernel).collect();
            return vec![skip(&kernels, reason)];
        }
        // Kernels skipped at the same places share a line.
        let mut groups: Vec<(Vec<String>, Vec<&str>)> = Vec::new();
        for (kernel, places) in kernels {
            match groups.iter_mut().find(|(other, _)| *other == places) {
                Some((_, kernels)) => kernels.push(kernel),
                None => groups.push((places, vec![kernel])),
            }
        }
        let said = |(places, kernels): (Vec<String>, Vec<&str>)| match &places[..] {
            [] => skip(&kernels, reason),
            [one] => skip_at(&kernels, one, reason),
            [first, ..] => {
                skip_at(&kernels, &format!("{} sizes, the first {first}", places.len()), reason)
            }
        };
        groups.into_iter().map(said).collect::<Vec<_>>()
    };
    reasons.into_iter().flat_map(line).collect()
}

/// What is skipped everywhere.
pub(crate) fn skip(kernels: &[&str], reason: &str) -> String {
    let (who, reason) = words(kernels, reason);
    format!("skipped {who}: {reason}")
}

/// What is skipped at a place.
pub(crate) fn skip_at(kernels: &[&str], place: &str, reason: &str) -> String {
    let (who, reason) = words(kernels, reason);
    format!("skipped {who} at {place}: {reason}")
}

/// The implementations, counted where they are many GPU kernels and there is no GPU, and the reason.
fn words(kernels: &[&str], reason: &str) -> (String, String) {
    let who = if about_no_gpu(reason) && kernels.len() > NAMED {
        format!("{} GPU kernels", kernels.len())
    } else {
        kernels.join(", ")
    };
    let why = match reason.strip_prefix(NO_DEVICE) {
        Some(short) => format!("{short} (`tessera devices` says more)"),
        None => reason.to_owned(),
    };
    (who, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_DRIVER: &str = "no CUDA device: no NVIDIA driver";

    /// What is said of implementations, each skipped at a cube of that edge or at all.
    fn said(skipped: &[(&str, Option<usize>, &str)]) -> Vec<String> {
        let one = |(kernel, edge, reason): &(&str, Option<usize>, &str)| Skipped {
            kernel: (*kernel).to_owned(),
            size: edge.map(|edge| [edge; 3]),
            reason: (*reason).to_owned(),
        };
        lines(&skipped.iter().map(one).collect::<Vec<_>>())
    }

    #[test]
    fn many_kernels_without_a_gpu_are_one_short_line() {
        let kernels = ["naive", "tiled2", "tiled4", "tiled8"];
        let sizes = [Some(512), Some(1024)];
        let all: Vec<_> =
            sizes.into_iter().flat_map(|at| kernels.map(|one| (one, at, NO_DRIVER))).collect();
        let line = "skipped 4 GPU kernels: no NVIDIA driver (`tessera devices` says more)";
        assert_eq!(said(&all), [line]);
        let told = "the run was told to stay on the CPU";
        assert_eq!(
            said(&kernels.map(|one| (one, None, told))),
            ["skipped 4 GPU kernels: the run was told to stay on the CPU"]
        );
        assert_eq!(
            said(&all[..2]),
            ["skipped naive, tiled2: no NVIDIA driver (`tessera devices` says more)"]
        );
    }

    #[test]
    fn other_reasons_name_their_kernels_and_sizes() {
        let none = "has no f32 entry";
        assert_eq!(
            said(&[
                ("a", None, none),
                ("b", None, none),
                ("c", Some(8), "too large"),
                ("c", Some(9), "too large"),
                ("d", Some(8), "too large"),
            ]),
            [
                "skipped a, b: has no f32 entry",
                "skipped c at 2 sizes, the first 8 x 8 x 8: too large",
                "skipped d at 8 x 8 x 8: too large",
            ]
        );
    }
}
