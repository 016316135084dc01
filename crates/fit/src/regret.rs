//! What the choice of a kernel costs: the time of the one that is chosen over the fastest one's.

use std::collections::BTreeMap;

use gemm_spec::Types;
use tessera::select::DeviceModel;

use super::Row;

/// Of the products of one type that several kernels were measured with.
pub(super) struct Regret {
    pub(super) products: usize,
    /// The geometric mean of the chosen kernel's time over the fastest one's.
    pub(super) mean: f64,
    pub(super) worst: Worst,
}

/// The product whose chosen kernel is the slowest beside the fastest.
#[derive(Clone, Copy)]
pub(super) struct Worst {
    pub(super) factor: f64,
    /// m, n and k.
    pub(super) sizes: [usize; 3],
    pub(super) chosen: &'static str,
    pub(super) fastest: &'static str,
}

/// What the model's choice among the kernels that were measured costs, by the name of the element type.
pub(super) fn of(model: &DeviceModel, rows: &[Row]) -> BTreeMap<&'static str, Regret> {
    let mut products: BTreeMap<_, (Types, Vec<&Row>)> = BTreeMap::new();
    for row in rows {
        let key = (row.types.name(), row.sizes);
        products.entry(key).or_insert_with(|| (row.types, Vec::new())).1.push(row);
    }
    let mut regrets: BTreeMap<&'static str, Vec<Worst>> = BTreeMap::new();
    for ((name, sizes), (types, rows)) in products {
        let seconds = |id: &str| {
            let times = rows.iter().filter(|row| row.spec.id == id).map(|row| row.seconds);
            times.min_by(f64::total_cmp)
        };
        let chosen = model.best_where(types, sizes, |kernel| seconds(kernel.id).is_some());
        let fastest = rows.iter().min_by(|one, other| one.seconds.total_cmp(&other.seconds));
        let (Some(chosen), Some(fastest)) = (chosen, fastest) else { continue };
        if rows.iter().all(|row| row.spec.id == fastest.spec.id) {
            continue;
        }
        let Some(took) = seconds(chosen.id) else { continue };
        let factor = took / fastest.seconds;
        let worst = Worst { factor, sizes, chosen: chosen.id, fastest: fastest.spec.id };
        regrets.entry(name).or_default().push(worst);
    }
    let summary = |(name, products): (&'static str, Vec<Worst>)| {
        let worst = *products.iter().max_by(|a, b| a.factor.total_cmp(&b.factor))?;
        let logarithms: f64 = products.iter().map(|product| product.factor.ln()).sum();
        let mean = (logarithms / products.len() as f64).exp();
        Some((name, Regret { products: products.len(), mean, worst }))
    };
    regrets.into_iter().filter_map(summary).collect()
}

#[cfg(test)]
mod tests {
    use gemm_spec::DeviceLimits;
    use kernels_gpu::Kernel;

    use super::*;

    #[test]
    fn a_choice_costs_the_time_beyond_the_fastest_one_s() {
        let limits = DeviceLimits {
            compute_capability: (9, 0),
            max_threads_per_block: 1024,
            max_shared_bytes: 227 * 1024,
            multiprocessors: 132,
        };
        let model = DeviceModel::new(limits, 1980);
        let sizes = [8192; 3];
        let row = |kernel: &str, seconds| {
            let spec = Kernel::named(kernel).unwrap().spec();
            Row { spec, types: Types::F32, sizes, ranges: 1, seconds }
        };
        // The small tile is never the choice there.
        let rows = [row("async_copy_32x64", 2.0), row("async_copy_128x256", 3.0)];
        let regret = &of(&model, &rows)["f32"];
        assert_eq!((regret.products, regret.worst.sizes), (1, sizes));
        assert_eq!(regret.worst.chosen, "async_copy_128x256");
        assert!((regret.mean - 1.5).abs() < 1e-9 && regret.worst.factor == 1.5);
        // One kernel alone is no choice.
        assert!(of(&model, &rows[..1]).is_empty());
    }
}
