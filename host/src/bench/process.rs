//! A measurement in a process of its own, which ends with this one.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use super::again::words;
use super::compare::read;
use super::{Request, Row};
use crate::measure::{Candidate, Processors};
use crate::peers::threads_environment;

/// Measures a candidate in a new process of this program, whose environment fixes threads and kernels.
pub(super) fn in_a_process(
    request: &Request,
    processors: &Processors,
    candidate: Candidate,
    size: [usize; 3],
) -> Result<Row, String> {
    let program = std::env::current_exe()
        .map_err(|error| format!("this program does not find itself: {error}"))?;
    let threads = processors.cpu.threads();
    let environment = match candidate {
        Candidate::Own(_) | Candidate::Auto => threads_environment(threads),
        Candidate::Peer(peer) => peer.environment(threads),
    };
    let point = request.point(candidate, size, threads, "cpu".to_owned());
    let mut command = Command::new(program);
    command
        .args(&words(&point, request, None)[1..])
        .args(["--alone", "--format", "json"])
        .env("LD_LIBRARY_PATH", library_path(request))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    die_with_this_process(&mut command);
    for (name, value) in environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut child =
        command.spawn().map_err(|error| format!("its process does not start: {error}"))?;
    // Waiting would close the pipe that tells the child that this process is there.
    let lifeline = child.stdin.take();
    let output =
        child.wait_with_output().map_err(|error| format!("its process is lost: {error}"))?;
    drop(lifeline);
    let text = String::from_utf8_lossy(&output.stdout);
    outcome(&text).unwrap_or_else(|| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let last = stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no word of why");
        Err(format!("its process ended with {}: {last}", output.status))
    })
}

/// Has the system kill the child as soon as this process is gone, whatever it is doing.
#[cfg(target_os = "linux")]
fn die_with_this_process(command: &mut Command) {
    use std::os::unix::process::CommandExt;

    let parent = std::process::id();
    let tie = move || {
        // SAFETY: `prctl` with this option takes one number and touches no memory; it is a system call and
        // no more, so that it may be called between fork and exec.
        let refused = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0;
        // SAFETY: `getppid` takes nothing, and may be called between fork and exec.
        let parent_now = unsafe { libc::getppid() }.cast_unsigned();
        // The parent may have ended before the child was tied to it.
        if refused || parent_now != parent { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: the closure allocates nothing and takes no lock; it makes two system calls.
    unsafe { command.pre_exec(tie) };
}

#[cfg(not(target_os = "linux"))]
fn die_with_this_process(_: &mut Command) {}

/// Ends this process, which has a turn, when its standard input does: the process that waits for the turn
/// holds the other end and never writes.
pub fn end_with_parent() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(1);
    });
}

/// The row of a document of one candidate, or why there is none; `None` where this is no document.
fn outcome(text: &str) -> Option<Result<Row, String>> {
    let document = read(text).ok()?;
    if let Some(row) = document.rows.into_iter().next() {
        return Some(Ok(row));
    }
    document.skipped.into_iter().next().map(|skipped| Err(skipped.reason))
}

/// The loader's folders with the user's in front: libraries need others that lie beside them.
fn library_path(request: &Request) -> OsString {
    let inherited = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let inherited = std::env::split_paths(&inherited).filter(|path| !path.as_os_str().is_empty());
    let folders = request.peer_folders.iter().cloned().chain(inherited);
    // A folder whose name holds a colon cannot be passed on.
    std::env::join_paths(folders).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Document;
    use crate::bench::compare::tests::{document, row};

    #[test]
    fn a_process_says_a_row_or_why_there_is_none() {
        let mut found = document(vec![row("a", 1.0, 0.0)]);
        let text = |document: &Document| serde_json::to_string(document).unwrap();
        assert!(outcome(&text(&found)).unwrap().is_ok());
        found.rows.clear();
        assert!(outcome(&text(&found)).is_none());
        let (kernel, reason) = ("a", "is not found");
        found.skip(kernel, None, reason.to_owned());
        assert_eq!(outcome(&text(&found)).unwrap().err().as_deref(), Some("is not found"));
        assert!(outcome("Segmentation fault").is_none());
    }
}
