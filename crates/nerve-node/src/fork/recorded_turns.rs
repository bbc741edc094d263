//! Reads all turns of a recorded session's conversation from the agent's own session file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nerve_agent::parse::turn_list::TurnList;
use nerve_agent::profile::TranscriptKind;
use nerve_types::TsNs;

use super::branch::{RecordedSession, conversation_id, single_transcript, transcript};
use super::opencode::database;
use super::session_files::{SessionFiles, read_transcript};

/// The turns of a conversation, and the file that has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedTurns {
    /// The agent's session file or database.
    pub path: PathBuf,
    /// The turns.
    pub list: TurnList,
}

impl RecordedSession<'_> {
    /// Reads the conversation. Returns `None` if the agent keeps no session file.
    ///
    /// # Errors
    /// The reason why the conversation cannot be found or read.
    pub fn turns(&self) -> Result<Option<RecordedTurns>, String> {
        let (Some(kind), Some(forms)) = (self.profile.transcript, &self.profile.session) else {
            return Ok(None);
        };
        let home = self.home.and_then(|home| Some(("HOME".to_string(), home.to_str()?.to_string())));
        let env: BTreeMap<String, String> = home.into_iter().collect();
        let files = SessionFiles::for_env(&env).ok_or("there is no home directory")?;
        let id = conversation_id(self, forms);
        let latest = self.ended_at.unwrap_or(TsNs(u64::MAX));
        let path = match kind {
            TranscriptKind::Claude => match transcript(self, forms, &files) {
                Ok(path) => path,
                Err(reason) => single_transcript(self, &files, None).ok_or(reason)?,
            },
            TranscriptKind::Codex => {
                let id = id.ok_or("the agent's conversation is not known")?;
                files.rollout(&id).ok_or_else(|| format!("the agent's file of conversation {id} is gone"))?
            }
            TranscriptKind::Gemini => {
                let begun = || files.chats_started_in(self.cwd, self.started_at, latest);
                let id = match id {
                    Some(id) => id,
                    None => single(begun())?,
                };
                files.chat(&id).ok_or_else(|| format!("the agent's file of conversation {id} is gone"))?
            }
            TranscriptKind::Opencode => {
                let path = files.opencode_database();
                let sessions = match &id {
                    Some(id) => database::session(&path, id),
                    None => database::started_in(&path, self.cwd, self.started_at, latest),
                };
                let sessions = sessions.map_err(|error| format!("{}: {error}", path.display()))?;
                let session = single(sessions)?;
                let list =
                    TurnList { session_id: Some(session.id), ..TurnList::of_messages(&session.messages) };
                return Ok(Some(RecordedTurns { path, list }));
            }
        };
        let text = read_transcript(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Some(RecordedTurns { list: TurnList::read(kind, &text), path }))
    }
}

/// Returns the only conversation, because several cannot be distinguished.
fn single<T>(mut found: Vec<T>) -> Result<T, String> {
    match (found.pop(), found.len()) {
        (Some(one), 0) => Ok(one),
        (None, _) => Err("the agent has no such conversation".to_string()),
        (Some(_), others) => Err(format!(
            "the agent's conversation is not known: {} were begun in its folder in that time",
            others + 1
        )),
    }
}
