//! GET_TRANSCRIPT: the prompts and answers of a node or a recording.

use nerve_api::reply::Transcript;
use nerve_api::request::GetTranscript;
use nerve_node::error::EngineError;
use nerve_node::names::check_name;

use super::context::RequestContext;
use crate::engine::Engine;
use crate::page::check_limit;
use crate::recordings;
use crate::transcripts::{self, NodeAddress};

/// Maximum number of turns of a request with a limit.
const MAX_LIMIT: usize = 1000;

impl Engine {
    /// Returns the transcript of a node or a recording. The node need not exist any more.
    ///
    /// # Errors
    /// NotFound (no recording and no history, no such recording, no such turn), InvalidRequest (also a limit out of range), Process
    /// (unreadable files).
    pub async fn get_transcript(
        &self,
        request: GetTranscript,
        _: RequestContext,
    ) -> Result<Transcript, EngineError> {
        let GetTranscript { node_id, session_id, recording, turn, before, limit } = request;
        limit.map_or(Ok(()), |limit| check_limit(limit, 1..=MAX_LIMIT))?;
        let server = self.inner.factory.server_name().to_string();
        let history = self.inner.factory.history_base_dir().to_path_buf();
        node_id.iter().try_for_each(|node| check_name(node, "node"))?;
        session_id.iter().try_for_each(|session| check_name(session, "session"))?;
        let transcript = self
            .file_job(move |dirs| {
                let dirs = crate::data_dirs::DataDirs { history, ..dirs.clone() };
                match (&node_id, &recording) {
                    (Some(node), None) => {
                        let session = session_id.as_deref();
                        transcripts::read_node(NodeAddress { node, session, server: &server }, &dirs)
                    }
                    (None, Some(recording)) => {
                        transcripts::read_recording(&recordings::find(&dirs, recording)?, &dirs)
                    }
                    _ => Err(EngineError::invalid_request("node_id or recording is required")),
                }
            })
            .await?;
        Ok(transcripts::select_page(transcripts::select_turn(transcript, turn)?, before, limit))
    }
}
