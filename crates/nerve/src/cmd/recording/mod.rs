//! What can be done with a recording. All of it reads the file; nothing needs a server.

mod branches;
mod export;
mod format;
mod import;
mod inspect;
mod list;
mod metadata;
mod player;
mod renderer;
mod replay;
mod stream;
mod terminal_guard;
mod view;

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Result;
use nerve_record::ahr::{AhrError, Lost, Part, Reader};
use nerve_record::export::ExportError;
use nerve_record::meta::Meta;
use nerve_record::shelf::is_live;
use nerve_record::store::{Store, StoreError, id_of, longer};
use nerve_server::paths::Places;
use nerve_term::event::Size;

use crate::cli::recording::RecordingArg;
use crate::exit::{BrokenPipe, FAILED, Failure, NOT_FOUND, USAGE};
use crate::out;

pub(crate) use export::{branch_points, export};
pub(crate) use import::import;
pub(crate) use inspect::inspect;
pub(crate) use list::recordings;
pub(crate) use replay::replay;
pub(crate) use view::{view, view_tool};

/// Losses that are told one by one.
const MAX_REPORTED: usize = 5;

fn store() -> Store {
    Store::new(Places::from_env().recordings())
}

/// The recording that is meant: a file, an id or its beginning, else the newest there is.
fn find(source: &RecordingArg) -> Result<PathBuf> {
    find_named(source.given())
}

/// The same, by what was typed.
pub(crate) fn find_named(name: Option<&str>) -> Result<PathBuf> {
    let store = store();
    let Some(name) = name else {
        let newest = store.all().into_iter().next().ok_or_else(|| {
            let message = format!("there are no recordings in {}", store.root().display());
            Failure::new(NOT_FOUND, message).hint("name a file, or make one with 'nerve record --out-file'")
        })?;
        out::note(format_args!("the newest recording: {}", newest.display()));
        return Ok(newest);
    };
    store.find(name).or_else(|error| {
        // A file by any other name, as long as no id is like it.
        let file = PathBuf::from(name);
        if !matches!(error, StoreError::Ambiguous { .. }) && file.exists() {
            Ok(file)
        } else {
            Err(lookup_failure(error))
        }
    })
}

/// Whether a word names a recording there is, or several: by a file, an id, or the beginning of one.
pub(crate) fn is_recording(word: &str) -> bool {
    match store().find(word) {
        Ok(_) | Err(StoreError::Ambiguous { .. }) => true,
        Err(_) => Path::new(word).is_file() && check(Path::new(word)).is_ok(),
    }
}

/// The recording of that id, or of the only id that begins so.
pub(crate) fn find_by_id(id: &str) -> Result<PathBuf> {
    store().find(id).map_err(lookup_failure)
}

/// Checks that something of a recording is in this file, or may come: what has nothing in it looks like an empty session.
///
/// # Errors
/// Nothing is in it, or no block of a recording is.
pub(crate) fn check(recording: &Path) -> Result<()> {
    let mut reader = Reader::open(recording).map_err(unreadable)?;
    let mut lost = None;
    loop {
        match reader.next().map_err(unreadable)? {
            Some(Part::Block(_)) => return Ok(()),
            Some(Part::Lost(stretch)) => lost = lost.or(Some(stretch)),
            None => break,
        }
    }
    let path = recording.display();
    let message = match lost {
        _ if is_live(recording) => return Ok(()),
        None => format!("nothing is in the recording {path}: it has no bytes"),
        Some(lost) if lost.tail => format!("nothing in the recording {path} can be read: {}", lost.reason),
        Some(_) => format!("{path} is no recording: no block of one is in it"),
    };
    Err(Failure::new(FAILED, message).hint("'nerve recordings list' shows what there is").into())
}

fn lookup_failure(error: StoreError) -> anyhow::Error {
    let code = match error {
        StoreError::NotFound { .. } => NOT_FOUND,
        StoreError::Ambiguous { .. } | StoreError::Id { .. } => USAGE,
        StoreError::Io { .. } => FAILED,
    };
    let hint = match &error {
        StoreError::Ambiguous { what, paths } => {
            longer(what, &paths.iter().filter_map(|path| id_of(path)).collect::<Vec<_>>())
        }
        _ => "'nerve recordings list' shows what there is".to_string(),
    };
    Failure::new(code, error.to_string()).hint(hint).into()
}

/// The facts beside a recording; those that cannot be read are told and do without.
pub(crate) fn facts(recording: &Path) -> Meta {
    match Meta::load(recording) {
        Ok(meta) => meta.unwrap_or_default(),
        Err(error) => {
            out::warning(error);
            Meta::default()
        }
    }
}

/// The size until the recording tells its own.
pub(crate) fn size(meta: &Meta) -> Size {
    if meta.cols > 0 && meta.rows > 0 { Size::new(meta.cols, meta.rows) } else { Size::default() }
}

/// Stretches of a recording that could not be read, to be told at the end.
pub(crate) struct Losses {
    live: bool,
    lost: Vec<Lost>,
    more: usize,
}

impl Losses {
    pub(crate) fn of(recording: &Path) -> Losses {
        let begun = recording.metadata().is_ok_and(|meta| meta.len() > 0);
        Losses { live: begun && is_live(recording), lost: Vec::new(), more: 0 }
    }

    pub(crate) fn note(&mut self, lost: &Lost) {
        // The end of a recording that is being written is no loss.
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

/// An error of reading a recording or of writing what became of it.
fn export_failure(error: ExportError) -> anyhow::Error {
    match error {
        ExportError::Read(error) => unreadable(error),
        ExportError::Write(error) => unwritten(error),
    }
}

pub(crate) fn unreadable(error: AhrError) -> anyhow::Error {
    let code = match &error {
        AhrError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => NOT_FOUND,
        _ => FAILED,
    };
    Failure::new(code, error.to_string()).into()
}

/// Standard output that nobody reads any more is the end, and no failure.
pub(crate) fn unwritten(error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => BrokenPipe.into(),
        _ => anyhow::Error::new(error).context("cannot write"),
    }
}
