//! `nerve snapshot`: marks the recording, then stores the files.

mod catalog;
mod recorder;
mod take;
mod target;

use std::path::PathBuf;

use anyhow::Result;
use nerve_record::files::{FileSnapshot, FileStore, FilesError, SnapshotKey};
use nerve_record::snapshots::FilesRef;
use nerve_record::store;
use nerve_server::paths::ServerPaths;
use serde_json::{Value, json};

use self::recorder::Confirmation;
pub(crate) use self::take::{SnapshotOutcome, take_snapshot};
use crate::cli::snapshot::{SnapshotArgs, SnapshotCommand, TakeArgs};
use crate::exit::{FAILED, Failure, NOT_FOUND, USAGE};
use crate::out;

/// Variable with the path of the recording, set for the recorded program.
const RECORDING: &str = "NERVE_RECORDING";
/// Variable with the session id.
const SESSION: &str = "NERVE_SESSION_ID";

/// Runs the subcommand. Blocks: Ctrl+C ends the process, and the next snapshot removes its leftovers.
pub(crate) fn run(args: SnapshotArgs) -> Result<()> {
    match args.command {
        None => take(args.take),
        Some(SnapshotCommand::Restore(args)) => catalog::restore(args),
        Some(SnapshotCommand::List(args)) => catalog::list(args),
    }
}

/// Takes a snapshot and prints it.
pub(crate) fn take(args: TakeArgs) -> Result<()> {
    let SnapshotOutcome { key, confirmed, files, note_error } = take_snapshot(&args, None)?;
    let taken = files?;
    if let Some(note_error) = note_error {
        out::warning(note_error);
    }
    print(&args, &key, &confirmed, taken.as_ref())
}

/// Returns an environment variable if it is not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the id of the enclosing session.
fn this_session() -> Option<String> {
    let of_recording = || store::id_of(&PathBuf::from(variable(RECORDING)?)).map(str::to_string);
    variable(SESSION).or_else(of_recording)
}

fn file_store() -> FileStore {
    FileStore::new(ServerPaths::from_env().state.join("snapshots"))
}

fn print(
    args: &TakeArgs,
    key: &SnapshotKey,
    confirmed: &Confirmation,
    taken: Option<&FileSnapshot>,
) -> Result<()> {
    let left_out = taken.map(|taken| taken.left_out.clone()).unwrap_or_default();
    if args.json {
        return out::json(&json!({
            "id": key.id(), "session": key.session(), "label": args.label, "anchor_byte": confirmed.anchor,
            "ts_ns": confirmed.at_ns, "files": taken.map(|taken| files_json(&taken.files)), "left_out": left_out,
        }));
    }
    for what in left_out {
        out::warning(format_args!("not stored: {what}"));
    }
    let of = |what: fn(&FilesRef) -> String| taken.map(|taken| what(&taken.files)).unwrap_or_default();
    out::fields(&[
        ("snapshot", key.id().to_string()),
        ("session", key.session().to_string()),
        ("label", args.label.clone().unwrap_or_default()),
        ("anchor", format!("byte {}", confirmed.anchor)),
        ("files", of(|files| format!("{} of {}", files.provider, files.source.display()))),
        ("reference", of(|files| files.reference.clone())),
    ])
}

fn files_json(files: &FilesRef) -> Value {
    json!({ "provider": files.provider, "source": files.source, "reference": files.reference })
}

/// Converts an error of the file store. `hint` is used if there is no hint for the kind of error.
pub(crate) fn failed(error: FilesError, hint: &str) -> Failure {
    let (code, hint) = match &error {
        FilesError::Key(_) => (USAGE, ""),
        FilesError::NotFound { .. } => (NOT_FOUND, "list the snapshots: nerve snapshot list"),
        FilesError::Exists { .. } => (FAILED, "omit --id to use the next free number"),
        FilesError::TooLarge { .. } => {
            (FAILED, "raise --limit, add unneeded files to .gitignore, or use --no-files")
        }
        FilesError::TooMany { .. } => (FAILED, "choose a directory with --dir, or use --no-files"),
        FilesError::NoRoom { .. } => {
            (FAILED, "free disk space, move NERVE_HOME to another disk, or use --no-files")
        }
        FilesError::NotEmpty { .. } | FilesError::PathExists { .. } => {
            (USAGE, "choose an empty or new directory with --to")
        }
        FilesError::NoWorkTree { .. } => (NOT_FOUND, "if it was moved, give its new location with --dir"),
        _ => (FAILED, hint),
    };
    let failure = Failure::new(code, error.to_string());
    if hint.is_empty() { failure } else { failure.hint(hint) }
}
