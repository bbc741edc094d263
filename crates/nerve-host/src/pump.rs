//! The only place where bytes get their time and offset, before they reach the taps.

use nerve_types::{Event, EventKind, ExitStatus, Origin, Size, TsNs};

use crate::tap::Tap;

/// Returns the replacement for a hidden byte. Lengths and line ends are preserved.
fn redact(byte: &u8) -> u8 {
    if matches!(byte, b'\r' | b'\n') { *byte } else { b'*' }
}

/// Counts a terminal's bytes and passes all its events to the taps.
#[derive(Default)]
pub struct Pump {
    taps: Vec<Box<dyn Tap>>,
    offset: u64,
    failed: Vec<String>,
}

impl std::fmt::Debug for Pump {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pump")
            .field("offset", &self.offset)
            .field("taps", &self.taps.len())
            .finish_non_exhaustive()
    }
}

impl Pump {
    /// Creates a pump for a new terminal.
    pub fn new(taps: Vec<Box<dyn Tap>>) -> Pump {
        Pump { taps, ..Pump::default() }
    }

    /// Creates a pump that continues after `offset` bytes of output.
    pub fn resume(taps: Vec<Box<dyn Tap>>, offset: u64) -> Pump {
        Pump { taps, offset, ..Pump::default() }
    }

    /// Removes and returns the taps; the count stays.
    pub fn take_taps(&mut self) -> Vec<Box<dyn Tap>> {
        std::mem::take(&mut self.taps)
    }

    /// Returns the number of output bytes so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Records output of the child.
    pub fn output(&mut self, at: TsNs, bytes: &[u8]) {
        self.tap(at, EventKind::Output(bytes));
        self.offset += bytes.len() as u64;
    }

    /// Records input for the child. With `hidden`, the taps receive asterisks.
    pub fn input(&mut self, at: TsNs, bytes: &[u8], origin: Origin, hidden: bool) {
        let stars: Vec<u8> = if hidden { bytes.iter().map(redact).collect() } else { Vec::new() };
        let bytes = if hidden { &stars } else { bytes };
        self.tap(at, EventKind::Input { bytes, origin, redacted: hidden });
    }

    /// Records a size change.
    pub fn resize(&mut self, at: TsNs, size: Size) {
        self.tap(at, EventKind::Resize(size));
    }

    /// Records a snapshot.
    pub fn snapshot(&mut self, at: TsNs, id: u64, label: &str) {
        self.tap(at, EventKind::Snapshot { id, label });
    }

    /// Records that output is missing.
    pub fn gap(&mut self, at: TsNs) {
        self.tap(at, EventKind::Gap);
    }

    /// Records the child's exit.
    pub fn exit(&mut self, at: TsNs, status: ExitStatus) {
        self.tap(at, EventKind::Exit(status));
    }

    /// Returns the messages of taps, and of taps that failed, since the last call.
    pub fn take_failures(&mut self) -> Vec<String> {
        let mut messages = std::mem::take(&mut self.failed);
        messages.extend(self.taps.iter_mut().flat_map(|tap| tap.take_notices()));
        messages
    }

    fn tap(&mut self, at: TsNs, kind: EventKind<'_>) {
        let event = Event { at, off: self.offset, kind };
        let failed = &mut self.failed;
        self.taps.retain_mut(|tap| match tap.event(&event) {
            Ok(()) => true,
            Err(error) => {
                failed.push(format!("tap '{}' failed and was removed: {error}", tap.name()));
                false
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    type Seen = Arc<Mutex<Vec<(u64, Vec<u8>)>>>;

    /// Collects up to this many events, then fails.
    struct Collect(Seen, usize);

    impl Tap for Collect {
        fn name(&self) -> &str {
            "collect"
        }
        fn event(&mut self, event: &Event<'_>) -> Result<(), String> {
            let mut seen = self.0.lock().unwrap();
            if seen.len() == self.1 {
                return Err("full".into());
            }
            if let EventKind::Output(bytes) | EventKind::Input { bytes, .. } = event.kind {
                seen.push((event.off, bytes.to_vec()));
            }
            Ok(())
        }
    }

    #[test]
    fn taps_see_every_byte_with_its_offset() {
        let seen = Arc::default();
        let mut pump = Pump::new(vec![Box::new(Collect(Arc::clone(&seen), 9))]);
        pump.output(TsNs(1), b"abc");
        pump.output(TsNs(2), b"de");
        assert_eq!(*seen.lock().unwrap(), vec![(0, b"abc".to_vec()), (3, b"de".to_vec())]);
        assert_eq!(pump.offset(), 5);
    }

    #[test]
    fn hidden_input_is_redacted_to_its_length() {
        let seen = Arc::default();
        let mut pump = Pump::new(vec![Box::new(Collect(Arc::clone(&seen), 9))]);
        pump.input(TsNs(1), b"seen", Origin::Api, false);
        pump.input(TsNs(2), b"secret\r", Origin::Api, true);
        assert_eq!(*seen.lock().unwrap(), vec![(0, b"seen".to_vec()), (0, b"******\r".to_vec())]);
    }

    #[test]
    fn failing_tap_is_dropped_and_reported_once() {
        let seen = Arc::default();
        let mut pump =
            Pump::new(vec![Box::new(Collect(Arc::default(), 1)), Box::new(Collect(Arc::clone(&seen), 9))]);
        pump.output(TsNs(1), b"a");
        pump.output(TsNs(2), b"b");
        pump.output(TsNs(3), b"c");
        assert_eq!(pump.take_failures(), vec!["tap 'collect' failed and was removed: full".to_string()]);
        assert_eq!(seen.lock().unwrap().len(), 3, "the other tap continues");
    }
}
