//! `nerve snapshot`: arguments and output.

use std::path::PathBuf;

use anyhow::{Context, Result};
use nerve_api::Request;
use nerve_api::reply::{SnapshotInfo, SnapshotTaken};
use nerve_api::request::{ListSnapshots, RestoreSnapshot, Seconds, TakeSnapshot};
use nerve_commands::clock::local_time;
use nerve_engine::snapshots::{
    EnclosingSession, SnapshotOptions, SnapshotOutcome, SnapshotQuery, SnapshotTarget, list_snapshots,
    restore_snapshot, take_snapshot,
};
use nerve_record::files::FileStore;
use nerve_server::paths::ServerPaths;

use super::machine::resolve_recording;
use super::{interruptible, run_single_threaded, server};
use crate::out;
use nerve_cli::snapshot::{ListArgs, RestoreArgs, SnapshotArgs, SnapshotCommand, SnapshotSource, TakeArgs};

/// Runs the subcommand. Blocks: Ctrl+C ends the process, and the next snapshot removes its leftovers.
pub(crate) fn run(args: SnapshotArgs) -> Result<()> {
    match args.command {
        None => take(args.take),
        Some(SnapshotCommand::Restore(args)) => restore(args),
        Some(SnapshotCommand::List(args)) => list(args),
    }
}

/// Takes a snapshot and prints it.
pub(crate) fn take(mut args: TakeArgs) -> Result<()> {
    resolve_recording(args.session.as_mut(), &mut args.server)?;
    if let Some(server) = args.server {
        let request = TakeSnapshot {
            recording: args.session,
            label: args.label,
            snapshot_id: args.id,
            dir: remote_path(args.dir),
            limit: Some(args.limit.0),
            no_files: args.no_files,
            timeout: Some(Seconds::from(args.timeout.0)),
            ..TakeSnapshot::default()
        };
        return print(&send(&server, request)?, args.json);
    }
    let dirs = ServerPaths::from_env().data;
    let enclosing = EnclosingSession::from_env();
    let mut target = match (&args.session, &args.socket) {
        (Some(session), _) => SnapshotTarget::find(&dirs.hosts, session)?,
        (None, Some(socket)) => SnapshotTarget::at_socket(&dirs.hosts, socket, &enclosing),
        (None, None) => SnapshotTarget::enclosing(&dirs.hosts, &enclosing)?,
    };
    target.dir.get_or_insert_with(|| PathBuf::from("."));
    let options = SnapshotOptions {
        label: args.label,
        id: args.id,
        dir: args.dir,
        limit: args.limit.0,
        no_files: args.no_files,
        timeout: args.timeout.0,
    };
    let outcome = take_snapshot(target, &options, &FileStore::new(&dirs.snapshots), None)?;
    let note_error = outcome.note_error.clone();
    let taken = SnapshotOutcome::into_reply(outcome, options.label)?;
    if let Some(note_error) = note_error {
        out::warning(note_error);
    }
    print(&taken, args.json)
}

fn print(taken: &SnapshotTaken, json: bool) -> Result<()> {
    if json {
        return out::json(taken);
    }
    for file in &taken.left_out {
        out::warning(format_args!("not stored: {file}"));
    }
    let files = taken.files.clone();
    let (files, reference) = files
        .map(|files| {
            let source = files.source.map(|source| format!(" of {source}")).unwrap_or_default();
            (format!("{}{source}", files.provider), files.reference)
        })
        .unwrap_or_default();
    out::fields(&[
        ("snapshot", taken.snapshot_id.to_string()),
        ("recording", taken.recording_id.clone()),
        ("label", taken.label.clone().unwrap_or_default()),
        ("anchor", format!("byte {}", taken.anchor_byte)),
        ("files", files),
        ("reference", reference),
    ])
}

/// Restores the files of a snapshot.
fn restore(mut args: RestoreArgs) -> Result<()> {
    resolve_recording(args.source.session.as_mut(), &mut args.source.server)?;
    let restored = match args.source.server {
        Some(server) => {
            let request = RestoreSnapshot {
                snapshot_id: args.id,
                to: args.to.display().to_string(),
                recording: args.source.session,
                dir: remote_path(args.source.dir),
                ..RestoreSnapshot::default()
            };
            send(&server, request)?
        }
        None => {
            let to = std::path::absolute(&args.to)
                .with_context(|| format!("cannot find {}", args.to.display()))?;
            let dirs = ServerPaths::from_env().data;
            restore_snapshot(&query(args.source.session, args.source.dir), args.id, &to, &dirs)?
        }
    };
    if args.json {
        return out::json(&restored);
    }
    for file in restored.left_out {
        out::warning(format_args!("not restored: {file}"));
    }
    out::line(format_args!("snapshot {} restored to {}", restored.snapshot_id, restored.to))
}

/// Lists snapshots.
fn list(args: ListArgs) -> Result<()> {
    let SnapshotSource { session, dir, mut server } = args.source;
    let mut recording = args.recording.or(session);
    resolve_recording(recording.as_mut(), &mut server)?;
    let query = query(recording, dir);
    let snapshots = match server {
        Some(server) => {
            let (recording, dir) = (query.session.clone(), remote_path(query.dir.clone()));
            send(&server, ListSnapshots { recording, dir, ..ListSnapshots::default() })?.snapshots
        }
        None => list_snapshots(&query, &ServerPaths::from_env().data)?,
    };
    if args.json {
        return out::json(&serde_json::json!({ "snapshots": snapshots }));
    }
    if snapshots.is_empty() {
        out::note(format_args!("no snapshots{}", query.session_suffix()));
    }
    let rows: Vec<Vec<String>> = snapshots.into_iter().map(row).collect();
    out::table(&["id", "recording", "time", "byte", "files", "label"], &rows)
}

/// Sends a request to a server. Its paths are those of the server's machine.
pub(crate) fn send<R: Request>(server: &str, request: R) -> Result<R::Reply> {
    run_single_threaded(interruptible(async {
        let client = server::connect(server).await?;
        let reply = client.request(&request).await?;
        client.take_warnings().iter().for_each(out::warning);
        Ok(reply)
    }))
}

fn remote_path(path: Option<PathBuf>) -> Option<String> {
    path.map(|path| path.display().to_string())
}

fn query(session: Option<String>, dir: Option<PathBuf>) -> SnapshotQuery {
    SnapshotQuery {
        session,
        dir,
        current_dir: Some(PathBuf::from(".")),
        enclosing: EnclosingSession::from_env(),
    }
}

fn row(snapshot: SnapshotInfo) -> Vec<String> {
    let dash = || "-".to_string();
    vec![
        snapshot.snapshot_id.to_string(),
        snapshot.recording_id,
        snapshot.taken_at.map_or_else(dash, |at| local_time(at.seconds())),
        snapshot.anchor_byte.map_or_else(dash, |anchor| anchor.to_string()),
        snapshot.files.map_or_else(dash, |files| files.provider.to_string()),
        snapshot.label.unwrap_or_default(),
    ]
}
