//! The output of a command as it comes, for a prompt that streams.
//!
//! Together the chunks are the response's text, where that has all of it: blanks at the end are held back until something follows them.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// A command that says little at a time is told of this often.
const EVERY: Duration = Duration::from_millis(100);
/// A chunk holds so many bytes at most, and so many do not wait.
const CHUNK: usize = 256 << 10;
/// More blanks than this are not held back, in bytes.
const BLANKS: usize = 64 << 10;

/// What was read and not published yet.
pub(super) struct Chunks<P> {
    publish: P,
    /// The beginning of a character whose end has not been read: three bytes at most.
    begun: Vec<u8>,
    text: String,
    /// Nothing is published before.
    not_before: Instant,
}

impl<P: FnMut(String)> Chunks<P> {
    /// `publish` is given each chunk.
    pub(super) fn new(publish: P) -> Chunks<P> {
        Chunks { publish, begun: Vec::new(), text: String::new(), not_before: Instant::now() }
    }

    /// Takes what was read. Bytes that are no UTF-8 are replaced as they are in the response.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let joined;
        let bytes = if self.begun.is_empty() {
            bytes
        } else {
            joined = [&self.begun[..], bytes].concat();
            self.begun.clear();
            &joined
        };
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            if chunks.peek().is_none() && may_go_on(invalid) {
                self.begun = invalid.to_vec();
            } else if !invalid.is_empty() {
                self.text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        if self.text.len() >= CHUNK || Instant::now() >= self.not_before {
            self.flush();
        }
    }

    /// Waits until something is to be published, and does.
    pub(super) async fn flush_in_time(&mut self) {
        if self.said() == 0 {
            return std::future::pending().await;
        }
        sleep_until(self.not_before).await;
        self.flush();
    }

    /// Publishes the rest.
    pub(super) fn end(mut self) {
        if !self.begun.is_empty() {
            self.text.push(char::REPLACEMENT_CHARACTER);
        }
        self.text.truncate(self.text.trim_end().len());
        self.flush();
    }

    /// How many of the bytes that wait are not held back.
    fn said(&self) -> usize {
        let end = self.text.trim_end().len();
        if self.text.len() - end > BLANKS { self.text.len() } else { end }
    }

    fn flush(&mut self) {
        let mut said = self.said();
        if said == 0 {
            return;
        }
        let held_back = self.text.split_off(said);
        let mut text = std::mem::replace(&mut self.text, held_back);
        while said > CHUNK {
            let cut = (0..=CHUNK).rfind(|at| text.is_char_boundary(*at)).unwrap_or(said);
            let rest = text.split_off(cut);
            (self.publish)(std::mem::replace(&mut text, rest));
            said = text.len();
        }
        (self.publish)(text);
        self.not_before = Instant::now() + EVERY;
    }
}

/// Whether these bytes, with which a piece of output ends, are the beginning of a character.
fn may_go_on(bytes: &[u8]) -> bool {
    !bytes.is_empty() && std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use proptest::prelude::*;

    use super::*;

    fn published(pieces: &[&[u8]]) -> Vec<String> {
        let all = RefCell::new(Vec::new());
        let mut chunks = Chunks::new(|chunk| all.borrow_mut().push(chunk));
        for piece in pieces {
            chunks.push(piece);
        }
        chunks.end();
        all.into_inner()
    }

    #[test]
    fn a_character_is_never_cut_and_what_is_none_is_replaced() {
        assert_eq!(published(&[b"a\xe6\x97", b"\xa5b"]), ["a", "日b"]);
        assert_eq!(published(&[b"a\xe6\x97", b"b\xff"]).concat(), "a\u{fffd}b\u{fffd}");
        assert_eq!(published(&[b"a\xe6"]).concat(), "a\u{fffd}");
    }

    #[test]
    fn blanks_at_the_end_are_held_back() {
        assert_eq!(published(&[b"one\n", b"\ntwo\n\n"]), ["one", "\n\ntwo"]);
        let blanks = vec![b'\n'; 2 * BLANKS];
        assert_eq!(published(&[b"x", &blanks, b"y"]).concat().len(), 2 * BLANKS + 2, "all of them");
    }

    #[test]
    fn a_chunk_is_bounded() {
        let much = "日".repeat(CHUNK);
        let chunks = published(&[much.as_bytes()]);
        assert!(chunks.iter().all(|chunk| chunk.len() <= CHUNK) && chunks.len() > 3);
        assert_eq!(chunks.concat(), much);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_words_come_at_once_and_more_soon() {
        let all = RefCell::new(Vec::new());
        let mut chunks = Chunks::new(|chunk| all.borrow_mut().push(chunk));
        for letter in ["a", "b", "c"] {
            chunks.push(letter.as_bytes());
        }
        assert_eq!(*all.borrow(), ["a"]);
        let start = Instant::now();
        chunks.flush_in_time().await;
        assert_eq!(start.elapsed(), EVERY);
        assert_eq!(*all.borrow(), ["a", "bc"]);
        assert!(tokio::time::timeout(Duration::from_secs(60), chunks.flush_in_time()).await.is_err());
    }

    proptest! {
        #[test]
        fn the_chunks_are_the_text(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 1_usize..20) {
            let pieces: Vec<&[u8]> = bytes.chunks(cut).collect();
            let text = String::from_utf8_lossy(&bytes);
            prop_assert_eq!(published(&pieces).concat(), text.trim_end());
        }
    }
}
