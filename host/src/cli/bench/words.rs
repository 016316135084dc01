//! The values that a benchmark alone takes, and how they are read.

use std::time::Duration;

use crate::bench::Cache;
use crate::cli::values;

/// Warm or cold caches.
pub(super) fn cache(text: &str) -> Result<Cache, String> {
    match text {
        "warm" => Ok(Cache::Warm),
        "cold" => Ok(Cache::Cold),
        _ => Err(format!("`{text}` is none of warm, cold")),
    }
}

/// m, n and k.
pub(super) fn shape(text: &str) -> Result<[usize; 3], String> {
    let sizes =
        text.split(',').map(|size| values::size(size.trim())).collect::<Result<Vec<_>, _>>()?;
    sizes.try_into().map_err(|_| format!("`{text}` is no shape: three sizes m,n,k"))
}

/// Ragged shapes, at most: what takes a second each takes hours.
const MOST_RAGGED: usize = 10_000;

/// How many shapes of the list.
pub(super) fn ragged_count(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|count| *count <= MOST_RAGGED)
        .ok_or_else(|| format!("a number of shapes is a whole number from 0 to {MOST_RAGGED}"))
}

/// Seconds from 0 on.
pub(super) fn patience(text: &str) -> Result<Duration, String> {
    text.parse::<f64>()
        .ok()
        .filter(|seconds| *seconds <= values::MOST_SECONDS)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| {
            format!("a wait is a number of seconds, 0 or more and up to {:e}", values::MOST_SECONDS)
        })
}

/// A share above 0 and up to 1, typed in percent.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|percent| *percent > 0.0 && *percent <= 100.0)
        .map(|percent| percent / 100.0)
        .ok_or_else(|| "a spread is a number of percent above 0 and up to 100".to_owned())
}
