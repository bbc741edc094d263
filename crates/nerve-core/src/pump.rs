//! The one place where a byte gets its time and its offset; then taps, then the terminal model.

use nerve_term::event::{Event, EventKind, ExitStatus, Size, TsNs};
use nerve_term::terminal::{Changes, TerminalState};

use crate::tap::Tap;

/// A terminal's bytes on their way into its taps and its model.
pub struct Pump {
    taps: Vec<Box<dyn Tap>>,
    terminal: TerminalState,
    failed: Vec<String>,
}

impl std::fmt::Debug for Pump {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pump")
            .field("offset", &self.offset())
            .field("taps", &self.taps.len())
            .finish_non_exhaustive()
    }
}

impl Pump {
    /// A pump into a fresh terminal.
    pub fn new(size: Size, taps: Vec<Box<dyn Tap>>) -> Pump {
        Pump { taps, terminal: TerminalState::new(size), failed: Vec::new() }
    }

    /// Output bytes so far.
    pub fn offset(&self) -> u64 {
        self.terminal.offset()
    }

    /// The terminal model.
    pub fn terminal(&self) -> &TerminalState {
        &self.terminal
    }

    /// The terminal model, to change what is no event (clearing scrollback, opening a late frame).
    pub fn terminal_mut(&mut self) -> &mut TerminalState {
        &mut self.terminal
    }

    /// The child wrote `bytes`.
    pub fn output(&mut self, at: TsNs, bytes: &[u8]) -> Changes {
        self.tap(at, || EventKind::Output(bytes.to_vec()));
        self.terminal.process_data(at, bytes)
    }

    /// `bytes` go to the child.
    pub fn input(&mut self, at: TsNs, bytes: &[u8]) {
        self.tap(at, || EventKind::Input(bytes.to_vec()));
    }

    /// The terminal got another size.
    pub fn resize(&mut self, at: TsNs, size: Size) {
        self.tap(at, || EventKind::Resize(size));
        self.terminal.resize(size);
    }

    /// The child is gone.
    pub fn exit(&mut self, at: TsNs, status: ExitStatus) {
        self.tap(at, || EventKind::Exit(status));
    }

    /// Reports of taps that failed since the last call.
    pub fn take_failures(&mut self) -> Vec<String> {
        std::mem::take(&mut self.failed)
    }

    fn tap(&mut self, at: TsNs, kind: impl FnOnce() -> EventKind) {
        if self.taps.is_empty() {
            return;
        }
        let event = Event { at, off: self.terminal.offset(), kind: kind() };
        let failed = &mut self.failed;
        self.taps.retain_mut(|tap| match tap.event(&event) {
            Ok(()) => true,
            Err(error) => {
                failed.push(format!("tap '{}' failed and is off: {error}", tap.name()));
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

    /// Keeps so many events, then fails.
    struct Collect(Seen, usize);

    impl Tap for Collect {
        fn name(&self) -> &str {
            "collect"
        }
        fn event(&mut self, event: &Event) -> Result<(), String> {
            let mut seen = self.0.lock().unwrap();
            if seen.len() == self.1 {
                return Err("full".into());
            }
            if let EventKind::Output(bytes) = &event.kind {
                seen.push((event.off, bytes.clone()));
            }
            Ok(())
        }
    }

    #[test]
    fn taps_see_every_byte_with_its_offset() {
        let seen = Arc::default();
        let mut pump = Pump::new(Size::default(), vec![Box::new(Collect(Arc::clone(&seen), 9))]);
        pump.output(TsNs(1), b"abc");
        pump.output(TsNs(2), b"de");
        assert_eq!(*seen.lock().unwrap(), vec![(0, b"abc".to_vec()), (3, b"de".to_vec())]);
        assert_eq!(pump.offset(), 5);
    }

    #[test]
    fn a_failing_tap_is_dropped_and_reported_once_and_the_model_goes_on() {
        let mut pump = Pump::new(Size::default(), vec![Box::new(Collect(Arc::default(), 1))]);
        pump.output(TsNs(1), b"a");
        pump.output(TsNs(2), b"b");
        pump.output(TsNs(3), b"c");
        assert_eq!(pump.take_failures(), vec!["tap 'collect' failed and is off: full".to_string()]);
        assert_eq!(pump.terminal().screen().text(), "abc");
    }
}
