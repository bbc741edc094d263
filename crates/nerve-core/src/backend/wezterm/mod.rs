//! Panes of WezTerm, over its command line.

use super::SpawnError;
use super::pane::{PaneEntry, Panes, Setting};
use crate::node::terminal::{TerminalNode, TerminalSpec};

/// Makes a pane, or takes one over that is there.
///
/// # Errors
/// Nothing was started.
pub(crate) async fn start(_spec: TerminalSpec, _setting: Setting<'_>) -> Result<TerminalNode, SpawnError> {
    Err(SpawnError::Multiplexer("wezterm: not there yet".into()))
}

/// Takes the pane of a server that is gone. What comes of it is told as the backend's happenings: that it is gone too, or that somebody
/// else has it.
pub(crate) fn adopt(_spec: TerminalSpec, _panes: &Panes, _entry: PaneEntry) -> TerminalNode {
    unimplemented!()
}
