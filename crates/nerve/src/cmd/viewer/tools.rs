//! The executions of a session for the viewer: the list and the terminal of one.

use std::fs;
use std::path::Path;

use anyhow::Result;
use nerve_engine::recordings::unreadable_error;
use nerve_host::executions;
use nerve_host::executions::watch::Watch;
use nerve_host::registry::{Entry, entries};
use nerve_server::paths::ServerPaths;
use nerve_tui::mirror::{SizeRule, TerminalMirror};
use nerve_tui::tool_view::{OpenedTool, load_end, load_full};
use nerve_tui::view::tools::{InputReader, Tool, ToolState, ToolUpdate, ToolUpdates};
use nerve_types::Size;
use nerve_vt::terminal::TerminalState;

use super::execution_lookup::{Location, find_in_session};
use super::mirror;

/// Terminal size of an execution without a terminal.
pub(crate) const DEFAULT_SIZE: Size = Size { cols: 120, rows: 40 };
/// Size in bytes from which a recording is loaded in the background.
const LONG_RECORDING: u64 = 32 << 10;

/// Follows the tools of a session.
pub(crate) struct ToolFeed {
    watch: Watch,
    /// The list is full, which the next event reports.
    full: bool,
}

/// A change to the list.
pub(crate) enum ToolFeedEvent {
    /// Executions have changed.
    Changed(ToolUpdates),
    /// No more executions can be listed.
    Full,
}

impl ToolFeed {
    /// Follows the session with this recording, running or not.
    pub(crate) fn new(recording: &Path) -> ToolFeed {
        ToolFeed { watch: Watch::start(recording, &ServerPaths::from_env().data.hosts), full: false }
    }

    /// Waits for a change. Cancel-safe.
    ///
    /// # Errors
    /// The list cannot be followed any more.
    pub(crate) async fn changed(&mut self) -> Result<ToolFeedEvent> {
        if std::mem::take(&mut self.full) {
            return Ok(ToolFeedEvent::Full);
        }
        let executions::UpdateBatch { was_reset: reset, first, updates, full } = self.watch.changed().await?;
        self.full = full;
        Ok(ToolFeedEvent::Changed(ToolUpdates {
            reset,
            first,
            updates: updates.into_iter().map(to_tool_update).collect(),
        }))
    }
}

/// Converts an update for the viewer.
fn to_tool_update(update: executions::ExecutionUpdate) -> ToolUpdate {
    let executions::ExecutionUpdate { number, id, command, state, reader } = update;
    let state = match state {
        executions::State::Running => ToolState::Running,
        executions::State::Ended(code) => ToolState::Ended(code),
    };
    let reader = match reader {
        executions::Reader::Itself => InputReader::Tool,
        executions::Reader::NullInput => InputReader::NullInput,
        executions::Reader::RedirectedInput => InputReader::RedirectedInput,
        executions::Reader::Agent => InputReader::Agent,
    };
    ToolUpdate { number, tool: Tool { id, command, state }, reader }
}

/// Opens an execution of a session.
///
/// # Errors
/// The id is unknown, or the recording cannot be read.
pub(crate) fn open(recording: &Path, id: &str) -> Result<OpenedTool> {
    let paths = ServerPaths::from_env();
    let execution = find_in_session(id, recording, &entries(&paths.data.hosts))?;
    Ok(match execution.location {
        Location::Host(entry) => OpenedTool::Live(Box::new(open_tool_mirror(*entry, &paths)?)),
        Location::Recording(path) if is_long(&path) => {
            OpenedTool::Ended(Box::new(load_end(&path).map_err(unreadable_error)?), Some(path))
        }
        Location::Recording(path) => {
            OpenedTool::Ended(Box::new(load_full(&path, || true).map_err(unreadable_error)?), None)
        }
        Location::Agent { running: true } => OpenedTool::Agent,
        Location::Agent { running: false } => {
            let text = execution.line.output.unwrap_or_default();
            OpenedTool::Ended(Box::new(terminal_of(&text)), None)
        }
    })
}

fn is_long(recording: &Path) -> bool {
    fs::metadata(recording).is_ok_and(|meta| meta.len() > LONG_RECORDING)
}

/// Opens a running execution's terminal, keeping its size.
pub(crate) fn open_tool_mirror(entry: Entry, paths: &ServerPaths) -> Result<TerminalMirror> {
    Ok(mirror::open_mirror(entry, paths, SizeRule::Keep, None)?.with_injected_input().latest())
}

/// Returns a terminal that contains a text.
fn terminal_of(text: &str) -> TerminalState {
    let mut terminal = TerminalState::new(DEFAULT_SIZE);
    terminal.process_data(nerve_types::TsNs(0), lines_of(text).as_bytes());
    terminal
}

/// Converts a text to terminal output. Control characters are removed.
pub(crate) fn lines_of(text: &str) -> String {
    let letters = text.chars().filter(|letter| !letter.is_control() || matches!(letter, '\n' | '\t'));
    letters.collect::<String>().replace('\n', "\r\n")
}
