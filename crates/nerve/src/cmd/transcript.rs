//! `nerve transcript`: the prompts and answers of a node or a recording.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use jiff::tz::TimeZone;
use nerve_api::reply::Transcript;
use nerve_api::request::GetTranscript;
use nerve_cli::transcript::{TranscriptArgs, TranscriptFormat};
use nerve_commands::node_command::split_node_path;
use nerve_engine::transcripts::{read_named, render, select_turn};
use nerve_node::error::ErrorKind;
use nerve_server::paths::ServerPaths;

use super::recording::export::OutputFile;
use super::server::{connect, is_remote, machines};
use crate::out;

/// Runs the command.
pub(super) async fn run(mut args: TranscriptArgs) -> Result<()> {
    if !Path::new(&args.source).exists() {
        machines().resolve_recording(&mut args.source, &mut args.server.server)?;
    }
    let transcript = if is_remote(&args.server.server) { request(&args).await? } else { read(&args)? };
    for note in &transcript.notes {
        out::warning(out::sanitize(note));
    }
    let text = match args.format {
        _ if args.prints_json() => format!("{}\n", serde_json::to_string_pretty(&transcript)?),
        TranscriptFormat::Md => out::sanitize(&render::markdown(&transcript, &TimeZone::system())),
        TranscriptFormat::Html => out::sanitize(&render::html(&transcript, &TimeZone::system())),
        TranscriptFormat::Txt | TranscriptFormat::Json => {
            out::sanitize(&render::text(&transcript, &TimeZone::system()))
        }
    };
    let Some(path) = &args.output else { return out::text(&text) };
    let mut output = OutputFile::open(path)?;
    output.writer.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    output.finish()
}

/// Requests the transcript from a server on another machine.
async fn request(args: &TranscriptArgs) -> Result<Transcript> {
    let client = connect(&args.server.server).await?;
    let recording = Some(args.source.clone());
    let of_recording = GetTranscript { recording, turn: args.turn, ..GetTranscript::default() };
    let (mut node, mut session) = (args.source.clone(), args.session.clone());
    // NODE@N, or another name than that of a node.
    if args.source.contains('@') || split_node_path(&mut node, &mut session).is_err() {
        return Ok(client.request(&of_recording).await?);
    }
    let of_node = GetTranscript {
        node_id: Some(node),
        session_id: session,
        turn: args.turn,
        ..GetTranscript::default()
    };
    match client.request(&of_node).await {
        // The id of a recording need not be a valid name of a node.
        Err(error) if error.server().is_some_and(|error| may_be_recording(error.details.error_type)) => {
            Ok(client.request(&of_recording).await.map_err(|_| error)?)
        }
        reply => Ok(reply?),
    }
}

/// Reads the files on this machine. A server need not run.
fn read(args: &TranscriptArgs) -> Result<Transcript> {
    let dirs = ServerPaths::from_env().data;
    let transcript = read_named(&args.source, args.session.as_deref(), &args.server.server, &dirs)?;
    Ok(select_turn(transcript, args.turn)?)
}

/// Returns true if the name of a node with this error may be the id of a recording.
fn may_be_recording(error: ErrorKind) -> bool {
    matches!(error, ErrorKind::NotFound | ErrorKind::InvalidRequest)
}
