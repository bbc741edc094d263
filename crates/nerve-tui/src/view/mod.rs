//! The viewer's core: turns input events, terminal output and window sizes into screen cells. It does no I/O and reads no clock,
//! and uses no other module of this crate.
//!
//! | module | contents |
//! |---|---|
//! | [`viewer`] | the viewer's state, and in `subject` what the user may do; its input handling is in `input`, `mouse`, `tools_keys` and `entry_navigation` |
//! | [`pager`] | one scrollable window with the keys of `less`; searching is in [`search`] |
//! | [`task_entry`], [`tools`] | the text box for a new task; the tools that the agent runs |
//! | [`regions`] | the frame that an input event refers to |
//! | [`draw`], [`layout`], [`status_info`], [`timeline`] | rendering into cells |
//! | [`decorations`] | cell attributes that ratatui cannot hold |
//! | [`ansi_writer`] | encodes cells for a terminal |
//! | [`document`] | the lines to show |
//! | [`keys`], [`operations`], [`bindings`] | keys, operations and their key bindings |
//! | [`viewport`] | which rows of a document are in the window |

mod alt_screen_snapshots;
pub mod ansi_writer;
pub mod bindings;
mod bookmarks;
mod brackets;
mod cells;
pub mod decorations;
pub mod document;
pub mod draw;
mod effect;
mod entry_navigation;
mod filter;
mod follow;
mod help;
mod input;
pub mod keys;
pub mod layout;
pub(crate) mod line_edit;
mod match_navigation;
mod message;
mod mouse;
pub mod operations;
pub mod pager;
mod prompt_keys;
pub mod regions;
pub mod search;
mod search_prompt;
mod snapshot_navigation;
mod snapshot_view;
mod status;
pub mod status_info;
mod subject;
pub mod task_entry;
pub mod timeline;
pub mod tools;
mod tools_keys;
mod tools_modal;
mod tools_panel;
pub(crate) mod truncate;
mod update;
pub mod viewer;
pub mod viewport;
