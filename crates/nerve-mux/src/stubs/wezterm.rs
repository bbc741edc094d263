//! The interface of WezTerm in a build without it.

use std::path::Path;

use nerve_host::backend::{PaneError, PaneInfo, SpawnError};
use nerve_types::Size;

use crate::pane::{NewPane, PaneContext, PaneEntry, Panes};
use crate::stubs::UnsupportedPane;

const ERROR: PaneError = PaneError::NotBuilt("WezTerm");

/// A range of rows that ends at the bottom of the screen.
#[derive(Debug, Clone, Copy)]
pub struct Range;

impl Range {
    pub fn screen(_: u16) -> Range {
        Range
    }

    pub fn with_scrollback(_: u16, _: u32) -> Range {
        Range
    }
}

/// A few exact bytes.
#[derive(Debug, Clone)]
pub struct Keys;

impl Keys {
    pub fn new(_: &[u8]) -> Option<Keys> {
        Some(Keys)
    }
}

/// WezTerm's command line. Every call fails with [`PaneError::NotBuilt`].
#[derive(Debug, Clone)]
pub struct Wezterm;

impl Wezterm {
    pub fn new(_: Option<String>) -> Wezterm {
        Wezterm
    }

    pub async fn list(&self) -> Result<Vec<PaneInfo>, PaneError> {
        Err(ERROR)
    }

    pub async fn pane_info(&self, _: &str) -> Result<PaneInfo, PaneError> {
        Err(ERROR)
    }

    pub async fn spawn(&self, _: &NewPane) -> Result<String, PaneError> {
        Err(ERROR)
    }

    pub async fn paste(&self, _: &str, _: &[u8]) -> Result<(), PaneError> {
        Err(ERROR)
    }

    pub async fn keys(&self, _: &str, _: &Keys) -> Result<(), PaneError> {
        Err(ERROR)
    }

    pub async fn text(&self, _: &str, _: Range, _: bool) -> Result<String, PaneError> {
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

pub fn adopt(_: &Panes, entry: PaneEntry, _: bool) -> (UnsupportedPane, PaneEntry) {
    (UnsupportedPane::new("WezTerm"), entry)
}
