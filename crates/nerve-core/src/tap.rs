//! What is told of every event before the terminal model sees it.

use nerve_term::event::Event;

/// A sink of a terminal's events: a recording, a copy, a test. It gets every byte before the model does, so that a fault in
/// the model or a parser still leaves the bytes in it.
pub trait Tap: Send {
    /// What it is called in reports.
    fn name(&self) -> &str;
    /// Takes an event.
    ///
    /// # Errors
    /// In words. The tap is dropped and the failure reported once; the node lives on.
    fn event(&mut self, event: &Event<'_>) -> Result<(), String>;
}
