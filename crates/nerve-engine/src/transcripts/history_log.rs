//! The entries of a node's history that belong in a transcript.

use std::path::Path;

use nerve_api::DEFAULT_SESSION;
use nerve_api::reply::TranscriptDialog;
use nerve_node::error::EngineError;
use nerve_record::history::{HistoryError, HistoryReader, LoggedUsage};
use nerve_types::activity::TsMs;
use nerve_types::{Section, SectionKind, Tokens, TsNs};
use serde::Deserialize;

use super::NodeAddress;

/// A prompt in a history, with its answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct LoggedTurn {
    pub(crate) prompt: String,
    pub(crate) started: TsMs,
    pub(crate) ended: TsMs,
    pub(crate) sections: Vec<Section>,
    pub(crate) tokens: Option<Tokens>,
    /// Usage of a model's API.
    pub(crate) usage: Option<LoggedUsage>,
    pub(crate) is_complete: bool,
}

/// The turns and the answered dialogs of a node, oldest first.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct HistoryLog {
    pub(crate) turns: Vec<LoggedTurn>,
    pub(crate) dialogs: Vec<(TsMs, TranscriptDialog)>,
}

/// The fields of an entry. Others are ignored.
#[derive(Deserialize)]
struct Entry {
    op: String,
    #[serde(alias = "ts_start")]
    ts: Option<TsMs>,
    ts_end: Option<TsMs>,
    input: Option<String>,
    #[serde(default)]
    response: LoggedResponse,
    usage: Option<LoggedUsage>,
    final_buffer: Option<String>,
    dialog: Option<String>,
    choice: Option<String>,
    #[serde(default)]
    client: String,
    #[serde(default)]
    transport: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LoggedResponse {
    sections: Vec<Section>,
    tokens: Option<Tokens>,
    is_complete: bool,
}

impl HistoryLog {
    /// Reads the history of a node; `None` if there is none.
    ///
    /// # Errors
    /// InvalidRequest: invalid names, or several sessions have such a node. Process: the file cannot be read.
    pub(crate) fn read(base: &Path, address: NodeAddress<'_>) -> Result<Option<HistoryLog>, EngineError> {
        let NodeAddress { node, session, server } = address;
        let reader = match session {
            // The default session has no folder.
            Some(session) => HistoryReader::open_exact(
                base,
                server,
                Some(session).filter(|name| *name != DEFAULT_SESSION),
                node,
            ),
            None => HistoryReader::open(base, server, node),
        };
        let reader = match reader {
            Ok(reader) => reader,
            Err(HistoryError::NotFound { .. }) => return Ok(None),
            Err(error @ HistoryError::Io { .. }) => return Err(EngineError::process(error.to_string())),
            Err(error) => return Err(EngineError::invalid_request(error.to_string())),
        };
        let mut log = HistoryLog::default();
        for entry in reader.entries() {
            let entry = entry.map_err(|error| EngineError::process(error.to_string()))?;
            // Entries of other versions may lack a field.
            if let Ok(entry) = Entry::deserialize(entry.value) {
                log.add(entry);
            }
        }
        Ok(Some(log))
    }

    fn add(&mut self, entry: Entry) {
        let Some(at) = entry.ts else { return };
        match (entry.op.as_str(), entry.input, entry.dialog) {
            ("send" | "send_stream" | "run", Some(prompt), _) => {
                let is_complete = entry.response.is_complete || entry.op == "send_stream";
                let buffer = entry.final_buffer.filter(|text| !text.trim().is_empty());
                let sections = buffer.map(|text| vec![Section::new(SectionKind::Text, text)]);
                self.turns.push(LoggedTurn {
                    prompt,
                    started: at,
                    ended: entry.ts_end.unwrap_or(at),
                    sections: sections.unwrap_or(entry.response.sections),
                    tokens: entry.response.tokens,
                    usage: entry.usage,
                    is_complete,
                });
            }
            ("answer" | "cancel", _, Some(dialog)) => self.dialogs.push((
                at,
                TranscriptDialog {
                    answered_at: Some(at.iso()),
                    dialog,
                    choice: entry.choice,
                    client: entry.client,
                    transport: entry.transport,
                },
            )),
            _ => {}
        }
    }

    /// Drops the turns and dialogs that began before a time.
    pub(super) fn since(mut self, from: TsNs) -> HistoryLog {
        let from = TsMs::from(from);
        self.turns.retain(|turn| turn.started >= from);
        self.dialogs.retain(|(at, _)| *at >= from);
        self
    }

    /// Returns the turns and dialogs that began between two times. Without an end, all later ones are included.
    pub(super) fn within(&self, from: TsNs, to: Option<TsMs>) -> HistoryLog {
        let is_within = |at: TsMs| at >= TsMs::from(from) && to.is_none_or(|to| at <= to);
        HistoryLog {
            turns: self.turns.iter().filter(|turn| is_within(turn.started)).cloned().collect(),
            dialogs: self.dialogs.iter().filter(|(at, _)| is_within(*at)).cloned().collect(),
        }
    }
}
