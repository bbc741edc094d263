//! Keeps the latest output of a terminal, with its size changes and snapshots, for clients that subscribe late.

use std::collections::VecDeque;

use nerve_types::{Size, TsNs};

use crate::protocol::{self, CHUNK, HostEvent};

/// Bytes of output kept.
const BACKLOG: usize = 4 << 20;
/// Size changes and snapshots kept.
const MARKS: usize = 4096;

/// A bounded buffer of recent output and the events between its bytes.
#[derive(Debug)]
pub(super) struct Backlog {
    /// Offset of the first byte kept.
    pub(super) oldest: u64,
    bytes: VecDeque<u8>,
    /// Size of the terminal at the first byte kept.
    first: Size,
    /// Size changes and snapshots, each with the output offset it precedes, in order.
    marks: VecDeque<(u64, HostEvent)>,
}

impl Backlog {
    pub(super) fn new(size: Size) -> Backlog {
        Backlog { oldest: 0, bytes: VecDeque::new(), first: size, marks: VecDeque::new() }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let over = self.bytes.len().saturating_sub(BACKLOG);
        self.bytes.drain(..over);
        self.oldest += over as u64;
        while self.marks.front().is_some_and(|(off, _)| *off < self.oldest) {
            self.forget_mark();
        }
    }

    /// Adds an event at the current output offset.
    pub(super) fn mark(&mut self, event: HostEvent) {
        self.marks.push_back((self.oldest + self.bytes.len() as u64, event));
        if self.marks.len() > MARKS {
            self.forget_mark();
        }
    }

    fn forget_mark(&mut self) {
        if let Some((_, HostEvent::Resized(size))) = self.marks.pop_front() {
            self.first = size;
        }
    }

    /// Returns everything kept from byte `off` on as frames, beginning with the size at that byte. `off` must not be below
    /// `oldest`.
    pub(super) fn frames_since(&self, off: u64, now: TsNs) -> Vec<u8> {
        let before = self.marks.iter().take_while(|(at, _)| *at < off);
        let size = before.fold(self.first, |size, (_, event)| match event {
            HostEvent::Resized(size) => *size,
            _ => size,
        });
        let mut frames = Vec::with_capacity(self.bytes.len() + 1024);
        HostEvent::Resized(size).encode(&mut frames);
        let mut from = off;
        for (at, event) in self.marks.iter().skip_while(|(at, _)| *at < off) {
            self.encode_between(from, *at, now, &mut frames);
            event.encode(&mut frames);
            from = *at;
        }
        self.encode_between(from, self.oldest + self.bytes.len() as u64, now, &mut frames);
        frames
    }

    fn encode_between(&self, from: u64, to: u64, now: TsNs, frames: &mut Vec<u8>) {
        let index = |off: u64| usize::try_from(off.saturating_sub(self.oldest)).unwrap_or(usize::MAX);
        let to = index(to).min(self.bytes.len());
        let bytes: Vec<u8> = self.bytes.range(index(from).min(to)..to).copied().collect();
        encode_output(now, from, &bytes, frames);
    }
}

/// Appends output as frames of at most [`CHUNK`] bytes.
pub(super) fn encode_output(at: TsNs, mut off: u64, bytes: &[u8], frames: &mut Vec<u8>) {
    for chunk in bytes.chunks(CHUNK) {
        protocol::encode_output(frames, at, off, chunk);
        off += chunk.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::super::protocol::Frames;
    use super::*;

    const SIZE: Size = Size { cols: 80, rows: 24 };

    fn events_since(backlog: &Backlog, off: u64) -> Vec<HostEvent> {
        let mut frames = Frames::default();
        frames.read_buffer().extend(backlog.frames_since(off, TsNs(0)));
        let mut events = Vec::new();
        while let Some(body) = frames.take().unwrap() {
            events.push(HostEvent::decode(body).unwrap().unwrap());
        }
        events
    }

    fn output(off: u64, bytes: &[u8]) -> HostEvent {
        HostEvent::Output { at: TsNs(0), off, bytes: bytes.to_vec() }
    }

    fn snapshot(id: u64, anchor: u64) -> HostEvent {
        HostEvent::Snapshot { at: TsNs(id), id, anchor, label: String::new() }
    }

    #[test]
    fn sizes_and_snapshots_keep_their_positions() {
        let mut backlog = Backlog::new(SIZE);
        backlog.push(b"abc");
        backlog.mark(HostEvent::Resized(Size::new(60, 10)));
        backlog.push(b"de");
        backlog.mark(snapshot(1, 5));
        let [small, mark] = [HostEvent::Resized(Size::new(60, 10)), snapshot(1, 5)];
        assert_eq!(
            events_since(&backlog, 0),
            [HostEvent::Resized(SIZE), output(0, b"abc"), small.clone(), output(3, b"de"), mark.clone()]
        );
        assert_eq!(events_since(&backlog, 4), [small.clone(), output(4, b"e"), mark.clone()]);
        assert_eq!(
            events_since(&backlog, 5),
            [small, mark],
            "events at this offset are repeated, because the client may not have them"
        );
    }

    #[test]
    fn dropped_bytes_leave_only_the_latest_size() {
        let mut backlog = Backlog::new(SIZE);
        backlog.push(b"x");
        backlog.mark(HostEvent::Resized(Size::new(60, 10)));
        backlog.mark(snapshot(1, 1));
        backlog.push(&vec![b'y'; BACKLOG + 1]);
        assert_eq!(backlog.oldest, 2);
        let events = events_since(&backlog, 2);
        assert_eq!(events[0], HostEvent::Resized(Size::new(60, 10)));
        assert!(events[1..].iter().all(|event| matches!(event, HostEvent::Output { .. })));
        for id in 0..=MARKS as u64 {
            backlog.mark(snapshot(id, 0));
        }
        assert_eq!(backlog.marks.len(), MARKS);
    }
}
