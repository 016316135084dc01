//! A product of memory that somebody else owns, in a stream that somebody else owns.
//!
//! ```sh
//! cargo run -p tessera --example device_plan
//! ```

use tessera::gpu::{
    Context, DeviceMatrix, GemmDesc, Plan, PlanLimits, RawStream, Stream, Workspace,
};
use tessera::{Error, Layout, Matrix, Types};

/// `D = A B` of column-major f64, as a program calls it again and again: `plan` is made once.
///
/// # Safety
/// The addresses are those of matrices of the plan's sizes in its context, and the stream is one of that
/// context, which orders all other work with them.
unsafe fn multiply(
    plan: &Plan,
    stream: RawStream,
    [a, b, d]: [u64; 3],
    workspace: Workspace,
) -> Result<(), Error> {
    // SAFETY: the caller's promise; C is not read, since beta is 0.
    unsafe { plan.run(stream, a, b, 0, d, workspace) }
}

pub(crate) fn main() -> Result<(), Error> {
    // What PyTorch, CuPy, candle, burn and cudarc work in; `Context::current` takes it from the thread.
    let context = Context::primary(0)?;
    let (m, n, k) = (120, 80, 60);
    let desc = GemmDesc::new(Types::F64, m, n, k).with_layouts(
        Layout::col_major(m),
        Layout::col_major(k),
        Layout::col_major(m),
    );
    let plan = Plan::new(&context, desc, PlanLimits::default())?;

    // In place of the other library: its stream, its matrices, and memory for the plan's workspace.
    let stream = Stream::new(&context)?;
    let column = |rows, cols| Matrix::from_fn(cols, rows, |col, row| (row + col % 3) as f64);
    let of = |matrix: &Matrix<f64>| DeviceMatrix::from_host(&stream, matrix.view());
    let (a, b) = (column(m, k)?, column(k, n)?);
    let (on_a, on_b) = (of(&a)?, of(&b)?);
    let d = DeviceMatrix::<f64>::zeros(&stream, n, m)?;
    let bytes = usize::try_from(plan.workspace_bytes()).unwrap_or(usize::MAX);
    let room = DeviceMatrix::<i8>::zeros(&stream, 1, bytes)?;
    let workspace = Workspace { address: room.address(), bytes: plan.workspace_bytes() };

    let addresses = [on_a.address(), on_b.address(), d.address()];
    // SAFETY: the matrices are tightly packed, and outlive the wait in `to_host`.
    unsafe { multiply(&plan, stream.as_raw(), addresses, workspace)? };

    let d = d.to_host(&stream)?;
    let expected: f64 = (0..k).map(|at| ((5 + at % 3) * (at + 7 % 3)) as f64).sum();
    assert_eq!(d.get(7, 5), Some(expected));
    Ok(())
}
