//! The control: an engine in a static, and a product by it.

use std::sync::LazyLock;

use tessera::{Engine, Matrix};

static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::cpu(None).expect("threads start"));

fn main() {
    let one = Matrix::from_fn(1, 1, |_, _| 1.0f32).expect("memory");
    assert_eq!(ENGINE.multiply(&one, &one).expect("a product").get(0, 0), Some(1.0));
}
