//! Commands on recordings. They read the file and need no server.

mod branches;
mod export;
mod format;
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
use nerve_engine::recordings;
use nerve_record::ahr::{AhrError, DamagedRange};
use nerve_record::export::ExportError;
use nerve_record::library::is_live;
use nerve_record::meta::Meta;
use nerve_record::store::{Store, StoreError};
use nerve_server::paths::ServerPaths;
use nerve_tui::TuiError;
use nerve_tui::recording::EndReason;
use nerve_types::Size;

use crate::cli::recording::RecordingArg;
use crate::exit::{BrokenPipe, DONE};
use crate::out;

pub(crate) use export::{branch_points, export};
pub(crate) use import::import;
pub(crate) use inspect::inspect;
pub(crate) use list::recordings;
pub(crate) use replay::replay;
pub(crate) use view::{view, view_tool};

/// Losses that are reported individually.
const MAX_REPORTED: usize = 5;

fn store() -> Store {
    Store::new(ServerPaths::from_env().recordings())
}

/// Finds the selected recording: a file, an id or an id prefix; the newest by default.
fn find(source: &RecordingArg) -> Result<PathBuf> {
    find_named(source.given())
}

/// Finds a recording by file name, id or id prefix; the newest if `name` is `None`.
pub(crate) fn find_named(name: Option<&str>) -> Result<PathBuf> {
    let root = ServerPaths::from_env().recordings();
    let Some(name) = name else {
        let newest = recordings::newest(&root)?;
        out::note(format_args!("newest recording: {}", newest.display()));
        return Ok(newest);
    };
    Ok(recordings::find(&root, name)?)
}

/// Returns true if `word` names one or more existing recordings: a file, an id or an id prefix.
pub(crate) fn is_recording(word: &str) -> bool {
    match store().find(word) {
        Ok(_) | Err(StoreError::Ambiguous { .. }) => true,
        Err(_) => Path::new(word).is_file() && recordings::check(Path::new(word)).is_ok(),
    }
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

/// Collects the unreadable stretches of a recording, to be reported at the end.
pub(crate) struct Losses {
    live: bool,
    lost: Vec<DamagedRange>,
    more: usize,
}

impl Losses {
    pub(crate) fn of(recording: &Path) -> Losses {
        let begun = recording.metadata().is_ok_and(|meta| meta.len() > 0);
        Losses { live: begun && is_live(recording), lost: Vec::new(), more: 0 }
    }

    pub(crate) fn note(&mut self, lost: &DamagedRange) {
        // A recording in progress always has an incomplete end.
        if lost.tail && self.live {
            return;
        }
        if self.lost.len() < MAX_REPORTED {
            self.lost.push(lost.clone());
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn report(&self) {
        for lost in &self.lost {
            out::warning(lost);
        }
        if self.more > 0 {
            out::warning(format_args!("{} more stretches of the recording are lost", self.more));
        }
    }
}

/// Converts an error of reading a recording or writing an export.
fn export_failure(error: ExportError) -> anyhow::Error {
    match error {
        ExportError::Read(error) => unreadable(error),
        ExportError::Write(error) => unwritten(error),
    }
}

pub(crate) fn unreadable(error: AhrError) -> anyhow::Error {
    recordings::unreadable(error).into()
}

/// Converts an error of the viewer or the player.
fn tui_failure(error: TuiError) -> anyhow::Error {
    match error {
        TuiError::Recording(error) => unreadable(error),
        TuiError::Write(error) => unwritten(error),
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
pub(crate) fn unwritten(error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => BrokenPipe.into(),
        _ => anyhow::Error::new(error).context("cannot write"),
    }
}
