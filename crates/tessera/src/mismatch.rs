//! What a launch passes beside what the PTX declares, for the error that says how they differ.

use std::fmt;

/// One parameter or argument, as it is compared.
#[derive(PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) ty: String,
    pub(crate) bytes: u64,
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.ty, self.bytes)
    }
}

/// Two lists, what a launch passes and what the PTX declares, line by line; lines that differ begin
/// with `!`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryMismatch(Vec<(String, String, bool)>);

impl EntryMismatch {
    pub(crate) fn of_slots(passed: &[(&str, Slot)], declared: &[Slot]) -> Self {
        let lines = passed.len().max(declared.len());
        let line = |at: usize| {
            let (ours, theirs) = (passed.get(at), declared.get(at));
            (
                ours.map_or("nothing".to_owned(), |(name, slot)| format!("{name} {slot}")),
                theirs.map_or("nothing".to_owned(), Slot::to_string),
                ours.map(|(_, slot)| slot) == theirs,
            )
        };
        Self((0..lines).map(line).collect())
    }

    /// Pairs what has the same name; what the PTX alone has comes last.
    pub(crate) fn of_names(launched: Vec<String>, declared: Vec<String>) -> Self {
        let alone: Vec<_> = declared
            .iter()
            .filter(|name| !launched.contains(name))
            .map(|name| ("nothing".to_owned(), name.clone(), false))
            .collect();
        let pair = |name: String| {
            let there = declared.contains(&name);
            let other = if there { name.clone() } else { "nothing".to_owned() };
            (name, other, there)
        };
        Self(launched.into_iter().map(pair).chain(alone).collect())
    }
}

impl fmt::Display for EntryMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LEFT: &str = "the launcher passes";
        let width = self.0.iter().map(|line| line.0.len()).fold(LEFT.len(), usize::max);
        write!(f, "\n  {LEFT:width$} | the PTX declares")?;
        for (left, right, same) in &self.0 {
            write!(f, "\n{} {left:width$} | {right}", if *same { ' ' } else { '!' })?;
        }
        Ok(())
    }
}
