//! `nerve snapshot`: first the mark in the recording, then the files (seed agent-record §8).

mod kept;
mod recorder;
mod whose;

use std::path::{Path, PathBuf};

use anyhow::Result;
use nerve_record::files::{self, About, FileStore, FilesError, Key, Taken};
use nerve_record::snapshots::{self, FilesRef, SnapshotLine};
use nerve_record::ssz::snapshot::MAX_LABEL_IN_FRAME;
use nerve_record::store;
use nerve_server::paths::Places;
use nerve_term::event::TsNs;
use serde_json::{Value, json};

use self::recorder::{Confirmed, Unconfirmed};
use self::whose::Whose;
use crate::cli::snapshot::{SnapshotArgs, SnapshotCommand, TakeArgs};
use crate::exit::{FAILED, Failure, NOT_FOUND, USAGE};
use crate::out;

/// Where the recording is, in the environment of what is recorded.
const RECORDING: &str = "NERVE_RECORDING";
/// The session's id.
const SESSION: &str = "NERVE_SESSION_ID";

/// Does what the subcommand says. Blocks: Ctrl+C ends the process, and what is in the making is cleared away by the next snapshot.
pub(crate) fn run(args: SnapshotArgs) -> Result<()> {
    match args.command {
        None => take(args.take),
        Some(SnapshotCommand::Restore(args)) => kept::restore(args),
        Some(SnapshotCommand::List(args)) => kept::list(args),
    }
}

/// Takes a snapshot.
pub(crate) fn take(args: TakeArgs) -> Result<()> {
    let Whose { recorder, session, recording, dir } = Whose::find(&args)?;
    check_label(args.label.as_deref())?;
    Key::new(&session, 0).map_err(|error| Failure::new(USAGE, error.to_string()))?;
    let store = file_store();
    // Only looks: a directory that cannot be kept is told before anything is in the recording.
    let dir = args.dir.as_deref().or(dir.as_deref()).unwrap_or(Path::new("."));
    let provider = (!args.no_files).then(|| files::choose(dir, &store, args.limit.0)).transpose();
    let provider = provider.map_err(|error| failed(error, ""))?;
    let lines = recording.as_deref().map(snapshots::read).transpose().unwrap_or_default().unwrap_or_default();
    let used = lines.iter().map(|line| line.id);
    let id = match args.id {
        Some(id) => id,
        None => store.next_id(&session, used).map_err(|error| failed(error, "or give a number with --id"))?,
    };
    let key = Key::new(&session, id).map_err(|error| Failure::new(USAGE, error.to_string()))?;
    let confirmed = recorder.ask(id, args.label.as_deref(), args.timeout.0).map_err(|unconfirmed| {
        if let (Unconfirmed::Not(_), None) = (&unconfirmed, args.id) {
            // Without it there is a gap in the numbers, and no more.
            let _ = store.take_back_id(&session, id);
        }
        unconfirmed.failure()
    })?;
    let about = About { at: TsNs(confirmed.at_ns), label: args.label.as_deref(), stop: None };
    let taken = provider.map(|provider| provider.take(&key, &about)).transpose();
    let taken = taken.map_err(|error| without_files(error, id, &confirmed))?;
    if let Some(recording) = &recording {
        note(recording, &args.label, id, &confirmed, taken.as_ref());
    }
    print(&args, &key, &confirmed, taken.as_ref())
}

fn check_label(label: Option<&str>) -> Result<()> {
    let bytes = label.map_or(0, str::len);
    if bytes > MAX_LABEL_IN_FRAME {
        let message = format!("the label has {bytes} bytes, more than {MAX_LABEL_IN_FRAME}");
        return Err(Failure::new(USAGE, message)
            .hint("write what is long into a file of the work tree")
            .into());
    }
    Ok(())
}

/// A variable of the environment that is set to something.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The session this runs in.
fn this_session() -> Option<String> {
    let of_recording = || store::id_of(&PathBuf::from(variable(RECORDING)?)).map(str::to_string);
    variable(SESSION).or_else(of_recording)
}

fn file_store() -> FileStore {
    FileStore::new(Places::from_env().state.join("snapshots"))
}

/// Writes beside the recording how the files can be had. What the recorder noted of the snapshot stays.
fn note(recording: &Path, label: &Option<String>, id: u64, confirmed: &Confirmed, taken: Option<&Taken>) {
    let noted = snapshots::read(recording).unwrap_or_default().into_iter().find(|line| line.id == id);
    if noted.is_some() && taken.is_none() {
        return;
    }
    let line = SnapshotLine {
        id,
        ts_ns: confirmed.at_ns,
        label: label.clone(),
        kind: noted.map_or_else(|| "manual".to_string(), |line| line.kind),
        anchor_byte: confirmed.anchor,
        files: taken.map(|taken| taken.files.clone()),
    };
    // The files are kept, and found by session and number too.
    if let Err(error) = snapshots::append(recording, &line) {
        out::warning(format_args!("cannot note the files beside {}: {error}", recording.display()));
    }
}

fn print(args: &TakeArgs, key: &Key, confirmed: &Confirmed, taken: Option<&Taken>) -> Result<()> {
    let left_out = taken.map(|taken| taken.left_out.clone()).unwrap_or_default();
    if args.json {
        return out::json(&json!({
            "id": key.id(), "session": key.session(), "label": args.label, "anchor_byte": confirmed.anchor,
            "ts_ns": confirmed.at_ns, "files": taken.map(|taken| files_json(&taken.files)), "left_out": left_out,
        }));
    }
    for what in left_out {
        out::warning(format_args!("not kept: {what}"));
    }
    let of = |what: fn(&FilesRef) -> String| taken.map(|taken| what(&taken.files)).unwrap_or_default();
    out::facts(&[
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

fn without_files(error: FilesError, id: u64, confirmed: &Confirmed) -> Failure {
    let failure = failed(error, "");
    let message = format!(
        "snapshot {id} is in the recording at byte {}, but without files: {}",
        confirmed.anchor, failure.message
    );
    Failure { message, ..failure }
}

/// `hint`: what to do if the error itself has nothing better to say.
pub(crate) fn failed(error: FilesError, hint: &str) -> Failure {
    let (code, hint) = match &error {
        FilesError::Key(_) => (USAGE, ""),
        FilesError::NotFound { .. } => (NOT_FOUND, "see 'nerve snapshot list'"),
        FilesError::Exists { .. } => (FAILED, "leave out --id to get the next free number"),
        FilesError::TooLarge { .. } => {
            (FAILED, "raise --limit, ignore what need not be kept in .gitignore, or use --no-files")
        }
        FilesError::TooMany { .. } => (FAILED, "choose a directory with --dir, or use --no-files"),
        FilesError::NoRoom { .. } => {
            (FAILED, "make room, move NERVE_HOME to another disk, or use --no-files")
        }
        FilesError::NotEmpty { .. } => (USAGE, "give --to a directory that is empty or not there yet"),
        FilesError::NoWorkTree { .. } => (NOT_FOUND, "if it was moved, say where to with --dir"),
        _ => (FAILED, hint),
    };
    let failure = Failure::new(code, error.to_string());
    if hint.is_empty() { failure } else { failure.hint(hint) }
}
