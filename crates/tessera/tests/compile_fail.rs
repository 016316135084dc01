//! What safe code must not be able to say.

use std::sync::LazyLock;

use tessera::{Engine, Matrix};

/// Cases that must be compiled to the end would have trybuild compile the library a second time; these are checked.
#[test]
fn what_would_be_unsound_does_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_fail/element_of_ones_own.rs");
    cases.compile_fail("tests/compile_fail/products_of_no_type.rs");
    cases.compile_fail("tests/compile_fail/forged_kernel.rs");
    cases.compile_fail("tests/compile_fail/specification_as_kernel.rs");
    cases.compile_fail("tests/compile_fail/safe_enqueue.rs");
    cases.compile_fail("tests/compile_fail/kept_view.rs");
}

/// The control: an engine in a static, and a product by it.
#[test]
fn an_engine_may_be_static() {
    static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::cpu(None).expect("threads start"));
    let one = Matrix::from_fn(1, 1, |_, _| 1.0f32).expect("memory");
    assert_eq!(ENGINE.multiply(&one, &one).expect("a product").get(0, 0), Some(1.0));
}
