//! The output of a terminal for clients that show it live.
//!
//! The feed keeps the newest output once, and each subscription only has a position in it. A client that does not read costs no
//! memory: when the feed has dropped the bytes at its position, it begins again with a dump of the terminal.

use std::collections::VecDeque;
use std::ops::Range;

use nerve_types::Size;
use nerve_vt::terminal::SequenceState;
use tokio::sync::{oneshot, watch};

/// Bytes kept without a subscription.
const IDLE_BYTES: usize = 64 << 10;
/// Bytes kept while there are subscriptions, and after the last one until as much output has followed: a client whose connection
/// broke resumes from them.
const WATCHED_BYTES: usize = 1 << 20;
const ESC: u8 = 0x1b;
/// Maximum length of a character in UTF-8 in bytes.
const MAX_CHAR: usize = 4;
/// Sizes kept.
const MAX_SIZES: usize = 256;

/// Receives the beginning of a subscription.
pub type WatchReply = oneshot::Sender<(OutputStart, OutputSubscription)>;

/// A position in the output of a program, as clients know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPosition {
    /// The output that the offset counts in ([`OutputStart::stream`]). `None`: that of the node's program.
    pub stream: Option<String>,
    /// Bytes of output before the position.
    pub offset: u64,
}

/// The beginning of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputStart {
    /// Identifies the program's output. A host keeps it when the server is restarted.
    pub stream: String,
    /// Offset of the next output.
    pub offset: u64,
    /// Size of the terminal at this offset.
    pub size: Size,
    /// Bytes that recreate the terminal with the end of its scrollback. `None`: the client resumes at its position.
    pub dump: Option<Vec<u8>>,
}

/// An update of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputUpdate {
    /// Output that begins at this offset.
    Bytes(u64, Vec<u8>),
    /// The terminal was resized at this offset.
    Resized(u64, Size),
    /// The next bytes are not kept any more: subscribe again.
    Missed,
    /// The program has ended, with this description, and all its output was read.
    Ended(String),
    /// The node was detached from the program, which may continue.
    Detached,
}

/// The newest output of a terminal.
#[derive(Debug)]
struct State {
    /// Offset of the first byte kept.
    start: u64,
    bytes: VecDeque<u8>,
    /// Size at `start`.
    first_size: Size,
    /// Later sizes with their offsets.
    sizes: VecDeque<(u64, Size)>,
    /// Number of sizes that were dropped.
    dropped_sizes: u64,
    /// Offset up to which a client has watched. `None`: no client ever did.
    watched: Option<u64>,
    end: Option<String>,
}

impl State {
    fn end_offset(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Returns how many bytes are kept when the output ends at `end`.
    fn limit(&self, end: u64) -> usize {
        let is_recent = |watched: u64| end - watched <= WATCHED_BYTES as u64;
        if self.watched.is_some_and(is_recent) { WATCHED_BYTES } else { IDLE_BYTES }
    }

    /// Returns the escape sequence or character at the end of the output that has only begun.
    fn incomplete_end(&self) -> Vec<u8> {
        let last_escape = self.bytes.iter().rposition(|byte| *byte == ESC);
        let sequence: Vec<u8> =
            last_escape.map_or_else(Vec::new, |at| self.bytes.range(at..).copied().collect());
        let mut state = SequenceState::default();
        state.feed(&sequence);
        if state != SequenceState::Ground {
            return sequence;
        }
        let tail: Vec<u8> = self.bytes.range(self.bytes.len().saturating_sub(MAX_CHAR)..).copied().collect();
        let incomplete = (0..tail.len()).find(|at| {
            let error = std::str::from_utf8(&tail[*at..]).err();
            error.is_some_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
        });
        incomplete.map_or_else(Vec::new, |at| tail[at..].to_vec())
    }

    /// Drops what is before `start`.
    fn drop_before(&mut self, start: u64) {
        let count = usize::try_from(start.saturating_sub(self.start)).unwrap_or(usize::MAX);
        self.bytes.drain(..count.min(self.bytes.len()));
        self.start = self.start.max(start);
        while self.sizes.front().is_some_and(|(offset, _)| *offset < self.start) {
            self.drop_size();
        }
    }

    /// Drops the oldest size, and the output before it, which had another one.
    fn drop_size(&mut self) {
        if let Some((offset, size)) = self.sizes.pop_front() {
            self.first_size = size;
            self.dropped_sizes += 1;
            self.drop_before(offset);
        }
    }
}

/// Publishes the output of one terminal.
#[derive(Debug)]
pub struct OutputFeed {
    state: watch::Sender<State>,
    /// Clients that subscribed during a replay.
    waiting: Vec<(Option<u64>, WatchReply)>,
}

impl OutputFeed {
    /// Creates the feed of a terminal with this size, before its first output.
    pub fn new(size: Size) -> OutputFeed {
        let state = State {
            start: 0,
            bytes: VecDeque::new(),
            first_size: size,
            sizes: VecDeque::new(),
            dropped_sizes: 0,
            watched: None,
            end: None,
        };
        OutputFeed { state: watch::Sender::new(state), waiting: Vec::new() }
    }

    /// Adds output. Only the last bytes of a long output are kept.
    pub fn push(&self, bytes: &[u8]) {
        let is_watched = self.state.receiver_count() > 0;
        self.state.send_modify(|state| {
            let end = state.end_offset() + bytes.len() as u64;
            if is_watched {
                state.watched = Some(end);
            }
            let limit = state.limit(end);
            state.drop_before(end.saturating_sub(limit as u64));
            let kept = usize::try_from(end - state.end_offset()).unwrap_or(usize::MAX).min(bytes.len());
            // A long output has moved the beginning beyond its own first bytes.
            state.bytes.extend(&bytes[bytes.len() - kept..]);
            if limit == IDLE_BYTES && state.bytes.capacity() > 2 * IDLE_BYTES {
                state.bytes.shrink_to(IDLE_BYTES);
            }
        });
    }

    /// Notes that the output up to `offset` is missing.
    pub fn skip_to(&self, offset: u64) {
        self.state.send_modify(|state| state.drop_before(offset));
    }

    /// Notes a new size of the terminal.
    pub fn resize(&self, size: Size) {
        self.state.send_modify(|state| {
            let offset = state.end_offset();
            let newest = state.sizes.back().map_or(state.first_size, |(_, size)| *size);
            if newest == size {
                return;
            }
            if state.sizes.len() >= MAX_SIZES {
                state.drop_size();
            }
            state.sizes.push_back((offset, size));
        });
    }

    /// Notes the end of the program. All output has been added.
    pub fn end(&self, reason: &str) {
        self.state.send_modify(|state| state.end = Some(reason.to_string()));
    }

    /// Keeps a client waiting until the replay is over.
    pub fn wait(&mut self, since: Option<u64>, reply: WatchReply) {
        self.waiting.retain(|(_, reply)| !reply.is_closed());
        self.waiting.push((since, reply));
    }

    /// Returns the clients that waited for the end of the replay.
    pub fn take_waiting(&mut self) -> Vec<(Option<u64>, WatchReply)> {
        std::mem::take(&mut self.waiting)
    }

    /// Returns true if the output so far ends within an escape sequence or a character.
    pub fn ends_in_sequence(&self) -> bool {
        !self.state.borrow().incomplete_end().is_empty()
    }

    /// Subscribes to the output after `since`, if it is kept, or after a dump of the terminal. An incomplete sequence or character
    /// follows the dump: the next output completes it.
    pub fn subscribe(
        &self,
        since: Option<u64>,
        dump: impl FnOnce() -> Vec<u8>,
    ) -> (OutputStart, OutputSubscription) {
        self.state.send_if_modified(|state| {
            state.watched = Some(state.end_offset());
            false
        });
        let receiver = self.state.subscribe();
        let (start, seen_sizes) = {
            let state = receiver.borrow();
            let resumed = since.filter(|offset| (state.start..=state.end_offset()).contains(offset));
            let offset = resumed.unwrap_or(state.end_offset());
            let seen = state.sizes.iter().take_while(|(at, _)| *at <= offset).count();
            let size = seen.checked_sub(1).map_or(state.first_size, |last| state.sizes[last].1);
            let dump = || [dump(), state.incomplete_end()].concat();
            let dump = if resumed.is_some() { None } else { Some(dump()) };
            let start = OutputStart { stream: String::new(), offset, size, dump };
            (start, state.dropped_sizes + seen as u64)
        };
        let subscription = OutputSubscription { state: receiver, next: start.offset, seen_sizes };
        (start, subscription)
    }
}

/// A client's position in the output of a terminal.
#[derive(Debug)]
pub struct OutputSubscription {
    state: watch::Receiver<State>,
    /// Offset of the next byte to read.
    next: u64,
    /// Number of sizes read or skipped.
    seen_sizes: u64,
}

impl OutputSubscription {
    /// Returns the next update with at most `limit` bytes, at least 1. Cancel-safe. Repeats the last update after the end.
    pub async fn next(&mut self, limit: usize) -> OutputUpdate {
        loop {
            if let Some(update) = self.try_next(limit.max(1)) {
                return update;
            }
            if self.state.changed().await.is_err() {
                return self.try_next(limit.max(1)).unwrap_or(OutputUpdate::Detached);
            }
        }
    }

    fn try_next(&mut self, limit: usize) -> Option<OutputUpdate> {
        let state = self.state.borrow_and_update();
        if self.next < state.start || self.seen_sizes < state.dropped_sizes {
            return Some(OutputUpdate::Missed);
        }
        let size = usize::try_from(self.seen_sizes - state.dropped_sizes).ok();
        let size = size.and_then(|index| state.sizes.get(index)).copied();
        if let Some((offset, size)) = size.filter(|(offset, _)| *offset <= self.next) {
            self.seen_sizes += 1;
            return Some(OutputUpdate::Resized(offset, size));
        }
        let end = size.map_or(state.end_offset(), |(offset, _)| offset);
        if self.next < end {
            let from = usize::try_from(self.next - state.start).ok()?;
            let count = usize::try_from(end - self.next).map_or(limit, |count| count.min(limit));
            let bytes = copy_range(&state.bytes, from..from + count);
            let offset = self.next;
            self.next += count as u64;
            return Some(OutputUpdate::Bytes(offset, bytes));
        }
        state.end.clone().map(OutputUpdate::Ended)
    }
}

/// Copies a range by slices, which is faster than by bytes.
fn copy_range(bytes: &VecDeque<u8>, range: Range<usize>) -> Vec<u8> {
    let (first, second) = bytes.as_slices();
    let part = |slice: &[u8], skipped: usize| {
        let at = |index: usize| index.saturating_sub(skipped).min(slice.len());
        at(range.start)..at(range.end)
    };
    [&first[part(first, 0)], &second[part(second, first.len())]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { cols: 80, rows: 24 };
    const WIDE: Size = Size { cols: 120, rows: 24 };

    fn dump() -> Vec<u8> {
        b"dump".to_vec()
    }

    #[test]
    fn range_over_both_slices_is_copied() {
        let mut bytes = VecDeque::with_capacity(4);
        let capacity = bytes.capacity();
        bytes.extend(std::iter::repeat_n(b'-', capacity));
        bytes.drain(..2);
        bytes.extend(*b"ab");
        assert!(!bytes.as_slices().1.is_empty());
        for (from, to) in [(0, capacity), (0, 1), (capacity - 3, capacity), (capacity - 1, capacity), (1, 1)]
        {
            let expected: Vec<u8> = bytes.range(from..to).copied().collect();
            assert_eq!(copy_range(&bytes, from..to), expected);
        }
    }

    #[tokio::test]
    async fn updates_are_in_order_and_end() {
        let feed = OutputFeed::new(SIZE);
        feed.push(b"before");
        let (start, mut updates) = feed.subscribe(None, dump);
        let stream = String::new();
        assert_eq!(start, OutputStart { stream, offset: 6, size: SIZE, dump: Some(dump()) });
        feed.push(b"narrow");
        feed.resize(WIDE);
        feed.resize(WIDE);
        feed.push(b"wide");
        feed.end("done");
        for update in [
            OutputUpdate::Bytes(6, b"narr".to_vec()),
            OutputUpdate::Bytes(10, b"ow".to_vec()),
            OutputUpdate::Resized(12, WIDE),
            OutputUpdate::Bytes(12, b"wide".to_vec()),
            OutputUpdate::Ended("done".to_string()),
            OutputUpdate::Ended("done".to_string()),
        ] {
            assert_eq!(updates.next(4).await, update);
        }
        drop(feed);
        assert_eq!(updates.next(4).await, OutputUpdate::Ended("done".to_string()));
    }

    #[tokio::test]
    async fn incomplete_sequence_follows_the_dump() {
        for (output, incomplete) in [
            (&b"text\x1b[3"[..], &b"\x1b[3"[..]),
            (b"\x1b[31mred", b""),
            (b"\x1b]0;title", b"\x1b]0;title"),
            ("caf\u{e9}".as_bytes(), b""),
            (&"caf\u{e9}".as_bytes()[..4], b"\xc3"),
            (&"\x1b[m\u{1f600}".as_bytes()[..6], &"\u{1f600}".as_bytes()[..3]),
            (b"latin \xe9.", b""),
        ] {
            let feed = OutputFeed::new(SIZE);
            feed.push(output);
            let (start, _) = feed.subscribe(None, dump);
            assert_eq!(start.dump, Some([b"dump", incomplete].concat()), "{output:?}");
            assert_eq!(start.offset, output.len() as u64);
        }
    }

    #[tokio::test]
    async fn kept_offset_resumes_with_its_size() {
        let feed = OutputFeed::new(SIZE);
        feed.push(b"0123");
        feed.resize(WIDE);
        feed.push(b"4567");
        let (start, mut updates) = feed.subscribe(Some(2), dump);
        assert_eq!((start.offset, start.size, start.dump), (2, SIZE, None));
        assert_eq!(updates.next(9).await, OutputUpdate::Bytes(2, b"23".to_vec()));
        assert_eq!(updates.next(9).await, OutputUpdate::Resized(4, WIDE));
        let (start, mut updates) = feed.subscribe(Some(4), dump);
        assert_eq!((start.offset, start.size, start.dump), (4, WIDE, None));
        assert_eq!(updates.next(9).await, OutputUpdate::Bytes(4, b"4567".to_vec()));
        let (start, _) = feed.subscribe(Some(9), dump);
        assert_eq!((start.offset, start.dump), (8, Some(dump())));
        drop(feed);
        assert_eq!(updates.next(9).await, OutputUpdate::Detached);
    }

    #[tokio::test]
    async fn slow_reader_misses_output_and_memory_is_bounded() {
        let feed = OutputFeed::new(SIZE);
        let (_, mut slow) = feed.subscribe(None, dump);
        let chunk = vec![b'x'; 100_000];
        for _ in 0..50 {
            feed.push(&chunk);
        }
        assert_eq!(feed.state.borrow().bytes.len(), WATCHED_BYTES);
        assert_eq!(slow.next(9).await, OutputUpdate::Missed);
        drop(slow);
        feed.push(&vec![b'y'; 3 * WATCHED_BYTES]);
        let state = feed.state.borrow();
        assert_eq!(
            (state.bytes.len(), state.end_offset()),
            (IDLE_BYTES, 5_000_000 + 3 * WATCHED_BYTES as u64)
        );
        assert!(state.bytes.capacity() <= 2 * IDLE_BYTES, "{}", state.bytes.capacity());
    }

    #[tokio::test]
    async fn client_resumes_within_a_megabyte_after_its_connection_broke() {
        let feed = OutputFeed::new(SIZE);
        feed.push(&vec![b'x'; WATCHED_BYTES]);
        let (start, updates) = feed.subscribe(None, dump);
        drop(updates);
        feed.push(&vec![b'y'; WATCHED_BYTES / 2]);
        feed.push(&vec![b'y'; WATCHED_BYTES / 2]);
        let (resumed, updates) = feed.subscribe(Some(start.offset), dump);
        assert_eq!((resumed.offset, resumed.dump), (start.offset, None));
        drop(updates);
        feed.push(&vec![b'z'; WATCHED_BYTES + 1]);
        assert_eq!(feed.state.borrow().bytes.len(), IDLE_BYTES);
    }

    #[tokio::test]
    async fn gap_and_many_sizes_are_missed() {
        let feed = OutputFeed::new(SIZE);
        feed.push(b"0123");
        let (_, mut updates) = feed.subscribe(Some(0), dump);
        feed.skip_to(100);
        assert_eq!(updates.next(9).await, OutputUpdate::Missed);
        assert_eq!(feed.subscribe(None, dump).0.offset, 100);
        let (_, mut updates) = feed.subscribe(None, dump);
        for cols in 0..MAX_SIZES as u16 {
            feed.resize(Size { cols, rows: 1 });
            feed.push(b"x");
        }
        feed.resize(SIZE);
        assert_eq!(updates.next(9).await, OutputUpdate::Missed);
        assert!(feed.state.borrow().sizes.len() <= MAX_SIZES);
    }
}
