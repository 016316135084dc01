//! What a GPU's arithmetic units could do at most.

use gemm_spec::{AccType, Arch, KernelSpec, Numerics, Types};

use crate::device_info::DeviceInfo;

/// Fused multiply-adds that one SM completes in a clock: f32, f64, i32.
///
/// Source: CUDA C++ Programming Guide, table "Throughput of Native Arithmetic Instructions".
const PER_CLOCK: &[((u32, u32), [u32; 3])] = &[
    ((7, 0), [64, 32, 64]),
    ((7, 5), [64, 2, 64]),
    ((8, 0), [64, 32, 64]),
    ((8, 6), [128, 2, 64]),
    ((8, 9), [128, 2, 64]),
    ((9, 0), [128, 64, 64]),
    ((10, 0), [128, 64, 64]),
    ((12, 0), [128, 2, 64]),
];

/// How many times as fast as the FP64 units the tensor cores of an A100 or H100 multiply f64.
///
/// Source: their data sheets.
const F64_ON_TENSOR_CORES: f64 = 2.0;

/// Operations a second of the units that multiply and add elements of these types, at the highest
/// clock; `None` for a GPU that the table does not know.
///
/// It is the limit of kernels that use these units. Tensor cores have others.
#[must_use]
pub fn peak(gpu: &DeviceInfo, types: Types) -> Option<f64> {
    let lanes = lanes(gpu.compute_capability, types)?;
    let clock = f64::from(gpu.clock_mhz) * 1e6;
    Some(2.0 * f64::from(lanes) * f64::from(gpu.multiprocessors) * clock)
}

/// Multiply-adds that one SM completes in a clock, where the table knows it.
#[must_use]
pub fn lanes(compute_capability: (u32, u32), types: Types) -> Option<u32> {
    let (_, [f32, f64, i32]) =
        PER_CLOCK.iter().find(|(capability, _)| *capability == compute_capability)?;
    // Products of 16 bits are summed up by the units of f32.
    Some(match types.acc() {
        AccType::F32 => *f32,
        AccType::F64 => *f64,
        AccType::I32 => *i32,
    })
}

/// Operations a second that a library may reach, which takes tensor cores where they lose nothing: in
/// f64, and in the types of 16 bits. `None` for a GPU that the table does not know.
///
/// Source: the data sheets of A100 and H100.
#[must_use]
pub fn library_peak(gpu: &DeviceInfo, types: Types) -> Option<f64> {
    if types.a() != types.acc().dtype() {
        return tensor_peak(gpu);
    }
    let doubled = types.acc() == AccType::F64 && matches!(gpu.compute_capability, (8 | 9, 0));
    Some(peak(gpu, types)? * if doubled { F64_ON_TENSOR_CORES } else { 1.0 })
}

/// Multiply-adds of 16-bit elements with sums of f32 that the tensor cores of one SM complete
/// in a clock, where they are known.
///
/// Source: the data sheet of H100, 989.4e12 operations a second in f16 and in bf16 with 132
/// SMs at 1.83 GHz.
#[must_use]
pub fn tensor_lanes(compute_capability: (u32, u32)) -> Option<u32> {
    match compute_capability {
        (9, 0) => Some(2048),
        _ => None,
    }
}

/// Operations a second of the tensor cores on elements of 16 bits with sums of f32; `None` for a GPU
/// that the table does not know.
#[must_use]
pub fn tensor_peak(gpu: &DeviceInfo) -> Option<f64> {
    let per_clock = f64::from(tensor_lanes(gpu.compute_capability)?);
    let clock = f64::from(gpu.clock_mhz) * 1e6;
    Some(2.0 * per_clock * f64::from(gpu.multiprocessors) * clock)
}

/// Operations a second of an f32 product that takes that number of products of 16-bit numbers on the tensor cores;
/// `None` for a GPU that the table does not know.
#[must_use]
pub fn split_peak(gpu: &DeviceInfo, products: u32) -> Option<f64> {
    Some(tensor_peak(gpu)? / f64::from(products))
}

/// Operations a second of the units that a kernel multiplies with; `None` for a GPU that the tables do
/// not know.
#[must_use]
pub fn kernel_peak(spec: &KernelSpec, gpu: &DeviceInfo, types: Types) -> Option<f64> {
    let clock = f64::from(gpu.clock_mhz) * 1e6;
    let lanes = kernel_lanes(spec, gpu.compute_capability, types)?;
    Some(2.0 * lanes * f64::from(gpu.multiprocessors) * clock)
}

/// Multiply-adds of elements of these types that one SM completes in a clock with the units
/// that a kernel multiplies with, where the tables know it.
#[must_use]
pub fn kernel_lanes(
    spec: &KernelSpec,
    compute_capability: (u32, u32),
    types: Types,
) -> Option<f64> {
    let tensor = || tensor_lanes(compute_capability).map(f64::from);
    match spec.numerics {
        // The tensor cores multiply f64 as chains, too, at twice the rate.
        Numerics::Chain if types.acc() == AccType::F64 && spec.arch == Arch::Sm90a => {
            lanes(compute_capability, types).map(|lanes| F64_ON_TENSOR_CORES * f64::from(lanes))
        }
        Numerics::Chain | Numerics::ChainOfRanges => {
            lanes(compute_capability, types).map(f64::from)
        }
        Numerics::Limbs { products } => Some(tensor()? / f64::from(products)),
        Numerics::TensorCore => tensor(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_h200_has_its_known_peak() {
        let gpu = DeviceInfo {
            index: 0,
            name: "NVIDIA H200".to_owned(),
            compute_capability: (9, 0),
            multiprocessors: 132,
            clock_mhz: 1980,
            memory_bytes: 0,
            l2_bytes: 0,
            shared_bytes_per_block: 0,
        };
        let tera = |types| peak(&gpu, types).map(|rate| (rate / 1e11).round() / 10.0);
        assert_eq!(tera(Types::F32), Some(66.9));
        assert_eq!(tera(Types::F64), Some(33.5));
        let library = |types| library_peak(&gpu, types).map(|rate| (rate / 1e11).round() / 10.0);
        assert_eq!(library(Types::F32), Some(66.9));
        assert_eq!(library(Types::F64), Some(66.9));
        assert_eq!(split_peak(&gpu, 3).map(|rate| (rate / 1e12).round()), Some(357.0));
        assert_eq!(library(Types::F16), Some(1070.5));
        assert_eq!(library_peak(&gpu, Types::BF16), tensor_peak(&gpu));
        assert_eq!(library(Types::BF16F32), Some(1070.5));
        assert_eq!(tera(Types::F16F32), Some(66.9));
        assert_eq!(tera(Types::I8), tera(Types::I32));
        let unknown = DeviceInfo { compute_capability: (99, 0), ..gpu };
        assert_eq!(peak(&unknown, Types::F32), None);
        assert_eq!(split_peak(&unknown, 3), None);
        assert_eq!(library_peak(&unknown, Types::F16), None);
    }
}
