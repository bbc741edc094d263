//! Shows a running program: the viewer's event loop.

mod session;
mod tool_list;

use nerve_types::ExitStatus;

pub use self::session::LiveSession;
pub use self::tool_list::tool_list_path;
use crate::view::bindings::Bindings;
use crate::view::layout::Gutter;

/// Reason why an unrecorded program cannot be branched from.
pub const NOTHING_KEPT: &str = "the session is not recorded: see --out-file of 'nerve record'";

/// Options of a viewer.
#[derive(Debug, Clone)]
pub struct ViewerOptions {
    /// Display name: a node's name or a command.
    pub name: String,
    /// Place of snapshot marks.
    pub gutter: Gutter,
    /// Key bindings.
    pub bindings: Bindings,
    /// Input never reaches the program.
    pub read_only: bool,
    /// Draw in colours.
    pub has_colors: bool,
    /// Pass on the program's clipboard texts.
    pub clipboard: bool,
    /// Stay open after the program has ended.
    pub stay: bool,
    /// Message shown at first.
    pub notice: Option<&'static str>,
}

/// Reason for leaving the viewer of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// The user detached; the program is still running.
    Detached,
    /// The program has ended.
    Ended(ExitStatus),
    /// The window was closed, or this process got the signal with this number; the program is still running.
    Closed(Option<u8>),
}
