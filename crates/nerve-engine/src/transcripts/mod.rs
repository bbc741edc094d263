//! Transcripts: the prompts and answers of a node or a recording. All functions block and need no server.
//!
//! A turn comes from the agent's own session file, which also has what a person typed into the terminal. The node's
//! history adds the dialogs with their answers, and the turns that the session file lacks. A recording with neither is
//! replayed, and its screen parsed.

mod history_log;
mod merge;
pub mod render;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use nerve_agent::parse::turn_list::TurnRecord;
use nerve_agent::parse::{ParserKind, conversation};
use nerve_agent::profile::{Profile, Profiles};
use nerve_api::DEFAULT_SESSION;
use nerve_api::reply::{Transcript, TranscriptSource, TranscriptTurn};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::profiles;
use nerve_record::ahr::Reader;
use nerve_record::library::is_live;
use nerve_record::lookup::{Candidate, LookupError, Name, is_path};
use nerve_record::meta::Meta;
use nerve_record::store::{Store, id_of};
use nerve_transcript::recorded::branch::RecordedSession;
use nerve_transcript::recorded::turns::{RecordedTurns, TurnsError};
use nerve_types::TsNs;
use nerve_types::activity::TsMs;

pub(crate) use self::history_log::HistoryLog;
use self::merge::merge;
use crate::data_dirs::DataDirs;
pub use crate::node_files::NodeAddress;
use crate::node_files::NodeKey;
use crate::recordings::{self, final_rows, unreadable};

/// The turns of a recording that the agent's session file and the node's history have.
#[derive(Debug)]
pub(crate) struct LoggedTurns {
    /// The transcript.
    pub(crate) transcript: Transcript,
    /// Reason why the agent's session file could not be read, although it exists.
    pub(crate) failure: Option<String>,
}

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
        return read_history(address, dirs)?.ok_or_else(|| no_transcript(address));
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

/// Maximum number of histories that a [`TurnReader`] keeps.
const MAX_LOGS: usize = 16;

/// Reads the turns of many recordings. Profiles are compiled once, and a history is read again only if it has changed.
pub(crate) struct TurnReader<'a> {
    dirs: &'a DataDirs,
    profiles: Profiles,
    /// Histories, with the versions that were read.
    logs: HashMap<NodeKey, (String, HistoryLog)>,
}

impl TurnReader<'_> {
    pub(crate) fn new(dirs: &DataDirs) -> TurnReader<'_> {
        TurnReader { dirs, profiles: load_profiles(dirs), logs: HashMap::new() }
    }

    /// Reads the turns that began while a recording was made, without those that only its screen has. `log_version` changes with the
    /// node's history.
    ///
    /// # Errors
    /// The history cannot be read.
    pub(crate) fn read(
        &mut self,
        path: &Path,
        meta: &Meta,
        log_version: &str,
    ) -> Result<LoggedTurns, EngineError> {
        let ended = end_of(path, meta);
        let is_within = |at: TsMs| at >= TsMs::from(meta.started_at) && ended.is_none_or(|end| at <= end);
        let AgentTurns { transcript, mut turns, failure } = read_agent_turns(path, meta, &self.profiles);
        turns.retain(|turn| turn.started.is_none_or(is_within));
        let log = match self.log(meta, log_version)? {
            Some(log) => log.within(meta.started_at, ended),
            None => HistoryLog::default(),
        };
        Ok(LoggedTurns { transcript: merge(transcript, turns, log), failure })
    }

    /// Returns the history of a recorded node.
    fn log(&mut self, meta: &Meta, version: &str) -> Result<Option<&HistoryLog>, EngineError> {
        let key = NodeKey { server: meta.server.clone(), session: session_of(meta), node: meta.node.clone() };
        let Some(address) = key.address() else { return Ok(None) };
        if self.logs.get(&key).is_none_or(|(known, _)| known != version) {
            let log = HistoryLog::read(&self.dirs.history, address)?.unwrap_or_default();
            if self.logs.len() >= MAX_LOGS {
                self.logs.clear();
            }
            self.logs.insert(key.clone(), (version.to_string(), log));
        }
        Ok(self.logs.get(&key).map(|(_, log)| log))
    }
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

/// Counts the turns, and leaves only one of them if one is selected.
///
/// # Errors
/// NotFound: there is no such turn.
pub fn select_turn(mut transcript: Transcript, turn: Option<u64>) -> Result<Transcript, EngineError> {
    let count = transcript.turns.len();
    transcript.turn_count = u64::try_from(count).unwrap_or(u64::MAX);
    let Some(turn) = turn else { return Ok(transcript) };
    transcript.turns.retain(|one| one.turn == turn);
    if transcript.turns.is_empty() {
        return Err(EngineError::not_found(format!("no turn {turn}: the transcript has {count}")));
    }
    Ok(transcript)
}

/// Leaves only the newest `limit` of the turns before the turn `before`.
pub(crate) fn select_page(
    mut transcript: Transcript,
    before: Option<u64>,
    limit: Option<usize>,
) -> Transcript {
    transcript.turns.retain(|one| before.is_none_or(|before| one.turn < before));
    let excess = limit.map_or(0, |limit| transcript.turns.len().saturating_sub(limit));
    transcript.turns.drain(..excess);
    transcript
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

fn no_transcript(address: NodeAddress<'_>) -> EngineError {
    EngineError::not_found(format!("node '{}' has neither a recording nor a history", address.node))
        .hint("list the recordings: nerve recording list")
}

/// Returns the session of a recorded node. Recordings do not name the default one.
pub(crate) fn session_of(meta: &Meta) -> Option<String> {
    let default = || meta.node.as_ref().map(|_| DEFAULT_SESSION.to_string());
    meta.session.clone().or_else(default)
}

/// Describes a recording in a transcript without turns.
fn describe_recording(path: &Path, meta: &Meta) -> Transcript {
    Transcript {
        node_id: meta.node.clone(),
        session_id: session_of(meta),
        server_name: meta.server.clone(),
        recording_id: id_of(path).map(str::to_string),
        profile: meta.profile.clone(),
        conversation_id: meta.conversation_id.clone(),
        cwd: meta.cwd.as_ref().map(|cwd| cwd.display().to_string()),
        ..Transcript::default()
    }
}

fn to_ns(at: TsMs) -> TsNs {
    TsNs(at.0.saturating_mul(1_000_000))
}

/// Returns the end of a recording; `None` while it is recorded. A recorder that was killed leaves no end, so the time of its
/// last write counts.
pub(crate) fn end_of(path: &Path, meta: &Meta) -> Option<TsMs> {
    if meta.ended_at.is_some() || is_live(path) {
        return meta.ended_at.map(TsMs::from);
    }
    let written = std::fs::metadata(path).and_then(|file| file.modified()).ok()?;
    let written = written.duration_since(UNIX_EPOCH).ok()?;
    Some(TsMs(nerve_types::millis(written)))
}

/// The turns of an agent's session file.
struct AgentTurns {
    /// The transcript without turns, with the path of the file, or a note why it was not read.
    transcript: Transcript,
    turns: Vec<TurnRecord>,
    /// Reason why the file could not be read, although it exists.
    failure: Option<String>,
}

fn read_agent_turns(path: &Path, meta: &Meta, profiles: &Profiles) -> AgentTurns {
    let mut transcript = describe_recording(path, meta);
    let none = |transcript| AgentTurns { transcript, turns: Vec::new(), failure: None };
    let Some(profile) = profile_of(meta, profiles) else { return none(transcript) };
    match recorded_session(meta, &profile).turns() {
        Ok(None) => none(transcript),
        Ok(Some(RecordedTurns { path, list })) => {
            transcript.session_file = Some(path.display().to_string());
            transcript.conversation_id = list.session_id.or(transcript.conversation_id.take());
            if list.unknown > 0 {
                let count = list.unknown;
                let note = format!("{count} entries of the agent's session file are of unknown kinds");
                transcript.notes.push(note);
            }
            AgentTurns { transcript, turns: list.turns, failure: None }
        }
        Err(error) => {
            transcript.notes.push(format!("the agent's session file was not read: {error}"));
            let failure = matches!(error, TurnsError::Unreadable(_)).then(|| error.to_string());
            AgentTurns { transcript, turns: Vec::new(), failure }
        }
    }
}

/// Loads the profiles. They are compiled from their files, so many recordings share one call.
pub(crate) fn load_profiles(dirs: &DataDirs) -> Profiles {
    profiles::load(Some(&dirs.profiles)).0
}

/// Returns the profile of a recorded agent.
pub(crate) fn profile_of(meta: &Meta, profiles: &Profiles) -> Option<Arc<Profile>> {
    let by_name = meta.profile.as_deref().and_then(|name| profiles.get(name));
    by_name.or_else(|| profiles.for_command(command_of(meta)))
}

/// Returns the command that the user gave.
fn command_of(meta: &Meta) -> &[String] {
    if meta.requested_cmd.is_empty() { &meta.cmd } else { &meta.requested_cmd }
}

/// Returns the recorded properties of the agent's session.
pub(crate) fn recorded_session<'a>(meta: &'a Meta, profile: &'a Profile) -> RecordedSession<'a> {
    RecordedSession {
        profile,
        command: command_of(meta),
        conversation_id: meta.conversation_id.as_deref(),
        transcript: meta.transcript.as_deref(),
        home: meta.home.as_deref(),
        cwd: meta.cwd.as_deref().unwrap_or(Path::new("/")),
        started_at: meta.started_at,
        ended_at: meta.ended_at,
        copies: Path::new(""),
    }
}

/// Parses the screen of a recording if nothing else has turns.
fn with_screen(mut transcript: Transcript, path: &Path, meta: &Meta) -> Result<Transcript, EngineError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn turns_of(transcript: &Transcript) -> Vec<u64> {
        transcript.turns.iter().map(|turn| turn.turn).collect()
    }

    #[test]
    fn page_has_the_newest_turns_before_a_turn() {
        let turns = (1..=5).map(|turn| TranscriptTurn { turn, ..TranscriptTurn::default() }).collect();
        let all = select_turn(Transcript { turns, ..Transcript::default() }, None).unwrap();
        let page = |before, limit| turns_of(&select_page(all.clone(), before, limit));
        assert_eq!(page(None, Some(2)), [4, 5]);
        assert_eq!(page(Some(4), Some(2)), [2, 3]);
        assert_eq!(page(Some(2), Some(2)), [1]);
        assert_eq!(page(Some(3), None), [1, 2]);
        assert_eq!(select_page(all.clone(), None, Some(1)).turn_count, 5);
        assert_eq!(select_turn(all, Some(2)).unwrap().turn_count, 5);
    }
}
