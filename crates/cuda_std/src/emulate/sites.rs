//! Source lines by number, so that a word of shadow state holds them in two bytes.

use std::panic::Location;

/// Lines that are found without a search.
const NEAR: usize = 64;

/// The source lines that a cluster has come to.
pub(super) struct Sites {
    all: Vec<&'static Location<'static>>,
    near: [(*const Location<'static>, u16); NEAR],
}

impl Sites {
    pub(super) fn new() -> Self {
        Self { all: Vec::new(), near: [(std::ptr::null(), 0); NEAR] }
    }

    /// The number of a line.
    pub(super) fn number(&mut self, at: &'static Location<'static>) -> u16 {
        let place = std::ptr::from_ref(at);
        let near = &mut self.near[(place.addr() >> 3) % NEAR];
        if near.0 == place {
            return near.1;
        }
        let found = self.all.iter().position(|&known| std::ptr::eq(known, at) || known == at);
        let number = found.unwrap_or_else(|| {
            self.all.push(at);
            self.all.len() - 1
        });
        // A kernel has fewer lines; if one had more, reports would name the last of them.
        let number = u16::try_from(number).unwrap_or(u16::MAX);
        *near = (place, number);
        number
    }

    /// The line of a number.
    pub(super) fn at(&self, number: u16) -> &'static Location<'static> {
        self.all[usize::from(number).min(self.all.len() - 1)]
    }
}
