//! Transcripts: the prompts and answers of a node or a recording. All functions block and need no server.
//!
//! A turn comes from the agent's own session file, which also has what a person typed into the terminal. The node's
//! history adds the dialogs with their answers, and the turns that the session file lacks. A recording with neither is
//! replayed, and its screen parsed.

mod history_log;
mod merge;
pub mod render;

use std::path::{Path, PathBuf};

use nerve_agent::parse::turn_list::TurnRecord;
use nerve_agent::parse::{ParserKind, conversation};
use nerve_agent::profile::Profile;
use nerve_api::reply::{Transcript, TranscriptSource, TranscriptTurn};
use nerve_graph::session::DEFAULT;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::fork::branch::RecordedSession;
use nerve_node::fork::recorded_turns::RecordedTurns;
use nerve_node::profiles;
use nerve_record::ahr::Reader;
use nerve_record::lookup::{Name, is_path};
use nerve_record::meta::Meta;
use nerve_record::store::{Store, id_of};
use nerve_types::TsNs;
use nerve_types::activity::TsMs;

use self::history_log::HistoryLog;
use self::merge::merge;
use crate::data_dirs::DataDirs;
use crate::recordings::{self, final_rows, unreadable};

/// The node whose transcript is read.
#[derive(Debug, Clone, Copy)]
pub struct NodeName<'a> {
    /// The node.
    pub node: &'a str,
    /// Its session; any if `None`.
    pub session: Option<&'a str>,
    /// Its server.
    pub server: &'a str,
}

/// Reads the transcript of what a user names: a node, `SESSION/NODE`, or a recording by file, id or `NODE@N`.
///
/// # Errors
/// See [`of_node`], [`of_recording`] and [`recordings::find`].
pub fn find(
    source: &str,
    session: Option<&str>,
    server: &str,
    dirs: &DataDirs,
) -> Result<Transcript, EngineError> {
    let name = Name::parse(source).ok().filter(|_| !is_path(source) && !source.contains('@'));
    let node = name.as_ref().and_then(|name| Some((name.node()?, name.session().or(session))));
    let Some((node, session)) = node else { return of_recording(&recordings::find(dirs, source)?, dirs) };
    of_node(NodeName { node, session, server }, dirs).or_else(|error| {
        if error.kind != ErrorKind::NotFound {
            return Err(error);
        }
        // The name may be the beginning of an id.
        let recording = recordings::find(dirs, source);
        let recording =
            recording.map_err(|other| if other.kind == ErrorKind::NotFound { error } else { other });
        of_recording(&recording?, dirs)
    })
}

/// Reads the transcript of a node: its current or last conversation. The node need not exist any more.
///
/// # Errors
/// NotFound: the node has neither a recording nor a history. InvalidRequest: several sessions have such a node.
pub fn of_node(name: NodeName<'_>, dirs: &DataDirs) -> Result<Transcript, EngineError> {
    let recording = newest_recording(name, &dirs.recordings);
    let session = recording.as_ref().and_then(|(_, meta)| session_of(meta));
    let session = name.session.map(str::to_string).or(session);
    let log = HistoryLog::read(&dirs.history, name.server, session.as_deref(), name.node)?;
    let Some((path, meta)) = recording else {
        let log = log.ok_or_else(|| no_transcript(name))?;
        let about = Transcript {
            node_id: Some(name.node.to_string()),
            session_id: session,
            server_name: Some(name.server.to_string()),
            ..Transcript::default()
        };
        return Ok(merge(about, Vec::new(), log));
    };
    let mut transcript = about(&path, &meta);
    let turns = agent_turns(&meta, dirs, &mut transcript);
    // The conversation may have begun in an earlier recording.
    let began = turns.first().and_then(|turn| turn.started).map_or(meta.started_at, to_ns);
    let log = log.map(|log| log.since(began.min(meta.started_at))).unwrap_or_default();
    finish(transcript, turns, log, &path, &meta)
}

/// Reads the transcript of a recording: the turns that began while it was recorded.
///
/// # Errors
/// The recording cannot be read.
pub fn of_recording(path: &Path, dirs: &DataDirs) -> Result<Transcript, EngineError> {
    let meta = Meta::load(path).ok().flatten().unwrap_or_default();
    let mut transcript = about(path, &meta);
    let mut turns = agent_turns(&meta, dirs, &mut transcript);
    turns.retain(|turn| turn.started.is_none_or(|at| is_within(&meta, to_ns(at))));
    let log = match (&meta.server, &meta.node) {
        (Some(server), Some(node)) => HistoryLog::read(&dirs.history, server, meta.session.as_deref(), node)?,
        _ => None,
    };
    let log = log.map(|log| log.since(meta.started_at).until(meta.ended_at)).unwrap_or_default();
    finish(transcript, turns, log, path, &meta)
}

/// Leaves only one turn, if one is selected.
///
/// # Errors
/// NotFound: there is no such turn.
pub fn select_turn(mut transcript: Transcript, turn: Option<u64>) -> Result<Transcript, EngineError> {
    let Some(turn) = turn else { return Ok(transcript) };
    let count = transcript.turns.len();
    transcript.turns.retain(|one| one.turn == turn);
    if transcript.turns.is_empty() {
        return Err(EngineError::not_found(format!("no turn {turn}: the transcript has {count}")));
    }
    Ok(transcript)
}

/// Returns the newest recording of a node and its metadata.
fn newest_recording(name: NodeName<'_>, recordings: &Path) -> Option<(PathBuf, Meta)> {
    Store::new(recordings).all().into_iter().find_map(|path| {
        let meta = Meta::load(&path).ok().flatten()?;
        let is_it = meta.node.as_deref() == Some(name.node)
            && meta.server.as_deref() == Some(name.server)
            && name.session.is_none_or(|session| session_of(&meta).as_deref() == Some(session));
        is_it.then_some((path, meta))
    })
}

fn no_transcript(name: NodeName<'_>) -> EngineError {
    EngineError::not_found(format!("node '{}' has neither a recording nor a history", name.node))
        .hint("list the recordings: nerve recording list")
}

/// Returns the session of a recorded node. Recordings do not name the default one.
pub(crate) fn session_of(meta: &Meta) -> Option<String> {
    let default = || meta.node.as_ref().map(|_| DEFAULT.to_string());
    meta.session.clone().or_else(default)
}

/// Returns a transcript without turns.
fn about(path: &Path, meta: &Meta) -> Transcript {
    Transcript {
        node_id: meta.node.clone(),
        session_id: session_of(meta),
        server_name: meta.server.clone(),
        recording_id: id_of(path).map(str::to_string),
        profile: meta.profile.clone(),
        conversation_id: meta.agent_session.clone(),
        cwd: meta.cwd.as_ref().map(|cwd| cwd.display().to_string()),
        ..Transcript::default()
    }
}

fn to_ns(at: TsMs) -> TsNs {
    TsNs(at.0.saturating_mul(1_000_000))
}

fn is_within(meta: &Meta, at: TsNs) -> bool {
    // Session files have milliseconds.
    let at = at.0 / 1_000_000;
    at >= meta.started_at.0 / 1_000_000 && meta.ended_at.is_none_or(|ended| at <= ended.0 / 1_000_000)
}

/// Reads the turns from the agent's session file. Notes in the transcript where they were read, or why they were not.
fn agent_turns(meta: &Meta, dirs: &DataDirs, transcript: &mut Transcript) -> Vec<TurnRecord> {
    let (profiles, _) = profiles::load(Some(&dirs.profiles));
    let command = if meta.requested_cmd.is_empty() { &meta.cmd } else { &meta.requested_cmd };
    let by_name = meta.profile.as_deref().and_then(|name| profiles.get(name));
    let Some(profile) = by_name.or_else(|| profiles.for_command(command)) else { return Vec::new() };
    match session_turns(meta, command, &profile) {
        Ok(None) => Vec::new(),
        Ok(Some(RecordedTurns { path, list })) => {
            transcript.session_file = Some(path.display().to_string());
            transcript.conversation_id = list.session_id.or(transcript.conversation_id.take());
            if list.unknown > 0 {
                let count = list.unknown;
                transcript
                    .notes
                    .push(format!("{count} entries of the agent's session file are of unknown kinds"));
            }
            list.turns
        }
        Err(reason) => {
            transcript.notes.push(format!("the agent's session file was not read: {reason}"));
            Vec::new()
        }
    }
}

fn session_turns(
    meta: &Meta,
    command: &[String],
    profile: &Profile,
) -> Result<Option<RecordedTurns>, String> {
    RecordedSession {
        profile,
        command,
        agent_session: meta.agent_session.as_deref(),
        transcript: meta.transcript.as_deref(),
        home: meta.home.as_deref(),
        cwd: meta.cwd.as_deref().unwrap_or(Path::new("/")),
        started_at: meta.started_at,
        ended_at: meta.ended_at,
        copies: Path::new(""),
    }
    .turns()
}

/// Adds the turns. Parses the screen if nothing else has them.
fn finish(
    transcript: Transcript,
    turns: Vec<TurnRecord>,
    log: HistoryLog,
    path: &Path,
    meta: &Meta,
) -> Result<Transcript, EngineError> {
    let mut transcript = merge(transcript, turns, log);
    if transcript.turns.is_empty() {
        transcript.turns = screen_turns(path, meta)?;
    }
    Ok(transcript)
}

/// Replays a recording and splits its final text into turns.
fn screen_turns(path: &Path, meta: &Meta) -> Result<Vec<TranscriptTurn>, EngineError> {
    let mut reader = Reader::open(path).map_err(unreadable)?;
    let rows = final_rows(&mut reader, meta.initial_size(), |_| {}).map_err(unreadable)?;
    let kind = conversation::guess(&rows).unwrap_or(ParserKind::None);
    let turns = conversation::turns(kind, &rows).into_iter().zip(1..);
    let turn = |(turn, number): (conversation::Turn, u64)| TranscriptTurn {
        turn: number,
        prompt: turn.prompt,
        sections: turn.parsed.sections,
        tokens: turn.parsed.tokens,
        is_complete: turn.parsed.is_complete,
        source: TranscriptSource::Screen,
        ..TranscriptTurn::default()
    };
    Ok(turns.map(turn).collect())
}
