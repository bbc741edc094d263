//! Publishes the output of a command in chunks while it runs.
//!
//! Joined together, the chunks equal the response's text if that was not truncated. Trailing blanks are held back until text
//! follows.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Minimum time between two chunks, unless they are full.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum size of a chunk in bytes. That much text is published at once.
const MAX_CHUNK: usize = 256 << 10;
/// Maximum number of blanks held back, in bytes.
const MAX_HELD_BACK: usize = 64 << 10;

/// Collects output and publishes it in chunks.
pub(super) struct ChunkPublisher<P> {
    publish: P,
    /// The beginning of an incomplete character: at most three bytes.
    partial: Vec<u8>,
    text: String,
    /// Earliest time of the next chunk.
    not_before: Instant,
}

impl<P: FnMut(String)> ChunkPublisher<P> {
    /// `publish` receives each chunk.
    pub(super) fn new(publish: P) -> ChunkPublisher<P> {
        ChunkPublisher { publish, partial: Vec::new(), text: String::new(), not_before: Instant::now() }
    }

    /// Adds output. Invalid UTF-8 is replaced as it is in the response.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let joined;
        let bytes = if self.partial.is_empty() {
            bytes
        } else {
            joined = [&self.partial[..], bytes].concat();
            self.partial.clear();
            &joined
        };
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            if chunks.peek().is_none() && is_partial_char(invalid) {
                self.partial = invalid.to_vec();
            } else if !invalid.is_empty() {
                self.text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        if self.text.len() >= MAX_CHUNK || Instant::now() >= self.not_before {
            self.flush();
        }
    }

    /// Waits until a chunk is due and publishes it.
    pub(super) async fn flush_when_due(&mut self) {
        if self.publishable() == 0 {
            return std::future::pending().await;
        }
        sleep_until(self.not_before).await;
        self.flush();
    }

    /// Publishes the rest.
    pub(super) fn end(mut self) {
        if !self.partial.is_empty() {
            self.text.push(char::REPLACEMENT_CHARACTER);
        }
        self.text.truncate(self.text.trim_end().len());
        self.flush();
    }

    /// Returns the number of bytes that may be published now.
    fn publishable(&self) -> usize {
        let end = self.text.trim_end().len();
        if self.text.len() - end > MAX_HELD_BACK { self.text.len() } else { end }
    }

    fn flush(&mut self) {
        let mut len = self.publishable();
        if len == 0 {
            return;
        }
        let held_back = self.text.split_off(len);
        let mut text = std::mem::replace(&mut self.text, held_back);
        while len > MAX_CHUNK {
            let rest = text.split_off(text.floor_char_boundary(MAX_CHUNK));
            (self.publish)(std::mem::replace(&mut text, rest));
            len = text.len();
        }
        (self.publish)(text);
        self.not_before = Instant::now() + MIN_INTERVAL;
    }
}

/// Returns true if the bytes at the end of a piece of output may be the beginning of a character.
fn is_partial_char(bytes: &[u8]) -> bool {
    !bytes.is_empty() && std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use proptest::prelude::*;

    use super::*;

    fn published(pieces: &[&[u8]]) -> Vec<String> {
        let all = RefCell::new(Vec::new());
        let mut chunks = ChunkPublisher::new(|chunk| all.borrow_mut().push(chunk));
        for piece in pieces {
            chunks.push(piece);
        }
        chunks.end();
        all.into_inner()
    }

    #[test]
    fn characters_are_not_split_and_invalid_bytes_are_replaced() {
        assert_eq!(published(&[b"a\xe6\x97", b"\xa5b"]), ["a", "日b"]);
        assert_eq!(published(&[b"a\xe6\x97", b"b\xff"]).concat(), "a\u{fffd}b\u{fffd}");
        assert_eq!(published(&[b"a\xe6"]).concat(), "a\u{fffd}");
    }

    #[test]
    fn trailing_blanks_are_held_back() {
        assert_eq!(published(&[b"one\n", b"\ntwo\n\n"]), ["one", "\n\ntwo"]);
        let blanks = vec![b'\n'; 2 * MAX_HELD_BACK];
        assert_eq!(published(&[b"x", &blanks, b"y"]).concat().len(), 2 * MAX_HELD_BACK + 2, "all of them");
    }

    #[test]
    fn chunks_are_bounded() {
        let much = "日".repeat(MAX_CHUNK);
        let chunks = published(&[much.as_bytes()]);
        assert!(chunks.iter().all(|chunk| chunk.len() <= MAX_CHUNK) && chunks.len() > 3);
        assert_eq!(chunks.concat(), much);
    }

    #[tokio::test(start_paused = true)]
    async fn first_output_is_published_at_once_and_more_is_batched() {
        let all = RefCell::new(Vec::new());
        let mut chunks = ChunkPublisher::new(|chunk| all.borrow_mut().push(chunk));
        for letter in ["a", "b", "c"] {
            chunks.push(letter.as_bytes());
        }
        assert_eq!(*all.borrow(), ["a"]);
        let start = Instant::now();
        chunks.flush_when_due().await;
        assert_eq!(start.elapsed(), MIN_INTERVAL);
        assert_eq!(*all.borrow(), ["a", "bc"]);
        assert!(tokio::time::timeout(Duration::from_secs(60), chunks.flush_when_due()).await.is_err());
    }

    proptest! {
        #[test]
        fn joined_chunks_equal_the_text(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 1_usize..20) {
            let pieces: Vec<&[u8]> = bytes.chunks(cut).collect();
            let text = String::from_utf8_lossy(&bytes);
            prop_assert_eq!(published(&pieces).concat(), text.trim_end());
        }
    }
}
