//! Implementations that have no row: one line for each reason.

use crate::measure::Skipped;

/// What [`tessera::Error::NoDevice`] begins with.
const NO_DEVICE: &str = "no CUDA device: ";
/// What the reason ends with where the user wants no GPU.
const STAY: &str = "told to stay on the CPU";
/// Up to so many GPU kernels are named where there is no GPU; more are counted.
const NAMED: usize = 3;
/// Longer reasons why there is no GPU are cut at their first colon.
const CLAUSE: usize = 60;

/// Why there is no GPU, without the loader's answers and the remedy: it stands in every row of a sweep.
/// `tessera devices` shows all of it.
pub(crate) fn without_gpu(error: &crate::Error) -> String {
    let text = error.to_string();
    let Some(reason) = text.strip_prefix(NO_DEVICE) else { return text };
    if reason.ends_with(STAY) {
        return reason.to_owned();
    }
    let clause = reason.split("; ").next().unwrap_or(reason);
    let short = match clause.split_once(": ") {
        Some((first, _)) if clause.len() > CLAUSE => first,
        _ => clause,
    };
    format!("{NO_DEVICE}{short}")
}

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

/// Whether a reason holds for every GPU kernel at every size.
fn about_no_gpu(reason: &str) -> bool {
    reason.starts_with(NO_DEVICE) || reason.ends_with(STAY)
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
    use crate::Error;

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
    fn the_reason_without_a_gpu_is_one_clause() {
        let no_device = |reason: &str| Error::no_device(reason.to_owned());
        let tried = "no NVIDIA driver: tried libcuda.so.1 (cannot open shared object file: No such file \
                     or directory), libcuda.so (cannot open it); install an NVIDIA driver";
        assert_eq!(without_gpu(&no_device(tried)), NO_DRIVER);
        let named = "TESSERA_LIBCUDA names a library that does not open: /x (/x: cannot open it); correct it";
        assert_eq!(
            without_gpu(&no_device(named)),
            "no CUDA device: TESSERA_LIBCUDA names a library that does not open"
        );
        let none =
            "the driver shows none with CUDA_VISIBLE_DEVICES=``; unset it to see all of them";
        assert_eq!(
            without_gpu(&no_device(none)),
            "no CUDA device: the driver shows none with CUDA_VISIBLE_DEVICES=``"
        );
        let told = "the run was told to stay on the CPU";
        assert_eq!(without_gpu(&no_device(told)), told);
        let other = Error::Peer { reason: "it: is; other".to_owned() };
        assert_eq!(without_gpu(&other), "it: is; other");
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
