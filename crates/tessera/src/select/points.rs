//! What was measured at some sizes, and what holds between them.

/// A size, and what was measured at it.
pub(super) type Point = (f64, f64);

/// Whether a number can be a size, a time or a rate.
pub(super) fn is_positive(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// Raises times, given from the smallest size on, to the longest before them: a larger size takes no less
/// time, whatever a disturbed measurement says.
pub(super) fn raise<'s>(seconds: impl IntoIterator<Item = &'s mut f64>) {
    let mut longest = 0.0;
    for seconds in seconds {
        longest = f64::max(longest, *seconds);
        *seconds = longest;
    }
}

/// The neighbours of a size among points of ascending sizes: the last that is not larger, and the first
/// that is.
pub(super) fn around(points: &[Point], size: f64) -> (Option<Point>, Option<Point>) {
    let above = points.partition_point(|point| point.0 <= size);
    let below = above.checked_sub(1).map(|below| points[below]);
    (below, points.get(above).copied())
}

/// What holds at a size between two points: in proportion, in the logarithms.
pub(super) fn between((from, low): Point, (to, high): Point, size: f64) -> f64 {
    low * (high / low).powf((size / from).ln() / (to / from).ln())
}
