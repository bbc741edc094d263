//! The last output of a terminal, for those who connect late.

use std::collections::VecDeque;

/// Output kept in memory.
const BACKLOG: usize = 4 << 20;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// Output bytes before the first one kept.
    pub(super) oldest: u64,
    bytes: VecDeque<u8>,
}

impl Backlog {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let over = self.bytes.len().saturating_sub(BACKLOG);
        self.bytes.drain(..over);
        self.oldest += over as u64;
    }

    pub(super) fn since(&self, off: u64) -> Vec<u8> {
        let skip = usize::try_from(off.saturating_sub(self.oldest)).unwrap_or(usize::MAX);
        self.bytes.iter().skip(skip).copied().collect()
    }
}
