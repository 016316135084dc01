//! Measured times, from the records of the program.

use anyhow::{Context as _, Result, bail};
use gemm_spec::{KernelSpec, Types};
use kernels_gpu::Kernel;
use serde_json::Value;
use tessera::select::DeviceModel;

/// One measured time of a kernel, operands being on the device.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) spec: &'static KernelSpec,
    pub(super) types: Types,
    /// m, n and k.
    pub(super) sizes: [usize; 3],
    /// In how many ranges of k.
    pub(super) ranges: u32,
    pub(super) seconds: f64,
}

/// The times of a record: of `tessera sweep` where it begins with its settings, else of `tessera bench`.
/// Those of anything but a kernel are left out. Where a record does not say in how many ranges k was
/// summed, it is in those that the model chooses.
pub(super) fn read(text: &str, model: &DeviceModel) -> Result<Vec<Row>> {
    match text.strip_prefix("# ") {
        Some(text) => sweep(text, model),
        None => bench(text, model),
    }
}

fn row(
    kernel: &str,
    types: Types,
    sizes: [usize; 3],
    seconds: f64,
    ranges: Option<u32>,
    model: &DeviceModel,
) -> Option<Row> {
    let spec = Kernel::named(kernel)?.spec();
    let ranges = ranges.unwrap_or_else(|| model.ranges_of(spec, types, sizes));
    let measured = seconds.is_finite() && seconds > 0.0;
    measured.then_some(Row { spec, types, sizes, ranges, seconds })
}

fn types(name: &str) -> Result<Types> {
    let found = Types::ALL.into_iter().find(|types| types.name() == name);
    found.with_context(|| format!("`{name}` is no element type"))
}

fn sweep(text: &str, model: &DeviceModel) -> Result<Vec<Row>> {
    let (settings, table) = text.split_once('\n').context("it has no rows")?;
    let settings: Value = serde_json::from_str(settings).context("its settings are not JSON")?;
    let types = types(settings["dtype"].as_str().context("it does not say its element type")?)?;
    let mut lines = table.lines();
    let names: Vec<&str> = lines.next().context("it has no header")?.split(',').collect();
    let place = |name: &str| {
        names
            .iter()
            .position(|own| *own == name)
            .with_context(|| format!("it has no column {name}"))
    };
    let (n, kernel, seconds) = (place("n")?, place("kernel")?, place("kernel_seconds")?);
    let mut rows = Vec::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let [Some(n), Some(kernel), Some(seconds)] =
            [n, kernel, seconds].map(|place| cells.get(place))
        else {
            bail!("a row is short: {line}");
        };
        let Ok(seconds) = seconds.parse() else { continue };
        let n = n.parse().with_context(|| format!("a row has no size: {line}"))?;
        rows.extend(row(kernel, types, [n; 3], seconds, None, model));
    }
    Ok(rows)
}

fn bench(text: &str, model: &DeviceModel) -> Result<Vec<Row>> {
    let record: Value = serde_json::from_str(text).context("it is neither JSON nor a sweep")?;
    let mut rows = Vec::new();
    for own in record["rows"].as_array().context("it has no rows")? {
        let on_gpu = own["device"].as_str().is_some_and(|device| device.starts_with("cuda"));
        let kernel = own["chosen"].as_str().or_else(|| own["kernel"].as_str());
        let (true, Some(kernel), Some(seconds)) =
            (on_gpu, kernel, own["seconds"]["median"].as_f64())
        else {
            continue;
        };
        let size = |name: &str| {
            let size = own[name].as_u64().and_then(|size| usize::try_from(size).ok());
            size.with_context(|| format!("a row has no {name}"))
        };
        let types = types(own["dtype"].as_str().context("a row has no element type")?)?;
        let sizes = [size("m")?, size("n")?, size("k")?];
        let ranges = own["ranges"].as_u64().and_then(|ranges| u32::try_from(ranges).ok());
        rows.extend(row(kernel, types, sizes, seconds, ranges, model));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use gemm_spec::DeviceLimits;

    use super::*;

    fn model() -> DeviceModel {
        let limits = DeviceLimits {
            compute_capability: (9, 0),
            max_threads_per_block: 1024,
            max_shared_bytes: 227 * 1024,
            multiprocessors: 132,
        };
        DeviceModel::new(limits, 1980)
    }

    #[test]
    fn a_sweep_has_the_times_of_its_kernels() {
        let text = "# {\"dtype\":\"f32\"}\nn,kernel,seconds,kernel_seconds\n64,serial,1e-3,\n\
                    64,naive,1e-3,2e-5\n256,split_k_32x64,1e-3,1e-5\n";
        let rows = read(text, &model()).unwrap();
        let found: Vec<_> = rows.iter().map(|row| (row.spec.id, row.sizes, row.seconds)).collect();
        assert_eq!(found, [("naive", [64; 3], 2e-5), ("split_k_32x64", [256; 3], 1e-5)]);
        assert!(rows[0].ranges == 1 && rows[1].ranges > 1);
    }

    #[test]
    fn a_bench_has_the_times_of_kernels_that_were_named_or_chosen() {
        let row = |rest: &str| format!("{{\"m\":5,\"n\":6,\"k\":7,\"dtype\":\"f32\",{rest}}}");
        let text = format!(
            "{{\"rows\":[{},{},{},{}]}}",
            row(
                "\"kernel\":\"auto\",\"chosen\":\"small_m\",\"device\":\"cuda:0\",\"seconds\":{\"median\":1e-5}"
            ),
            row(
                "\"kernel\":\"cublas\",\"chosen\":null,\"device\":\"cuda:0\",\"seconds\":{\"median\":1e-5}"
            ),
            row(
                "\"kernel\":\"serial\",\"chosen\":null,\"device\":\"cpu\",\"seconds\":{\"median\":1e-5}"
            ),
            row(
                "\"kernel\":\"split_k_32x64\",\"device\":\"cuda:0\",\"ranges\":9,\"seconds\":{\"median\":1e-5}"
            ),
        );
        let rows = read(&text, &model()).unwrap();
        let found: Vec<_> = rows.iter().map(|row| (row.spec.id, row.ranges)).collect();
        assert_eq!(found, [("small_m", 1), ("split_k_32x64", 9)]);
        assert_eq!(rows[0].sizes, [5, 6, 7]);
        assert!(read("[]", &model()).is_err() && read("# x\n", &model()).is_err());
    }
}
