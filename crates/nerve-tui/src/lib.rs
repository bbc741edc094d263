//! The viewer of running programs and recordings, and the user's terminal.
//!
//! | module | contents |
//! |---|---|
//! | [`view`] | the viewer: keys and output in, cells out; no I/O, no clock |
//! | [`terminal`] | the user's terminal: raw mode, keys, frames, signals; it is restored in all cases |
//! | [`session`] | a viewer in the user's terminal |
//! | [`live`] | shows a running program |
//! | [`recording`] | shows and plays a recording |
//! | [`tool_view`] | the terminal of an agent's tool |
//!
//! What needs more than the terminal, such as branches and snapshots, is a [`session::Request`] that the caller
//! performs.
#![warn(missing_docs)]

mod error;
pub mod live;
pub mod recording;
pub mod session;
pub mod terminal;
pub mod tool_view;
pub mod view;

pub use self::error::TuiError;
