//! How the shared library is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        for argument in [
            "-Wl,-soname,libtessera.so.0",
            // Its threads outlive a dlclose.
            "-Wl,-z,nodelete",
            // What other crates give names that are seen outside stays inside.
            "-Wl,--exclude-libs,ALL",
        ] {
            println!("cargo::rustc-link-arg-cdylib={argument}");
        }
    }
}
