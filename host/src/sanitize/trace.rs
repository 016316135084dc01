//! What threads of runs on the emulator do that orders something, as lines of JSON.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use cuda_std::emulate::{Action, Event, Observer};
use serde_json::json;

/// Writes a line for each instruction and barrier that a thread comes to.
pub(crate) struct Trace(Mutex<(BufWriter<File>, std::io::Result<()>)>);

impl Trace {
    pub(crate) fn create(path: &Path) -> std::io::Result<Self> {
        Ok(Self(Mutex::new((BufWriter::new(File::create(path)?), Ok(())))))
    }

    /// Writes what remains.
    pub(crate) fn finish(self) -> std::io::Result<()> {
        let (mut file, so_far) = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        so_far?;
        file.flush()
    }
}

impl Observer for Trace {
    fn observe(&self, event: Event) {
        let Event { block, thread, action } = event;
        let line = match action {
            Action::Instruction(instruction) => json!({
                "block": block,
                "thread": thread,
                "instruction": instruction.name,
                "file": instruction.at.file(),
                "line": instruction.at.line(),
            }),
            Action::Barrier => json!({ "block": block, "thread": thread, "barrier": true }),
            Action::Global { .. } | Action::Shared { .. } => return,
        };
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if file.1.is_ok() {
            file.1 = writeln!(file.0, "{line}");
        }
    }
}
