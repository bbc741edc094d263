//! The viewer: what a window on a terminal shows, live or of a recording. Pure: keys, output and sizes in, rows out.
//!
//! | module | what it is |
//! |---|---|
//! | [`viewer`] | its state; what keys do: `input`, `entering`, `moments`, `modal`, `mouse` |
//! | [`pager`] | a window that is gone through, with `finding` |
//! | [`entry`], [`tools`] | the task entry's text; what the agent runs |
//! | [`places`] | what somebody has before him who does something |
//! | [`draw`], [`layout`], [`facts`], [`timeline`] | its state as cells, and where what is |
//! | [`decorations`] | what cells have that ratatui's have not |
//! | [`pen`], [`svg`] | cells as bytes for a terminal, as a picture |
//! | [`document`] | what there is to show |
//! | [`keys`], [`bindings`] | what can be done, and by which key |
//! | [`search`] | text in its lines |
//! | [`viewport`] | which rows of a document are in the window |
#![warn(missing_docs)]

mod along;
mod asked;
mod asking;
pub mod bindings;
mod brackets;
mod cells;
mod changes;
pub mod decorations;
pub mod document;
pub mod draw;
mod entering;
pub mod entry;
mod entry_box;
pub mod facts;
mod filter;
mod finding;
mod fitting;
mod help;
mod input;
pub mod keys;
pub mod layout;
mod looking;
mod marks;
mod message;
mod modal;
mod modal_box;
mod moments;
mod mouse;
mod operations;
pub mod pager;
mod pattern;
pub mod pen;
pub mod places;
mod prefixed;
mod prompt;
pub mod search;
mod sheet;
mod snapshots;
mod status;
pub mod svg;
pub mod timeline;
pub mod tools;
mod typing;
pub mod viewer;
pub mod viewport;
