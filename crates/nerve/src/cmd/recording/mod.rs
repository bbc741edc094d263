//! Commands on recordings. They read the file and need no server.

mod branches;
pub(crate) mod export;
pub(super) mod format;
mod import;
mod inspect;
mod list;
mod metadata;
mod replay;
mod stream;
mod view;

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Result;
use nerve_commands::machine_command::fetch_recording;
use nerve_engine::recordings;
use nerve_machine::address::split_recording;
use nerve_machine::machine::LOCAL;
use nerve_machine::recordings::RecordingCache;
use nerve_record::ahr::{AhrError, Contradiction, DamagedRange};
use nerve_record::export::ExportError;
use nerve_record::library::is_live;
use nerve_record::meta::Meta;
use nerve_server::paths::ServerPaths;
use nerve_tui::TuiError;
use nerve_tui::recording::EndReason;
use nerve_types::Size;

use crate::cmd::server::machines;
use crate::cmd::{extract, interruptible, run_single_threaded};
use crate::exit::{DONE, FAILED};
use crate::out::{self, BrokenPipe};
use nerve_cli::recording::{RecordingCommand, RecordingFileCommand, RecordingSelector};

pub(crate) use replay::replay;
pub(crate) use view::view_tool;

/// Maximum number of damaged ranges that are reported individually.
const MAX_REPORTED: usize = 5;

/// Runs a command of `nerve recording` and returns the exit code.
pub(crate) fn run(command: &RecordingCommand) -> Result<u8> {
    match command {
        RecordingCommand::List(args) => list::list(args)?,
        RecordingCommand::File(command) => return run_on_file(command),
        RecordingCommand::Branches(args) => branches::list(args)?,
        RecordingCommand::Prune(args) => list::prune(args)?,
        RecordingCommand::Repair(args) => list::repair(args)?,
    }
    Ok(DONE)
}

/// Runs a command on one recording and returns the exit code.
pub(crate) fn run_on_file(command: &RecordingFileCommand) -> Result<u8> {
    match command {
        RecordingFileCommand::View(args) => view::view(args),
        RecordingFileCommand::Replay(args) => replay(args),
        RecordingFileCommand::BranchPoints(args) => export::branch_points(args),
        RecordingFileCommand::Export(args) => export::export(args),
        RecordingFileCommand::Import(args) => import::import(args).map(|()| DONE),
        RecordingFileCommand::Inspect(args) => inspect::inspect(args),
        RecordingFileCommand::Extract(args) => run_single_threaded(interruptible(extract::run(args))),
    }
}

/// Finds the selected recording; the newest by default.
fn find(source: &RecordingSelector) -> Result<PathBuf> {
    find_named(source.name())
}

/// Finds a recording by file or name; the newest if `name` is `None`. Copies one of another machine.
pub(crate) fn find_named(name: Option<&str>) -> Result<PathBuf> {
    let dirs = ServerPaths::from_env().data;
    let Some(name) = name else {
        let newest = recordings::newest(&dirs.recordings)?;
        out::note(format_args!("newest recording: {}", newest.display()));
        return Ok(newest);
    };
    match split_recording(name).filter(|_| !Path::new(name).exists()) {
        Some((LOCAL, name)) => Ok(recordings::find(&dirs, name)?),
        Some((machine, name)) => fetch_recording(&machines(), machine, name, &cache()),
        None => Ok(recordings::find(&dirs, name)?),
    }
}

/// Returns the copies of recordings of other machines.
fn cache() -> RecordingCache {
    RecordingCache::new(&ServerPaths::from_env().cache)
}

/// Loads the metadata next to a recording. Warns and returns the default if it cannot be read.
pub(crate) fn load_meta(recording: &Path) -> Meta {
    match Meta::load(recording) {
        Ok(meta) => meta.unwrap_or_default(),
        Err(error) => {
            out::warning(error);
            Meta::default()
        }
    }
}

/// Returns the initial terminal size of a recording.
pub(crate) fn size(meta: &Meta) -> Size {
    meta.initial_size()
}

/// Collects the damaged ranges of a recording, to be reported at the end.
pub(crate) struct Losses {
    /// The recording is still being written.
    is_live: bool,
    /// The first ranges, up to [`MAX_REPORTED`].
    lost: Vec<DamagedRange>,
    /// Number of further ranges.
    more: usize,
    contradictions: Vec<Contradiction>,
}

impl Losses {
    /// Starts without losses.
    pub(crate) fn new(recording: &Path) -> Losses {
        let has_content = recording.metadata().is_ok_and(|meta| meta.len() > 0);
        Losses {
            is_live: has_content && is_live(recording),
            lost: Vec::new(),
            more: 0,
            contradictions: Vec::new(),
        }
    }

    /// Adds a damaged range.
    pub(crate) fn add(&mut self, lost: &DamagedRange) {
        // A recording in progress always has an incomplete end.
        if lost.tail && self.is_live {
            return;
        }
        if self.lost.len() < MAX_REPORTED {
            self.lost.push(lost.clone());
        } else {
            self.more += 1;
        }
    }

    /// Adds the contradictions that a reader has found.
    pub(crate) fn add_contradictions<'a>(&mut self, contradictions: impl Iterator<Item = &'a Contradiction>) {
        self.contradictions.extend(contradictions.cloned());
    }

    /// Prints warnings and returns the exit code: `FAILED` if any part of the recording was lost or contradictory.
    #[must_use]
    pub(crate) fn report(&self) -> u8 {
        for lost in &self.lost {
            out::warning(lost);
        }
        if self.more > 0 {
            out::warning(format_args!("{} more ranges of the recording are damaged", self.more));
        }
        for contradiction in self.contradictions.iter().take(MAX_REPORTED) {
            out::warning(format_args!("the recording contradicts itself: {contradiction}"));
        }
        let more = self.contradictions.len().saturating_sub(MAX_REPORTED);
        if more > 0 {
            out::warning(format_args!("the recording contradicts itself in {more} more places"));
        }
        if self.lost.is_empty() && self.contradictions.is_empty() { DONE } else { FAILED }
    }
}

/// Converts an error of reading a recording or writing an export.
fn export_failure(error: ExportError) -> anyhow::Error {
    match error {
        ExportError::Read(error) => read_failure(error),
        ExportError::Write(error) => write_failure(error),
    }
}

/// Converts an error of reading a recording.
pub(crate) fn read_failure(error: AhrError) -> anyhow::Error {
    recordings::unreadable_error(error).into()
}

/// Converts an error of the viewer or the player.
fn tui_failure(error: TuiError) -> anyhow::Error {
    match error {
        TuiError::Recording(error) => read_failure(error),
        TuiError::Write(error) => write_failure(error),
        error => error.into(),
    }
}

/// Returns the exit code; for signals 128 plus the number.
fn code(end: EndReason) -> u8 {
    match end {
        EndReason::Finished | EndReason::Quit => DONE,
        EndReason::Signal(number) => 128 + number,
    }
}

/// Converts a write error; a closed standard output becomes [`BrokenPipe`].
pub(crate) fn write_failure(error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => BrokenPipe.into(),
        _ => anyhow::Error::new(error).context("cannot write"),
    }
}
