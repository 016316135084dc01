//! Ctrl-C while implementations are measured: what has been found by then is shown.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use super::output::Progress;
use crate::error::Error;
use crate::measure::Observer;
use crate::run::{Document, RowObserver};

/// How a program ends that was interrupted, as shells see it.
pub(super) const CODE: i32 = 130;

/// How a run came to its end.
pub(super) enum Ended {
    /// By itself.
    Whole(Result<Document, Error>),
    /// By Ctrl-C, with the rows so far, if there are any. The work still goes on: the process is to end.
    Interrupted(Option<Document>),
}

/// What the waiting thread is told.
enum Told {
    Row(Document),
    Ended(thread::Result<Result<Document, Error>>),
    Interrupted,
}

/// Works in a thread of its own, until the work is done or the user presses Ctrl-C.
///
/// # Errors
/// Threads that the system refuses.
pub(super) fn until(
    work: impl FnOnce(&mut dyn RowObserver) -> Result<Document, Error> + Send + 'static,
) -> std::io::Result<Ended> {
    let (tell, told) = channel();
    // Before any other thread is there, since they inherit what is blocked.
    on_interrupt(tell.clone())?;
    thread::Builder::new().spawn(move || {
        let mut observer = Telling { bar: Progress::new(), tell: tell.clone() };
        let document = catch_unwind(AssertUnwindSafe(|| work(&mut observer)));
        drop(observer);
        // Who does not listen any more has ended the program.
        let _ = tell.send(Told::Ended(document));
    })?;
    let mut so_far = None;
    loop {
        match told.recv() {
            Ok(Told::Row(document)) => so_far = Some(document),
            Ok(Told::Ended(Ok(document))) => return Ok(Ended::Whole(document)),
            Ok(Told::Ended(Err(panic))) => resume_unwind(panic),
            Ok(Told::Interrupted) | Err(_) => return Ok(Ended::Interrupted(so_far)),
        }
    }
}

/// Shows the steps, and hands the rows over.
struct Telling {
    bar: Progress,
    tell: Sender<Told>,
}

impl Observer for Telling {
    fn step(&mut self, what: &str) {
        tracing::info!("{what}");
        self.bar.step(what);
    }
}

impl RowObserver for Telling {
    fn row(&mut self, so_far: &Document) {
        let _ = self.tell.send(Told::Row(so_far.clone()));
    }
}

/// Waits for SIGINT in a thread of its own. Where the signal is ignored, as in the background of a shell
/// without job control, it stays so.
#[cfg(unix)]
fn on_interrupt(tell: Sender<Told>) -> std::io::Result<()> {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is a local, to be written.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: `sigemptyset` has initialised it, which never fails.
    let mut set = unsafe { set.assume_init() };
    // SAFETY: the set is initialised, and the signal is one.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGINT) };
    // SAFETY: the set is initialised, and no old mask is asked for.
    let refused =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    if refused != 0 {
        return Err(std::io::Error::from_raw_os_error(refused));
    }
    thread::Builder::new().spawn(move || {
        let mut signal = 0;
        // SAFETY: the set is initialised and its signal is blocked; `signal` is there to be written.
        if unsafe { libc::sigwait(&raw const set, &raw mut signal) } == 0 {
            let _ = tell.send(Told::Interrupted);
        }
    })?;
    Ok(())
}

#[cfg(not(unix))]
fn on_interrupt(_: Sender<Told>) -> std::io::Result<()> {
    Ok(())
}
