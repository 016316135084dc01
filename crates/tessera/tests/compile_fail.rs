//! What safe code must not be able to say.

#[test]
fn what_would_be_unsound_does_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/compile_fail/shared_engine_passes.rs");
    cases.compile_fail("tests/compile_fail/element_of_ones_own.rs");
    cases.compile_fail("tests/compile_fail/products_of_no_type.rs");
    cases.compile_fail("tests/compile_fail/forged_kernel.rs");
    cases.compile_fail("tests/compile_fail/specification_as_kernel.rs");
    cases.compile_fail("tests/compile_fail/safe_enqueue.rs");
    cases.compile_fail("tests/compile_fail/kept_view.rs");
}
