//! GPUs as numbers: what each generation allows and could do at most, from one table with sources.
//!
//! The arithmetic on them is pure, so that a machine without a GPU does the sums for any card.

mod chart;
mod device;
mod roofline;
mod tile;

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

pub use chart::{Mark, draw};
pub use device::this;
pub use roofline::{Bound, Limit, Loads, Roofline};
pub use tile::{Full, Illegal, Tile, WIDEST, largest_legal};

use crate::error::Error;

/// A GPU, as the sums need it. All rates are of f32.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// Its name on the command line.
    pub id: String,
    /// The board whose figures these are.
    pub board: String,
    /// Generation, and chip.
    pub generation: String,
    /// Compute capability, as `9.0`.
    pub compute_capability: String,
    /// SMs.
    pub multiprocessors: u32,
    /// Multiply-adds that an SM completes in a clock.
    pub lanes: u32,
    /// Clock of the lanes in MHz.
    pub clock_mhz: u32,
    /// Bandwidth of the memory in 10⁹ bytes a second.
    pub bandwidth_gbs: f64,
    /// The peak that the source names, where there is one.
    pub published_gflops: Option<f64>,
    /// Most threads of a block.
    pub threads_per_block: u32,
    /// Most threads on an SM.
    pub threads_per_sm: u32,
    /// Most blocks on an SM.
    pub blocks_per_sm: u32,
    /// Bytes of shared memory on an SM.
    pub shared_per_sm: u32,
    /// Most bytes of shared memory of a block.
    pub shared_per_block: u32,
    /// Bytes of shared memory that the system keeps of each block.
    pub shared_reserved: u32,
    /// Where the board's figures come from.
    pub board_source: String,
    /// Where the limits come from.
    pub limits_source: String,
}

static CARDS: LazyLock<Vec<Card>> = LazyLock::new(|| {
    let mut reader = csv::Reader::from_reader(include_bytes!("cards.csv").as_slice());
    reader.deserialize().filter_map(Result::ok).collect()
});

/// Every card of the table, the oldest first.
#[must_use]
pub fn cards() -> &'static [Card] {
    &CARDS
}

/// The card of that name.
///
/// # Errors
/// [`Error::UnknownCard`] with the names there are.
pub fn find(name: &str) -> Result<&'static Card, Error> {
    let lower = name.to_lowercase();
    cards().iter().find(|card| card.id == lower).ok_or_else(|| {
        let names: Vec<&str> = cards().iter().map(|card| card.id.as_str()).collect();
        Error::UnknownCard { name: name.to_owned(), names: names.join(", ") }
    })
}

impl Card {
    /// Operations a second of all lanes, in 10⁹: a multiply-add is two.
    #[must_use]
    pub fn peak_gflops(&self) -> f64 {
        let lanes = f64::from(self.multiprocessors) * f64::from(self.lanes);
        2.0 * lanes * f64::from(self.clock_mhz) / 1e3
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_line_of_the_table_is_read_and_names_its_sources() {
        assert_eq!(cards().len(), include_str!("cards.csv").lines().count() - 1);
        let mut ids = HashSet::new();
        for card in cards() {
            assert!(ids.insert(&card.id), "{} is there twice", card.id);
            assert!(!card.board_source.is_empty() && !card.limits_source.is_empty(), "{}", card.id);
            assert!(card.shared_per_block + card.shared_reserved <= card.shared_per_sm);
            assert!(card.threads_per_block <= card.threads_per_sm, "{}", card.id);
            assert_eq!(find(&card.id.to_uppercase()).ok(), Some(card));
        }
    }

    /// Lanes, SMs and clock must give what the source calls the peak.
    #[test]
    fn peaks_follow_from_the_units() {
        for card in cards() {
            let published = card.published_gflops.unwrap();
            let ratio = card.peak_gflops() / published;
            assert!((0.99..1.01).contains(&ratio), "{}: {} {ratio}", card.id, card.peak_gflops());
        }
        // The lecture notes print 346.5.
        assert_eq!(find("g80").unwrap().peak_gflops(), 345.6);
    }

    #[test]
    fn the_notes_slips_on_limits_come_out_right() {
        let threads = |id| find(id).unwrap().threads_per_block;
        assert_eq!((threads("g80"), threads("gt200"), threads("fermi")), (512, 512, 1024));
        assert_eq!(threads("kepler"), 1024, "the notes say 1025, and that it is doubtful");
        // The blog entry of 2010 says 64 KB.
        assert_eq!(find("gt200").unwrap().shared_per_sm, 16 << 10);
    }

    #[test]
    fn an_unknown_card_names_those_there_are() {
        let said = find("voodoo").unwrap_err().to_string();
        assert!(
            said.contains("`voodoo`") && said.contains("g80, gt200") && said.contains("this"),
            "{said}"
        );
    }
}
