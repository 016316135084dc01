//! A view does not outlive the matrix.

fn main() {
    let view = {
        let matrix = tessera::Matrix::<f32>::zeros(2, 2).unwrap();
        matrix.view()
    };
    assert_eq!(view.rows(), 2);
}
