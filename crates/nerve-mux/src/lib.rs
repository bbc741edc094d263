//! Terminals in the panes of tmux and WezTerm, as backends.
//!
//! Each multiplexer is a feature, enabled by default. Without it, every call of the multiplexer's command line fails with
//! [`nerve_host::backend::PaneError::NotBuilt`].

#![warn(missing_docs)]

mod exec;
mod handover;
pub mod pane;
mod pane_text;
pub mod tmux;
mod tty;
pub mod wezterm;
mod window;

pub use window::Window;
