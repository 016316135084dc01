//! Element types are the library's: unsafe code relies on what they are. Those of another product can be
//! written down, but neither engine takes it.

#[derive(Clone, Copy, Debug, PartialEq)]
struct Own(f32);

impl gemm_spec::Element for Own {
    const DTYPE: gemm_spec::DType = gemm_spec::DType::F64;
    const ZERO: Self = Own(0.0);
    const ONE: Self = Own(1.0);
}

impl gemm_spec::Convert<f32> for Own {
    fn widen(self) -> f32 {
        self.0
    }

    fn narrow(value: f32) -> Self {
        Own(value)
    }
}

impl gemm_spec::GemmTypes for Own {
    type A = Own;
    type B = Own;
    type Acc = f32;
    type C = f32;

    const TYPES: gemm_spec::Types = gemm_spec::Types::F64;
}

fn main() {
    let problem = gemm_spec::Problem::<Own>::new(1, 1, 1);
    let (one, mut c) = ([Own(1.0)], [0.0]);
    let _ = tessera::gemm(&problem, &one, &one, &mut c);
    let context = tessera::CpuContext::new(None).unwrap();
    let _ = cpu_gemm::gemm(&problem, &one, &one, &mut c, &context);
}
