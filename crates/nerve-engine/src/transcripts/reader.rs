//! Reads the turns of many recordings.

use std::collections::HashMap;
use std::path::Path;

use nerve_agent::profile::Profiles;
use nerve_api::reply::Transcript;
use nerve_node::error::EngineError;
use nerve_record::meta::Meta;
use nerve_types::activity::TsMs;

use super::history_log::HistoryLog;
use super::merge::merge;
use super::recorded_agent::{AgentTurns, end_of, load_profiles, read_agent_turns, session_of};
use crate::data_dirs::DataDirs;
use crate::node_files::NodeKey;

/// Maximum number of histories that a [`TurnReader`] keeps.
const MAX_LOGS: usize = 16;

/// The turns of a recording that the agent's session file and the node's history have. Its screen may have more.
#[derive(Debug)]
pub(crate) struct PartialTranscript {
    /// The transcript.
    pub(crate) transcript: Transcript,
    /// Reason why the agent's session file could not be read, although it exists.
    pub(crate) failure: Option<String>,
}

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
    ) -> Result<PartialTranscript, EngineError> {
        let ended = end_of(path, meta);
        let is_within = |at: TsMs| at >= TsMs::from(meta.started_at) && ended.is_none_or(|end| at <= end);
        let AgentTurns { transcript, mut turns, failure } = read_agent_turns(path, meta, &self.profiles);
        turns.retain(|turn| turn.started.is_none_or(is_within));
        let log = match self.log(meta, log_version)? {
            Some(log) => log.within(meta.started_at, ended),
            None => HistoryLog::default(),
        };
        Ok(PartialTranscript { transcript: merge(transcript, turns, log), failure })
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
