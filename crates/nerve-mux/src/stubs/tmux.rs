//! The interface of tmux in a build without it.

use std::path::Path;

use nerve_host::backend::{PaneError, PaneInfo, SpawnError};
use nerve_types::Size;

use crate::pane::{NewPane, PaneContext, PaneEntry, Panes};
use crate::stubs::UnsupportedPane;

const ERROR: PaneError = PaneError::NotBuilt("tmux");

/// Rows of a pane to read.
#[derive(Debug, Clone, Copy)]
pub enum Range {
    /// The visible rows.
    Screen,
    /// The last rows of scrollback and screen.
    Last(usize),
    /// Scrollback and screen.
    All,
}

/// tmux's command line. Every call fails with [`PaneError::NotBuilt`].
#[derive(Debug, Clone)]
pub struct Tmux;

impl Tmux {
    pub fn new(_: Option<&str>) -> Tmux {
        Tmux
    }

    pub async fn version(&self) -> Result<String, PaneError> {
        Err(ERROR)
    }

    pub async fn list(&self) -> Result<Vec<PaneInfo>, PaneError> {
        Err(ERROR)
    }

    pub async fn spawn(&self, _: &NewPane) -> Result<String, PaneError> {
        Err(ERROR)
    }

    pub async fn paste(&self, _: &str, _: &[u8]) -> Result<(), PaneError> {
        Err(ERROR)
    }

    pub async fn keys(&self, _: &str, _: &[u8]) -> Result<(), PaneError> {
        Err(ERROR)
    }

    pub async fn text(&self, _: &str, _: Range) -> Result<String, PaneError> {
        Err(ERROR)
    }

    pub async fn kill(&self, _: &str) -> Result<(), PaneError> {
        Err(ERROR)
    }
}

pub async fn start(
    _: PaneContext<'_>,
    _: impl FnOnce(&mut Vec<String>, Option<&Path>),
) -> Result<(UnsupportedPane, PaneEntry, Size), SpawnError> {
    Err(ERROR.into())
}

pub fn adopt(_: &Panes, _: PaneEntry) -> UnsupportedPane {
    UnsupportedPane::new("tmux")
}
