//! Terminals in the panes of tmux and WezTerm, as backends.
//!
//! Each multiplexer is a feature, enabled by default. Without it, its module has the same interface and every call fails with
//! [`nerve_host::backend::PaneError::NotBuilt`].

mod exec;
pub mod pane;
mod pane_text;
#[cfg(feature = "tmux")]
pub mod tmux;
#[cfg(not(feature = "tmux"))]
#[path = "stubs/tmux.rs"]
pub mod tmux;
#[cfg(feature = "wezterm")]
pub mod wezterm;
#[cfg(not(feature = "wezterm"))]
#[path = "stubs/wezterm.rs"]
pub mod wezterm;

#[cfg(not(all(feature = "tmux", feature = "wezterm")))]
mod stubs;
#[cfg(any(feature = "tmux", feature = "wezterm"))]
#[cfg_attr(
    not(all(feature = "tmux", feature = "wezterm")),
    expect(dead_code, reason = "each multiplexer uses only a part of it")
)]
mod tty;
