//! The connection of an actor to its backend.

use std::path::{Path, PathBuf};

use nerve_host::backend::{Backend, BackendEvent, Memory};

use super::status::ProgressRecord;
use crate::usage_ledger::LedgerRecord;

/// Maximum length of the remembered beginning of an unsent prompt, in bytes.
const UNSENT_PROMPT_LIMIT: usize = 16 << 10;

/// A backend, and the memory that it stores for the next owner of the terminal.
pub(super) struct BackendLink<B> {
    pub(super) backend: B,
    is_lost: bool,
    /// Bytes taken of the last event's output.
    taken: usize,
    /// Bytes of the last event's output that have not been taken.
    unread: usize,
    /// Initially the memory of the previous owner.
    memory: Memory,
    /// The memory as the backend has it.
    stored: Memory,
    /// The progress in `memory`.
    progress: ProgressRecord,
}

impl<B: Backend> BackendLink<B> {
    /// Creates the link. `stored`: the memory of the previous owner.
    pub(super) fn new(backend: B, memory: Memory, stored: Memory) -> BackendLink<B> {
        let progress = memory.progress.clone();
        let progress =
            progress.and_then(|progress| serde_json::from_value(progress).ok()).unwrap_or_default();
        BackendLink { backend, is_lost: false, taken: 0, unread: 0, memory, stored, progress }
    }

    /// Returns the progress of the node under its previous owners.
    pub(super) fn progress(&self) -> &ProgressRecord {
        &self.progress
    }

    /// Waits for the backend's next event. Never completes after [`BackendEvent::Lost`], the last one. Output that has not
    /// been taken completely is reported again, after other tasks have run.
    pub(super) async fn next(&mut self) -> BackendEvent {
        if self.is_lost {
            return std::future::pending().await;
        }
        if self.unread > 0 {
            tokio::task::yield_now().await;
            return BackendEvent::Output;
        }
        let event = self.backend.next().await;
        let is_output = matches!(event, BackendEvent::Output);
        (self.taken, self.unread) = (0, if is_output { self.backend.output().len() } else { 0 });
        self.is_lost = matches!(event, BackendEvent::Lost(_));
        event
    }

    /// Takes the next bytes of the last event's output, at most `limit`.
    pub(super) fn take_output(&mut self, limit: usize) -> &[u8] {
        let (start, len) = (self.taken, self.unread.min(limit));
        self.taken += len;
        self.unread -= len;
        self.backend.output().get(start..start + len).unwrap_or_default()
    }

    /// Returns true if the program was ready once, also under a previous owner.
    pub(super) fn was_ready(&self) -> bool {
        self.memory.was_ready
    }

    /// Returns the transcript of the agent's conversation, as named by its hooks.
    pub(super) fn transcript(&self) -> Option<&Path> {
        self.memory.transcript.as_deref()
    }

    /// Returns the id of the agent's conversation.
    pub(super) fn conversation_id(&self) -> Option<&String> {
        self.memory.conversation_id.as_ref()
    }

    /// Returns the beginning of a prompt that may stand in the agent's composer.
    pub(super) fn unsent_prompt(&self) -> Option<&str> {
        self.memory.unsent_prompt.as_deref()
    }

    /// Returns the text of the prompt that a line-based program draws.
    pub(super) fn drawn_prompt(&self) -> Option<&str> {
        self.memory.drawn_prompt.as_deref()
    }

    /// Returns true if the program was ready under a previous owner when it had written this many bytes.
    pub(super) fn was_ready_at(&self, offset: u64) -> bool {
        self.memory.ready_at == Some(offset)
    }

    /// Remembers that the program is ready after this many bytes of output.
    pub(super) fn remember_ready(&mut self, offset: u64) {
        (self.memory.was_ready, self.memory.ready_at) = (true, Some(offset));
    }

    /// Remembers the prompt that may stand in the agent's composer.
    pub(super) fn remember_unsent_prompt(&mut self, prompt: Option<&str>) {
        let prompt = prompt.map(|prompt| &prompt[..prompt.floor_char_boundary(UNSENT_PROMPT_LIMIT)]);
        if self.memory.unsent_prompt.as_deref() != prompt {
            self.memory.unsent_prompt = prompt.map(str::to_string);
        }
    }

    /// Remembers the text of the prompt that a line-based program draws.
    pub(super) fn remember_drawn_prompt(&mut self, prompt: Option<&str>) {
        if self.memory.drawn_prompt.as_deref() != prompt {
            self.memory.drawn_prompt = prompt.map(str::to_string);
        }
    }

    /// Remembers the transcript of the agent's conversation.
    pub(super) fn remember_transcript(&mut self, transcript: PathBuf) {
        self.memory.transcript = Some(transcript);
    }

    /// Remembers the limits and the usage of the node.
    pub(super) fn remember_budget(&mut self, budget: &LedgerRecord) {
        // Cannot fail: the fields are plain data.
        self.memory.budget = serde_json::to_value(budget).ok();
    }

    /// Remembers the progress of the node.
    pub(super) fn remember_progress(&mut self, progress: ProgressRecord) {
        if self.progress != progress {
            // Cannot fail: the fields are plain data.
            self.memory.progress = serde_json::to_value(&progress).ok();
            self.progress = progress;
        }
    }

    /// Remembers the id of the agent's conversation.
    pub(super) fn remember_conversation_id(&mut self, id: String) {
        self.memory.conversation_id = Some(id);
    }

    /// Stores the memory if it has changed.
    pub(super) fn store_memory(&mut self) {
        if self.memory != self.stored {
            self.confirm_memory();
        }
    }

    /// Stores the memory. The backend forgets that keys were typed before.
    pub(super) fn confirm_memory(&mut self) {
        self.backend.remember(&self.memory);
        self.stored = self.memory.clone();
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use nerve_api::reply::ModelTokens;
    use nerve_types::token_usage::TokenUsage;
    use nerve_types::{Foreground, Origin, Size, TsNs};
    use rustix::process::Signal;

    use super::*;

    /// Reports its output once, and then that the output is complete.
    struct OneOutput {
        bytes: &'static [u8],
        is_reported: bool,
    }

    impl Backend for OneOutput {
        async fn next(&mut self) -> BackendEvent {
            match std::mem::replace(&mut self.is_reported, true) {
                false => BackendEvent::Output,
                true => BackendEvent::Closed,
            }
        }
        fn output(&self) -> &[u8] {
            self.bytes
        }
        fn write(&mut self, _: TsNs, _: &[u8], _: Origin) -> bool {
            false
        }
        fn queued_input(&self) -> usize {
            0
        }
        fn resize(&mut self, _: TsNs, _: Size) -> io::Result<()> {
            Ok(())
        }
        fn signal(&self, _: Signal) {}
        fn foreground(&self, _: bool, _: &[String]) -> Foreground {
            Foreground::Unknown
        }
        fn hides_input(&self) -> bool {
            false
        }
        fn remember(&mut self, _: &Memory) {}
        fn drain_time(&self) -> Duration {
            Duration::ZERO
        }
        fn pid(&self) -> Option<i32> {
            None
        }
        fn release(&mut self) -> bool {
            true
        }
    }

    #[tokio::test]
    async fn output_is_reported_until_it_is_taken() {
        let backend = OneOutput { bytes: b"0123456789", is_reported: false };
        let mut link = BackendLink::new(backend, Memory::default(), Memory::default());
        let mut slices = Vec::new();
        while link.next().await == BackendEvent::Output {
            slices.push(link.take_output(4).to_vec());
        }
        assert_eq!(slices, [b"0123".to_vec(), b"4567".to_vec(), b"89".to_vec()]);
        assert_eq!(link.take_output(4), b"");
    }

    #[test]
    fn progress_reaches_the_next_owner() {
        let backend = || OneOutput { bytes: b"", is_reported: false };
        let models = vec![ModelTokens {
            model: Some("m".into()),
            tokens: TokenUsage { output: 7, ..TokenUsage::default() },
        }];
        let progress = ProgressRecord { last_prompt: Some("one".into()), last_line: None, models };
        let mut first = BackendLink::new(backend(), Memory::default(), Memory::default());
        first.remember_progress(progress.clone());
        first.store_memory();
        assert_eq!(*BackendLink::new(backend(), first.stored, Memory::default()).progress(), progress);
    }
}
