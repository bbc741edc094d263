//! The viewer of running programs and recordings, and the user's terminal.
//!
//! | module | contents |
//! |---|---|
//! | [`view`] | the viewer: keys and output in, cells out; no I/O, no clock |
//! | [`terminal`] | the user's terminal: raw mode, keys, frames, signals; it is restored in all cases |
//! | [`settings`] | the user's settings |
//! | [`dashboard`] | the overview of nodes |
//! | [`viewer_session`] | a viewer in the user's terminal |
//! | [`mirror`] | a copy of a host's terminal |
//! | [`live_viewer`] | shows a running program |
//! | [`stdio_relay`] | connects the standard streams with a program, without a viewer |
//! | [`recording`] | shows and plays a recording |
//! | [`tool_view`] | the terminal of an agent's tool |
//!
//! An operation that needs more than the terminal, such as a branch or a snapshot, becomes a
//! [`viewer_session::Request`] that the caller performs.
#![warn(missing_docs)]

pub mod dashboard;
mod error;
pub mod live_viewer;
pub mod mirror;
pub mod recording;
pub mod settings;
pub mod stdio_relay;
pub mod terminal;
pub mod tool_view;
pub mod view;
pub mod viewer_session;

pub use self::error::TuiError;
