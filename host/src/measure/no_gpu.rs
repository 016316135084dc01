//! Why a GPU kernel does not run where there is no GPU, or none is wanted.

use crate::error::Error;

/// What [`tessera::Error::NoDevice`] begins with.
pub(crate) const NO_DEVICE: &str = "no CUDA device: ";
/// What the reason ends with where the user wants no GPU.
const STAY: &str = "told to stay on the CPU";
/// Longer reasons why there is no GPU are cut at their first colon.
const CLAUSE: usize = 60;

/// Why there is no GPU, without the loader's answers and the remedy: it stands in every row of a sweep.
/// `tessera devices` shows all of it.
pub(crate) fn without_gpu(error: &Error) -> String {
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

/// Whether a reason holds for every GPU kernel at every size.
pub(crate) fn about_no_gpu(reason: &str) -> bool {
    reason.starts_with(NO_DEVICE) || reason.ends_with(STAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_DRIVER: &str = "no CUDA device: no NVIDIA driver";

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
}
