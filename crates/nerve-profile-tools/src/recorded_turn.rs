//! The turns of a recording, from the audit log of its node.

use std::path::Path;

use nerve_record::history::{HistoryError, HistoryReader};
use nerve_record::meta::Meta;
use nerve_types::activity::TsMs;
use nerve_types::name::DEFAULT_SESSION;
use nerve_types::{TimeSpan, TsNs};
use serde::Deserialize;

/// A turn that nerve logged while a recording was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedTurn {
    /// From the prompt to the end of the answer.
    pub span: TimeSpan,
    /// The end of the turn was detected: the program was ready.
    pub is_complete: bool,
}

/// The fields of an entry that say when a turn was.
#[derive(Deserialize)]
struct Entry {
    ts_start: TsMs,
    ts_end: TsMs,
    response: Option<Response>,
}

#[derive(Deserialize)]
struct Response {
    #[serde(default)]
    is_complete: bool,
}

/// Reads the turns of a recording, oldest first; empty if no node has made it. `history`: the folder of the audit logs.
///
/// # Errors
/// The audit log cannot be read.
pub fn read_turns(history: &Path, meta: &Meta) -> Result<Vec<RecordedTurn>, HistoryError> {
    let (Some(server), Some(node)) = (&meta.server, &meta.node) else { return Ok(Vec::new()) };
    let session = meta.session.as_deref().filter(|session| *session != DEFAULT_SESSION);
    let reader = match HistoryReader::open_exact(history, server, session, node) {
        Ok(reader) => reader,
        Err(HistoryError::NotFound { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let is_within =
        |span: TimeSpan| span.start >= meta.started_at && meta.ended_at.is_none_or(|end| span.start <= end);
    let mut turns = Vec::new();
    for entry in reader.entries() {
        let entry = entry?;
        if !matches!(entry.op(), "send" | "send_stream") {
            continue;
        }
        // Entries of other versions may lack a field.
        let Ok(turn) = Entry::deserialize(entry.value) else { continue };
        let span = TimeSpan { start: to_ns(turn.ts_start), end: to_ns(turn.ts_end) };
        if is_within(span) {
            let is_complete = turn.response.is_none_or(|response| response.is_complete);
            turns.push(RecordedTurn { span, is_complete });
        }
    }
    Ok(turns)
}

fn to_ns(at: TsMs) -> TsNs {
    TsNs(at.0.saturating_mul(1_000_000))
}
