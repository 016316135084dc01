use std::num::NonZeroUsize;
use std::time::Duration;

use gemm_spec::{Convert, Element, Problem};

use super::*;
use crate::cpu::{CpuContext, CpuImpl};
use crate::measure::{Config, DeviceChoice};
use crate::registry::Implementation;
use crate::report::{Format, render};
use crate::scalar::ScalarTypes;

/// Reads A's tiles of 8 x 8 transposed.
fn transposed_tiles<T: ScalarTypes>(
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    _: &CpuContext,
) -> Result<(), cpu_gemm::Error> {
    let Problem { m, n, k, .. } = *problem;
    for row in 0..m {
        for col in 0..n {
            let mut acc = T::Acc::ZERO;
            for step in 0..k {
                let (i, l) = (row - row % 8 + step % 8, step - step % 8 + row % 8);
                let value = if i < m && l < k { a[problem.a.index(i, l)] } else { T::A::ZERO };
                acc = T::mul_add(value, b[problem.b.index(step, col)], acc);
            }
            c[problem.c.index(row, col)] = T::C::narrow(acc);
        }
    }
    Ok(())
}

static BROKEN: CpuImpl = CpuImpl {
    id: "broken",
    about: "reads tiles transposed",
    origin: "a test",
    blocked: false,
    parallel: false,
    any_order: false,
    sums: crate::cpu::Sums::Chain,
    needs: crate::cpu::implementation::NOTHING,
    study: false,
    forms: crate::cpu::implementation::forms!(transposed_tiles),
};

fn request() -> Request {
    let threads = NonZeroUsize::new(1);
    Request {
        config: Config { device: DeviceChoice::Cpu, threads, seed: 0, ..Config::default() },
        size: [150, 40, 50],
        implementations: vec![Implementation::Cpu(&BROKEN)],
        budget: Duration::from_secs(60),
    }
}

/// A product whose inner loop is five times slower where B is large, as one that leaves the cache.
fn slow_where_large<T: ScalarTypes>(
    problem: &Problem<T>,
    _: &[T::A],
    _: &[T::B],
    _: &mut [T::C],
    _: &CpuContext,
) -> Result<(), cpu_gemm::Error> {
    let times = if problem.n < 1000 { 1.0 } else { 5.0 };
    std::thread::sleep(Duration::from_secs_f64(times * problem.flops() / 2e9));
    Ok(())
}

static SLOW: CpuImpl =
    CpuImpl { id: "slow", forms: crate::cpu::implementation::forms!(slow_where_large), ..BROKEN };

#[test]
fn an_estimate_counts_what_a_smaller_size_does_not_show() {
    let request = Request {
        size: [1000; 3],
        implementations: vec![Implementation::Cpu(&SLOW)],
        budget: Duration::from_millis(800),
        ..request()
    };
    let document = run(&request, &mut ()).unwrap();
    let row = &document.rows[0];
    // Sleeping may take longer than it was told, and never less.
    assert!(row.estimated && (4.5..8.0).contains(&row.seconds), "{row:?}");
}

#[test]
fn a_wrong_row_says_what_it_looks_like() {
    let request = request();
    let document = run(&request, &mut ()).unwrap();
    assert!(!document.all_right());
    let table = render(&document, Format::Table, false).unwrap();
    let note = "broken: tiles of A, 8 x 8, are read transposed (confidence ";
    assert!(table.lines().any(|line| line.starts_with(note)), "{table}");
    let json = render(&document, Format::Json, false).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let diagnosis = &json["rows"][0]["check"]["diagnosis"]["diagnoses"][0];
    assert_eq!(diagnosis["pattern"]["name"], "transposed_in_tiles");
    assert_eq!(diagnosis["pattern"]["operand"], "A");
    assert_eq!(diagnosis["pattern"]["width"], 8);

    let right = Implementation::Cpu(crate::cpu::CPU[0]);
    let document = run(&Request { implementations: vec![right], ..request }, &mut ()).unwrap();
    let table = render(&document, Format::Table, false).unwrap();
    assert!(document.all_right() && !table.contains("confidence"), "{table}");
}
