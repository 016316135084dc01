//! Only the registry makes kernels: a specification says how memory is used.

fn main() {
    let naive = tessera::gpu::Kernel::named("naive").unwrap();
    let forged = tessera::gpu::Kernel(naive.spec());
    let _ = forged.id;
}
