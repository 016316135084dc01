//! Addresses on the device are the caller's word, which takes `unsafe`.

fn enqueue(gpu: &tessera::gpu::Gpu, kernel: tessera::gpu::Kernel) {
    let problem = tessera::Problem::<f32>::new(1, 1, 1);
    let addresses = tessera::gpu::Addresses { a: 0, b: 0, c: 0 };
    let _ = gpu.enqueue(std::ptr::null_mut(), kernel, &problem, addresses);
}

fn main() {}
