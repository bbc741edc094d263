//! `nerve transcript`: the prompts and answers of a node or a recording.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use nerve_api::reply::Transcript;
use nerve_api::request::GetTranscript;
use nerve_cli::transcript::{TranscriptArgs, TranscriptFormat};
use nerve_engine::transcripts::{find, render, select_turn};
use nerve_node::error::ErrorKind;
use nerve_server::paths::ServerPaths;
use tempfile::NamedTempFile;

use super::server::{connect, is_remote};
use crate::out;

/// Runs the command.
pub(super) async fn run(args: TranscriptArgs) -> Result<()> {
    let transcript = if is_remote(&args.server.server) { request(&args).await? } else { read(&args)? };
    for note in &transcript.notes {
        out::warning(note);
    }
    let text = match args.format {
        _ if args.prints_json() => format!("{}\n", serde_json::to_string_pretty(&transcript)?),
        TranscriptFormat::Md => render::markdown(&transcript),
        TranscriptFormat::Html => render::html(&transcript),
        TranscriptFormat::Txt | TranscriptFormat::Json => out::sanitize(&render::text(&transcript)),
    };
    match args.output.as_deref().filter(|path| *path != Path::new("-")) {
        None => out::text(&text),
        Some(path) => write(path, &text).with_context(|| format!("cannot write {}", path.display())),
    }
}

/// Asks a server on another machine.
async fn request(args: &TranscriptArgs) -> Result<Transcript> {
    let client = connect(&args.server.server).await?;
    let of_node = GetTranscript {
        node_id: Some(args.source.clone()),
        session_id: args.session.clone(),
        turn: args.turn,
        ..GetTranscript::default()
    };
    match client.request(&of_node).await {
        // The id of a recording need not be a valid name of a node.
        Err(error) if error.server().is_some_and(|error| may_be_recording(error.details.error_type)) => {
            let recording = Some(args.source.clone());
            let of_recording = GetTranscript { recording, turn: args.turn, ..GetTranscript::default() };
            Ok(client.request(&of_recording).await.map_err(|_| error)?)
        }
        reply => Ok(reply?),
    }
}

/// Reads the files on this machine. A server need not run.
fn read(args: &TranscriptArgs) -> Result<Transcript> {
    let dirs = ServerPaths::from_env().data_dirs();
    let transcript = find(&args.source, args.session.as_deref(), &args.server.server, &dirs)?;
    Ok(select_turn(transcript, args.turn)?)
}

/// Returns true if the name of a node with this error may be the id of a recording.
fn may_be_recording(error: ErrorKind) -> bool {
    matches!(error, ErrorKind::NotFound | ErrorKind::InvalidRequest)
}

/// Writes a file that gets its name once it is complete.
fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut draft = NamedTempFile::with_prefix_in(".transcript-", folder)?;
    draft.write_all(text.as_bytes())?;
    draft.persist(path)?;
    Ok(())
}
