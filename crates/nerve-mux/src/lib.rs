//! Terminals in the panes of tmux and WezTerm, as backends.

pub mod pane;
pub mod tmux;
pub mod wezterm;

mod tty;
