//! The interface of event sinks such as the recorder.

use nerve_types::Event;

/// A sink of a terminal's events. It receives every byte before the terminal model, so that a bug in the model or a parser
/// loses no bytes.
pub trait Tap: Send {
    /// Returns the name for reports.
    fn name(&self) -> &str;
    /// Handles an event.
    ///
    /// # Errors
    /// The message. The tap is dropped and the failure reported once; the node continues.
    fn event(&mut self, event: &Event<'_>) -> Result<(), String>;
    /// Returns messages for the user since the last call, for example about an interruption.
    fn take_notices(&mut self) -> Vec<String> {
        Vec::new()
    }
}
