//! One engine in a static, used by eight threads at once.
//!
//! ```sh
//! cargo run -p tessera --example shared_engine
//! ```

#![expect(clippy::print_stdout, reason = "it shows its result")]

use std::sync::LazyLock;

use tessera::{Engine, Error, Matrix};

static ENGINE: LazyLock<Engine> =
    LazyLock::new(|| Engine::auto().expect("the system starts threads"));

fn main() -> Result<(), Error> {
    let a = Matrix::from_fn(300, 200, |row, col| ((row * col) % 7) as f32)?;
    let b = Matrix::from_fn(200, 100, |row, col| ((row + col) % 5) as f32)?;
    let results = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| ENGINE.multiply(&a, &b))).collect();
        let joined = threads.into_iter().map(|thread| thread.join().expect("no thread panics"));
        joined.collect::<Result<Vec<_>, Error>>()
    })?;
    let expected: f32 = (0..200).map(|k| ((299 * k) % 7 * ((k + 99) % 5)) as f32).sum();
    for product in &results {
        assert_eq!(product.get(299, 99), Some(expected));
        assert_eq!(product, &results[0]);
    }
    println!("{} equal products of {} x {}", results.len(), a.rows(), b.cols());
    Ok(())
}
