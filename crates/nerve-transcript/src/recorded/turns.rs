//! Reads all turns of a recorded session's conversation, or its usage, from the agent's own session file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nerve_agent::parse::turn_list::TurnList;
use nerve_agent::parse::usage::UsageList;
use nerve_agent::profile::TranscriptKind;
use nerve_types::TsNs;
use nerve_types::activity::TsMs;

use super::branch::{RecordedSession, conversation_id, single_transcript, transcript};
use crate::followed_session::{Location, subagents_folder};
use crate::opencode_database::{self as database, StoredSession};
use crate::session_files::{SessionFiles, entries, read_transcript};

/// The turns of a conversation, and the file that has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedTurns {
    /// The agent's session file or database.
    pub path: PathBuf,
    /// The turns.
    pub list: TurnList,
}

/// Reason why a conversation is not available.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TurnsError {
    /// The conversation is not known, or the agent no longer has it.
    #[error("{0}")]
    Missing(String),
    /// The conversation exists, but cannot be read now.
    #[error("{0}")]
    Unreadable(String),
}

impl From<String> for TurnsError {
    fn from(reason: String) -> TurnsError {
        TurnsError::Missing(reason)
    }
}

impl RecordedSession<'_> {
    /// Reads the conversation. Returns `None` if the agent keeps no session file.
    ///
    /// # Errors
    /// The reason why the conversation cannot be found or read.
    pub fn turns(&self) -> Result<Option<RecordedTurns>, TurnsError> {
        let (Some(location), Some(kind)) = (self.locate()?, self.profile.transcript) else { return Ok(None) };
        let list = match &location {
            Location::File(path) => {
                TurnList::read(kind, &read_transcript(path).map_err(|error| unreadable(path, &error))?)
            }
            Location::Database { path, session } => {
                let sessions = database::session(path, session).map_err(|error| unreadable(path, &error))?;
                let StoredSession { id, messages, .. } = single(sessions)?;
                TurnList { session_id: Some(id), ..TurnList::of_messages(&messages) }
            }
        };
        let (Location::File(path) | Location::Database { path, .. }) = location;
        Ok(Some(RecordedTurns { path, list }))
    }

    /// Finds the conversation. Returns `None` if the agent keeps no session file.
    ///
    /// # Errors
    /// The reason why the conversation cannot be found.
    pub fn locate(&self) -> Result<Option<Location>, TurnsError> {
        let (Some(kind), Some(forms)) = (self.profile.transcript, &self.profile.session) else {
            return Ok(None);
        };
        let home = self.home.and_then(|home| Some(("HOME".to_string(), home.to_str()?.to_string())));
        let env: BTreeMap<String, String> = home.into_iter().collect();
        let files = SessionFiles::for_env(&env).ok_or_else(|| "there is no home directory".to_string())?;
        let id = conversation_id(self, forms);
        let latest = self.ended_at.unwrap_or(TsNs(u64::MAX));
        let path = match kind {
            TranscriptKind::Claude => match transcript(self, forms, &files) {
                Ok(path) => path,
                Err(reason) => single_transcript(self, &files, None).ok_or(reason)?,
            },
            TranscriptKind::Codex => {
                let id = id.ok_or_else(|| "the agent's conversation is not known".to_string())?;
                files.rollout(&id).ok_or_else(|| format!("the agent's file of conversation {id} is gone"))?
            }
            TranscriptKind::Gemini
            | TranscriptKind::Pi
            | TranscriptKind::Qwen
            | TranscriptKind::Copilot
            | TranscriptKind::Kimi => {
                let begun = || files.chats_started_in(kind, self.cwd, self.started_at, latest);
                let id = match id {
                    Some(id) => id,
                    None => single(begun())?,
                };
                files
                    .chat(kind, &id)
                    .ok_or_else(|| format!("the agent's file of conversation {id} is gone"))?
            }
            TranscriptKind::Opencode | TranscriptKind::Kilo => {
                let path = files.database(kind).unwrap_or_default();
                if !path.is_file() {
                    return Err(TurnsError::Missing(format!("the agent has no database {}", path.display())));
                }
                let session = match id {
                    Some(id) => id,
                    None => {
                        let sessions = database::started_in(&path, self.cwd, self.started_at, latest);
                        single(sessions.map_err(|error| unreadable(&path, &error))?)?.id
                    }
                };
                return Ok(Some(Location::Database { path, session }));
            }
        };
        Ok(Some(Location::File(path)))
    }
}

/// Reads the usage of a conversation and its subagents.
///
/// # Errors
/// The conversation cannot be read.
pub fn read_usage(location: &Location, kind: TranscriptKind) -> Result<UsageList, TurnsError> {
    let mut usage = UsageList::default();
    let mut add = |list: UsageList| {
        usage.records.extend(list.records);
        usage.damaged += list.damaged;
    };
    match location {
        Location::File(path) => {
            let read = |path: &Path| read_transcript(path).map_err(|error| unreadable(path, &error));
            add(UsageList::read(kind, &read(path)?));
            let subagents = (kind == TranscriptKind::Claude).then(|| entries(&subagents_folder(path)));
            for path in
                subagents.into_iter().flatten().filter(|path| path.extension() == Some("jsonl".as_ref()))
            {
                let mut list = UsageList::read(kind, &read(&path)?);
                list.records.iter_mut().for_each(|record| record.turn = 0);
                add(list);
            }
        }
        Location::Database { path, session } => {
            let sessions = database::changed_since(path, session, TsMs(0));
            for stored in sessions.map_err(|error| unreadable(path, &error))? {
                let mut list = UsageList::of_messages(&stored.messages);
                if stored.id != *session {
                    list.records.iter_mut().for_each(|record| record.turn = 0);
                }
                add(list);
            }
        }
    }
    Ok(usage)
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> TurnsError {
    TurnsError::Unreadable(format!("{}: {error}", path.display()))
}

/// Returns the only conversation, because several cannot be distinguished.
fn single<T>(mut candidates: Vec<T>) -> Result<T, String> {
    match (candidates.pop(), candidates.len()) {
        (Some(one), 0) => Ok(one),
        (None, _) => Err("the agent has no such conversation".to_string()),
        (Some(_), others) => Err(format!(
            "the agent's conversation is not known: {} began in its folder in that time",
            others + 1
        )),
    }
}
