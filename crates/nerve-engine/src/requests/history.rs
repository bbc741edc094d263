//! GET_HISTORY: audit logs of nodes.

use std::path::Path;

use nerve_api::DEFAULT_SESSION;
use nerve_api::reply::NodeHistory;
use nerve_api::request::{GetHistory, NodeRef};
use nerve_node::error::EngineError;
use nerve_node::names::check_name;
use nerve_record::history::{Filter, HistoryError, HistoryReader, Page};
use serde_json::Value;

use super::context::RequestContext;
use crate::engine::Engine;

/// Limit of entries in one reply, in bytes. A line on the wire holds 16 MiB.
const REPLY_LIMIT: usize = 12 << 20;

impl Engine {
    /// Returns entries of a node's audit log. The node need not exist any more.
    ///
    /// # Errors
    /// NotFound (no log), InvalidRequest (invalid name, unreadable log).
    pub async fn get_history(
        &self,
        request: GetHistory,
        _: RequestContext,
    ) -> Result<NodeHistory, EngineError> {
        let ours = self.inner.factory.server_name().to_string();
        let server = request.server_name.clone().unwrap_or_else(|| ours.clone());
        check_name(&server, "server")?;
        check_name(&request.node_id, "node")?;
        let dir = self.inner.factory.history_base_dir().to_path_buf();
        let node = request.node_id.clone();
        let session = request.session_id.clone().filter(|session| session != DEFAULT_SESSION);
        if let Some(session) = &session {
            check_name(session, "session")?;
        }
        let at = NodeRef { session: request.session_id.clone(), node: node.clone() };
        let exists =
            request.server_name.as_ref().is_none_or(|server| *server == ours) && self.executable(&at).is_ok();
        let read_server = server.clone();
        let page =
            tokio::task::spawn_blocking(move || read(&dir, &read_server, session.as_deref(), &request))
                .await?;
        let (entries, total, note) = match page {
            Ok(Page { entries, total, truncated, .. }) => {
                let note = truncated.then(|| {
                    "There are more entries than one reply can hold: ask for the last N".to_string()
                });
                (entries, total, note)
            }
            // The node exists and keeps no log.
            Err(HistoryError::NotFound { .. }) if exists => {
                (Vec::new(), 0, Some("History was disabled for this node".to_string()))
            }
            Err(error @ HistoryError::NotFound { .. }) => {
                // As for other commands: the nodes of the session.
                let hint = self.executable(&at).err().and_then(|error| error.hint);
                let hint = hint.filter(|_| server == ours);
                return Err(EngineError { hint, ..EngineError::not_found(error.to_string()) });
            }
            Err(error) => return Err(EngineError::invalid_request(error.to_string())),
        };
        // The reader returns JSON only.
        let entry =
            |entry: &String| serde_json::from_str(entry).unwrap_or_else(|_| Value::from(entry.as_str()));
        let entries = entries.iter().map(entry).collect();
        Ok(NodeHistory { node_id: node, server_name: server, entries, total, note })
    }
}

fn read(dir: &Path, server: &str, session: Option<&str>, request: &GetHistory) -> Result<Page, HistoryError> {
    HistoryReader::open_in_session(dir, server, session, &request.node_id)?.query(&Filter {
        last: request.last,
        op: request.op,
        seq: request.seq,
        inputs_only: request.inputs_only,
        without_reads: request.without_reads,
        max_bytes: Some(REPLY_LIMIT),
    })
}
