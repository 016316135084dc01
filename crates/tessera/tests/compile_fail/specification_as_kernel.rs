//! A specification is no kernel.

fn multiply(path: tessera::gpu::HostPath<'_>, spec: &'static gemm_spec::KernelSpec) {
    let problem = tessera::Problem::<f32>::new(1, 1, 1);
    let _ = path.multiply(spec, &problem, &[1.0], &[1.0], &mut [0.0]);
}

fn main() {}
