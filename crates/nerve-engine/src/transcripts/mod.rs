//! Transcripts: the prompts and answers of a node or a recording. All functions block and need no server.
//!
//! A turn comes from the agent's own session file, which also has what a person typed into the terminal. The node's
//! history adds the dialogs with their answers, and the turns that the session file lacks. A recording with neither is
//! replayed, and its screen parsed.

mod history_log;
mod merge;
mod page;
mod reader;
mod recorded_agent;
pub mod render;

use std::path::{Path, PathBuf};

use nerve_api::DEFAULT_SESSION;
use nerve_api::reply::Transcript;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_record::lookup::{Candidate, LookupError, Name, is_path};
use nerve_record::meta::Meta;
use nerve_record::store::Store;
use nerve_types::TsNs;
use nerve_types::activity::TsMs;

pub use self::page::select_turn;
pub use crate::node_files::NodeAddress;

pub(crate) use self::history_log::HistoryLog;
pub(crate) use self::page::select_page;
pub(crate) use self::reader::TurnReader;
pub(crate) use self::recorded_agent::{
    command_of, end_of, load_profiles, profile_of, recorded_session, session_of,
};

use self::merge::merge;
use self::recorded_agent::{AgentTurns, read_agent_turns, screen_turns};
use crate::data_dirs::DataDirs;
use crate::recordings;

/// Reads the transcript of a source that a user names: a node, `SESSION/NODE`, or a recording by file, id or `NODE@N`.
///
/// # Errors
/// See [`read_node`], [`read_recording`] and [`recordings::find`].
pub fn read_named(
    source: &str,
    session: Option<&str>,
    server: &str,
    dirs: &DataDirs,
) -> Result<Transcript, EngineError> {
    let name = Name::parse(source).ok().filter(|_| !is_path(source) && !source.contains('@'));
    let node = name.as_ref().and_then(|name| Some((name.node()?, name.session().or(session))));
    let Some((node, session)) = node else {
        return read_recording(&recordings::find(dirs, source)?, dirs);
    };
    read_node(NodeAddress { node, session, server }, dirs).or_else(|error| {
        if error.kind != ErrorKind::NotFound {
            return Err(error);
        }
        // The name may be the beginning of an id.
        let recording = recordings::find(dirs, source).map_err(|other| match other.kind {
            // Its hint has similar names.
            ErrorKind::NotFound => EngineError { hint: other.hint, ..error },
            _ => other,
        });
        read_recording(&recording?, dirs)
    })
}

/// Reads the transcript of a node: its current or last conversation. The node need not exist any more.
///
/// # Errors
/// NotFound: the node has neither a recording nor a history. InvalidRequest: several sessions have such a node.
pub fn read_node(address: NodeAddress<'_>, dirs: &DataDirs) -> Result<Transcript, EngineError> {
    let Some((path, meta)) = newest_recording(address, &dirs.recordings)? else {
        return read_history(address, dirs)?.ok_or_else(|| no_transcript_error(address));
    };
    with_screen(read_logged_turns(address, &path, &meta, dirs)?, &path, &meta)
}

/// Returns the newest recording of a node, and the turns that the agent's session file and the node's history have.
///
/// # Errors
/// NotFound: the node has no recording. InvalidRequest: several sessions have such a node.
pub(crate) fn read_recorded_node(
    address: NodeAddress<'_>,
    dirs: &DataDirs,
) -> Result<(PathBuf, Transcript), EngineError> {
    let newest = newest_recording(address, &dirs.recordings)?;
    let (path, meta) = newest.ok_or_else(|| {
        EngineError::not_found(format!("node '{}' has no recording", address.node))
            .hint("list the recordings: nerve recording list")
    })?;
    let transcript = read_logged_turns(address, &path, &meta, dirs)?;
    Ok((path, transcript))
}

/// Reads the turns of the agent's session file and the node's history.
fn read_logged_turns(
    address: NodeAddress<'_>,
    path: &Path,
    meta: &Meta,
    dirs: &DataDirs,
) -> Result<Transcript, EngineError> {
    let session = session_of(meta);
    let address = NodeAddress { session: session.as_deref(), ..address };
    let AgentTurns { transcript, turns, .. } = read_agent_turns(path, meta, &load_profiles(dirs));
    // The conversation may have begun in an earlier recording.
    let began = turns.first().and_then(|turn| turn.started).map_or(meta.started_at, to_ns);
    let log = HistoryLog::read(&dirs.history, address)?.unwrap_or_default();
    let log = log.since(began.min(meta.started_at));
    Ok(merge(transcript, turns, log))
}

/// Reads the transcript of a recording: the turns that began while it was recorded.
///
/// # Errors
/// The recording cannot be read.
pub fn read_recording(path: &Path, dirs: &DataDirs) -> Result<Transcript, EngineError> {
    let meta = Meta::load(path).ok().flatten().unwrap_or_default();
    let logged = TurnReader::new(dirs).read(path, &meta, "")?;
    with_screen(logged.transcript, path, &meta)
}

/// Reads the whole history of a node; `None` if there is none.
///
/// # Errors
/// InvalidRequest: invalid names, or several sessions have such a node. Process: the file cannot be read.
pub(crate) fn read_history(
    address: NodeAddress<'_>,
    dirs: &DataDirs,
) -> Result<Option<Transcript>, EngineError> {
    let about = Transcript {
        node_id: Some(address.node.to_string()),
        session_id: address.session.map(str::to_string),
        server_name: Some(address.server.to_string()),
        ..Transcript::default()
    };
    Ok(HistoryLog::read(&dirs.history, address)?.map(|log| merge(about, Vec::new(), log)))
}

/// Returns the newest recording of a node and its metadata. Without a session, the default one comes first.
///
/// # Errors
/// InvalidRequest: several other sessions have such a node.
fn newest_recording(address: NodeAddress<'_>, folder: &Path) -> Result<Option<(PathBuf, Meta)>, EngineError> {
    let wanted = address.session.unwrap_or(DEFAULT_SESSION);
    let mut of_other_sessions: Vec<(PathBuf, Meta)> = Vec::new();
    for path in Store::new(folder).all() {
        let Some(meta) = Meta::load(&path).ok().flatten() else { continue };
        if meta.node.as_deref() != Some(address.node) || meta.server.as_deref() != Some(address.server) {
            continue;
        }
        if session_of(&meta).as_deref() == Some(wanted) {
            return Ok(Some((path, meta)));
        }
        if address.session.is_none()
            && !of_other_sessions.iter().any(|(_, other)| other.session == meta.session)
        {
            of_other_sessions.push((path, meta));
        }
    }
    if of_other_sessions.len() > 1 {
        let mut candidates: Vec<Candidate> =
            of_other_sessions.iter().map(|(path, _)| Candidate::of_file(path)).collect();
        candidates.iter_mut().for_each(Candidate::load_node);
        let error = LookupError::Ambiguous { text: address.node.to_string(), candidates };
        return Err(recordings::lookup_error(error));
    }
    Ok(of_other_sessions.pop())
}

fn no_transcript_error(address: NodeAddress<'_>) -> EngineError {
    EngineError::not_found(format!("node '{}' has neither a recording nor a history", address.node))
        .hint("list the recordings: nerve recording list")
}

fn to_ns(at: TsMs) -> TsNs {
    TsNs(at.0.saturating_mul(1_000_000))
}

/// Parses the screen of a recording if nothing else has turns.
fn with_screen(mut transcript: Transcript, path: &Path, meta: &Meta) -> Result<Transcript, EngineError> {
    if transcript.turns.is_empty() {
        transcript.turns = screen_turns(path, meta)?;
    }
    Ok(transcript)
}
