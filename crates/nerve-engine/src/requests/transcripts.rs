//! GET_TRANSCRIPT: the prompts and answers of a node or a recording.

use nerve_api::reply::Transcript;
use nerve_api::request::GetTranscript;
use nerve_node::error::EngineError;

use super::context::RequestContext;
use crate::engine::Engine;
use crate::page::check_limit;
use crate::recorded_source::RecordedSource;
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
        let source = RecordedSource::parse(node_id, session_id, recording)?;
        let server = self.inner.factory.server_name().to_string();
        let transcript = self
            .file_job(move |dirs| match &source {
                RecordedSource::Node { node, session } => {
                    let session = session.as_deref();
                    transcripts::read_node(NodeAddress { node, session, server: &server }, dirs)
                }
                RecordedSource::Recording(recording) => {
                    transcripts::read_recording(&recordings::find(dirs, recording)?, dirs)
                }
            })
            .await?;
        Ok(transcripts::select_page(transcripts::select_turn(transcript, turn)?, before, limit))
    }
}
