//! The viewer: what a window on a terminal shows, live or of a recording. Pure: keys, output and sizes in, rows out.
//!
//! | module | what it is |
//! |---|---|
//! | [`viewer`] | its state |
//! | [`draw`] | its state as cells |
//! | [`document`] | what there is to show |
//! | [`keys`], [`bindings`] | what can be done, and by which key |
//! | [`search`] | text in its lines |
//! | [`viewport`] | which rows of a document are in the window |
#![warn(missing_docs)]

pub mod bindings;
pub mod document;
pub mod draw;
mod help;
pub mod keys;
pub mod search;
pub mod timeline;
pub mod tools;
pub mod viewer;
pub mod viewport;
