//! The viewer of running programs and recordings, and the user's terminal.
//!
//! | module | contents |
//! |---|---|
//! | [`view`] | the viewer: keys and output in, cells out; no I/O, no clock |
#![warn(missing_docs)]

pub mod view;
