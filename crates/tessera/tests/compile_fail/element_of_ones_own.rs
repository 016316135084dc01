//! Element types are the library's: unsafe code relies on what they are. The arithmetic of another type can
//! be written down, but neither engine takes it.

#[derive(Clone, Copy, Debug, PartialEq)]
struct Own(f32);

impl gemm_spec::Element for Own {
    type Acc = f32;
    type Out = f32;

    const DTYPE: gemm_spec::DType = gemm_spec::DType::F64;
    const ZERO: Self = Own(0.0);
    const ONE: Self = Own(1.0);

    fn mul_add(self, b: Self, c: f32) -> f32 {
        self.0 * b.0 + c
    }

    fn mul(self, b: Self) -> f32 {
        self.0 * b.0
    }

    fn widen(self) -> f32 {
        self.0
    }

    fn narrow(value: f32) -> Self {
        Own(value)
    }
}

fn main() {
    let problem = gemm_spec::Problem::<Own>::new(1, 1, 1);
    let (one, mut c) = ([Own(1.0)], [0.0]);
    let _ = tessera::gemm(&problem, &one, &one, &mut c);
    let context = tessera::CpuContext::new(None).unwrap();
    let _ = cpu_gemm::gemm(&problem, &one, &one, &mut c, &context);
}
