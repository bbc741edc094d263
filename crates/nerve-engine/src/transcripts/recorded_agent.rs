//! The properties of a recorded agent, and its turns in its session file and on the screen.

use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use nerve_agent::parse::turn_list::TurnRecord;
use nerve_agent::parse::{ParserKind, conversation};
use nerve_agent::profile::{Profile, Profiles};
use nerve_api::DEFAULT_SESSION;
use nerve_api::reply::{Transcript, TranscriptSource, TranscriptTurn};
use nerve_node::error::EngineError;
use nerve_node::profiles;
use nerve_record::ahr::Reader;
use nerve_record::library::is_live;
use nerve_record::meta::Meta;
use nerve_record::store::id_of;
use nerve_transcript::recorded::branch::RecordedSession;
use nerve_transcript::recorded::turns::{RecordedTurns, TurnsError};
use nerve_types::activity::TsMs;

use crate::data_dirs::DataDirs;
use crate::recordings::{final_rows, unreadable_error};

/// Returns the session of a recorded node. Recordings do not name the default one.
pub(crate) fn session_of(meta: &Meta) -> Option<String> {
    let default = || meta.node.as_ref().map(|_| DEFAULT_SESSION.to_string());
    meta.session.clone().or_else(default)
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
pub(crate) fn command_of(meta: &Meta) -> &[String] {
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

/// The turns of an agent's session file.
pub(super) struct AgentTurns {
    /// The transcript without turns, with the path of the file, or a note why it was not read.
    pub(super) transcript: Transcript,
    pub(super) turns: Vec<TurnRecord>,
    /// Reason why the file could not be read, although it exists.
    pub(super) failure: Option<String>,
}

/// Reads the turns of the agent's session file.
pub(super) fn read_agent_turns(path: &Path, meta: &Meta, profiles: &Profiles) -> AgentTurns {
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

/// Replays a recording and splits its final text into turns.
pub(super) fn screen_turns(path: &Path, meta: &Meta) -> Result<Vec<TranscriptTurn>, EngineError> {
    let mut reader = Reader::open(path).map_err(unreadable_error)?;
    let rows = final_rows(&mut reader, meta.initial_size(), |_| {}).map_err(unreadable_error)?;
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
