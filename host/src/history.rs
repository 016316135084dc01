//! The seeds' own figures, kept as data beside today's.

/// What a seed document measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The implementation here that does the same.
    pub kernel: &'static str,
    /// Size of the square product.
    pub n: usize,
    /// Seconds, as printed there.
    pub seconds: f64,
    /// Whether the text says "over".
    pub at_least: bool,
    /// The machine.
    pub machine: &'static str,
    /// The document.
    pub source: &'static str,
}

const HELLO: &str = "Hello World of parallel programming";
const I7: &str = "Intel i7 1.7 GHz";
const GTX460M: &str = "GTX 460M 1.5 GB";

const fn figure(
    kernel: &'static str,
    n: usize,
    seconds: f64,
    at_least: bool,
    machine: &'static str,
) -> Figure {
    Figure { kernel, n, seconds, at_least, machine, source: HELLO }
}

/// Every figure, all f32.
pub const FIGURES: &[Figure] = &[
    figure("serial", 1024, 9.0, true, I7),
    figure("mutex_queue", 1024, 3.74, false, "Intel i7 1.7 GHz, 5 threads"),
    figure("naive", 1024, 0.24, false, GTX460M),
    figure("serial", 10_240, 24_881.302, false, I7),
    figure("mutex_queue", 10_240, 7_801.511, false, "Intel i7 1.7 GHz, threads"),
    figure("naive", 10_240, 134.222, false, GTX460M),
    figure("tiled32", 10_240, 57.002, false, GTX460M),
];

/// A rate that the seeds give for a card.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// The implementation here that does the same.
    pub kernel: &'static str,
    /// 10⁹ operations a second.
    pub gflops: f64,
    /// Whether transfers are in it.
    pub transfers: bool,
    /// The document.
    pub source: &'static str,
}

/// What the seeds measured on a card of the table in `card/cards.csv`.
#[must_use]
pub fn rates(card: &str) -> Vec<Rate> {
    match card {
        // The notes say that their first sum is 21.6 and that the code reaches 15.
        "g80" => {
            let source = "lecture notes";
            vec![Rate { kernel: "naive", gflops: 15.0, transfers: false, source }]
        }
        "gtx460m" => FIGURES
            .iter()
            .filter(|figure| figure.machine == GTX460M && figure.n == 10_240)
            .map(|figure| Rate {
                kernel: figure.kernel,
                gflops: 2.0 * (figure.n as f64).powi(3) / figure.seconds / 1e9,
                transfers: true,
                source: figure.source,
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// The seeds' figure for a square f32 product by this implementation, if they have one.
#[must_use]
pub fn then(kernel: &str, m: usize, n: usize, k: usize) -> Option<&'static Figure> {
    FIGURES
        .iter()
        .find(|figure| figure.kernel == kernel && figure.n == n && figure.n == m && figure.n == k)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;
    use crate::report::duration::{hours, minutes};

    #[test]
    fn figures_belong_to_implementations_that_exist() {
        for figure in FIGURES {
            assert!(registry::find(figure.kernel).is_ok(), "{}", figure.kernel);
            assert_eq!(then(figure.kernel, figure.n, figure.n, figure.n), Some(figure));
        }
        assert_eq!(then("serial", 1024, 1024, 1000), None);
    }

    #[test]
    fn rates_follow_from_the_figures() {
        let rates: Vec<_> = rates("gtx460m").iter().map(|r| (r.kernel, r.gflops.round())).collect();
        assert_eq!(rates, [("naive", 16.0), ("tiled32", 38.0)]);
        assert_eq!(super::rates("g80")[0].gflops, 15.0);
        assert!(super::rates("h200").is_empty());
    }

    /// The printed table has 414.683 minutes and 0.015 hours; its own seconds say otherwise.
    #[test]
    fn the_seeds_table_is_converted_right() {
        let seconds = |kernel| then(kernel, 10_240, 10_240, 10_240).map(|figure| figure.seconds);
        assert_eq!(seconds("serial").map(minutes).as_deref(), Some("414.688"));
        assert_eq!(seconds("serial").map(hours).as_deref(), Some("6.911"));
        assert_eq!(seconds("tiled32").map(minutes).as_deref(), Some("0.950"));
        assert_eq!(seconds("tiled32").map(hours).as_deref(), Some("0.016"));
        let factor = 24_881.302 / 57.002;
        assert_eq!(format!("{factor:.1}"), "436.5", "the text says roughly 436");
    }
}
