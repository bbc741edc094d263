//! Shows and plays recordings.

mod loader;
mod player;
mod recording_view;
mod renderer;
pub mod replay;
mod session;
mod terminal_guard;

pub use self::player::{Pace, Player};
pub use self::recording_view::RecordingView;
pub use self::session::RecordingSession;

/// Reason why the viewer or playback has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// The recording was played to its end.
    Finished,
    /// The user has left.
    Quit,
    /// Ctrl+C or a signal, by its number.
    Signal(u8),
}

/// Number of the signal that Ctrl+C stands for.
const SIGINT: u8 = 2;
