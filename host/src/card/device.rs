//! The GPU at hand as a card, from its own attributes.

use gemm_spec::Types;

use super::Card;
use crate::bench::peak::lanes;
use crate::error::Error;
use crate::gpu::{self, Capacity, DeviceInfo};

/// The GPU of that number.
///
/// # Errors
/// [`tessera::Error::NoDevice`] and [`tessera::Error::NoSuchDevice`] where it is not there, [`Error::UnknownPeak`] where
/// its generation is newer than this program or its driver hides the memory's clock.
pub fn this(index: u32) -> Result<Card, Error> {
    let capacity = gpu::capacity(index)?;
    let devices = gpu::devices()?;
    let info = devices.into_iter().find(|info| info.index == index);
    let count = index;
    let info = info.ok_or(tessera::Error::NoSuchDevice { index, count })?;
    card(&info, capacity)
}

fn card(info: &DeviceInfo, capacity: Capacity) -> Result<Card, Error> {
    let (major, minor) = info.compute_capability;
    let unknown =
        |what: &str| Error::UnknownPeak { name: info.name.clone(), what: what.to_owned() };
    let lanes = lanes(info.compute_capability, Types::F32)
        .ok_or_else(|| unknown(&format!("the width of compute capability {major}.{minor}")))?;
    if capacity.memory_khz == 0 || capacity.bus_bits == 0 {
        return Err(unknown("the clock of its memory"));
    }
    // Both edges of the memory's clock carry a bit on each line of the bus.
    let bytes = 2.0 * f64::from(capacity.memory_khz) * 1e3 * f64::from(capacity.bus_bits) / 8.0;
    Ok(Card {
        id: "this".to_owned(),
        board: info.name.clone(),
        generation: format!("cuda:{}", info.index),
        compute_capability: format!("{major}.{minor}"),
        multiprocessors: info.multiprocessors,
        lanes,
        clock_mhz: info.clock_mhz,
        bandwidth_gbs: bytes / 1e9,
        published_gflops: None,
        threads_per_block: capacity.threads_per_block,
        threads_per_sm: capacity.threads_per_sm,
        blocks_per_sm: capacity.blocks_per_sm,
        shared_per_sm: capacity.shared_per_sm,
        shared_per_block: info.shared_bytes_per_block,
        shared_reserved: capacity.shared_reserved,
        board_source: "the driver; lanes from the CUDA C++ Programming Guide".to_owned(),
        limits_source: "the driver".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::{Tile, find, largest_legal};

    /// What the driver says of an H200.
    fn h200() -> (DeviceInfo, Capacity) {
        let info = DeviceInfo {
            index: 0,
            name: "NVIDIA H200".to_owned(),
            compute_capability: (9, 0),
            multiprocessors: 132,
            clock_mhz: 1980,
            memory_bytes: 0,
            l2_bytes: 0,
            shared_bytes_per_block: 232_448,
        };
        let capacity = Capacity {
            threads_per_block: 1024,
            threads_per_sm: 2048,
            blocks_per_sm: 32,
            shared_per_sm: 233_472,
            shared_reserved: 1024,
            memory_khz: 3_201_000,
            bus_bits: 6144,
        };
        (info, capacity)
    }

    #[test]
    fn a_device_gives_the_sums_of_its_card() {
        let (info, capacity) = h200();
        let (here, table) = (card(&info, capacity).unwrap(), find("h200").unwrap());
        assert_eq!(here.peak_gflops(), table.peak_gflops());
        assert!((here.bandwidth_gbs / table.bandwidth_gbs - 1.0).abs() < 0.03, "{here:?}");
        for width in [2, 16, 32, 64] {
            assert_eq!(Tile::new(&here, width), Tile::new(table, width));
        }
        assert_eq!(largest_legal(&here), largest_legal(table));
    }

    #[test]
    fn what_the_driver_hides_is_named() {
        let (info, capacity) = h200();
        let said = |info, capacity| card(&info, capacity).unwrap_err().to_string();
        let dark = Capacity { memory_khz: 0, ..capacity };
        assert!(said(info.clone(), dark).contains("clock of its memory"));
        let newer = DeviceInfo { compute_capability: (42, 0), ..info };
        assert!(said(newer, capacity).contains("compute capability 42.0"));
    }
}
