//! GET_TIMELINE and READ_RECORDING: an overview of a recording, and its terminal at any position.

use nerve_api::reply::{RecordedOutput, RecordingTimeline};
use nerve_api::request::{GetTimeline, ReadRecording};
use nerve_node::error::EngineError;
use nerve_node::names::check_name;

use super::Engine;
use super::context::RequestContext;
use crate::data_dirs::DataDirs;
use crate::timelines::{TimelineSource, read_output, read_timeline};
use crate::transcripts::NodeAddress;

/// Maximum bytes of output of a reply.
const MAX_LIMIT: usize = 1 << 20;
/// Default of `limit`.
const DEFAULT_LIMIT: usize = 256 << 10;

impl Engine {
    /// Returns an overview of a recording. A long one is read in several requests.
    ///
    /// # Errors
    /// NotFound (no recording), InvalidRequest, Process (unreadable files).
    pub async fn get_timeline(
        &self,
        request: GetTimeline,
        _: RequestContext,
    ) -> Result<RecordingTimeline, EngineError> {
        let GetTimeline { node_id, session_id, recording } = request;
        let server = self.inner.factory.server_name().to_string();
        let history = self.inner.factory.history_base_dir().to_path_buf();
        node_id.iter().try_for_each(|node| check_name(node, "node"))?;
        session_id.iter().try_for_each(|session| check_name(session, "session"))?;
        let engine = self.clone();
        self.file_job(move |dirs| {
            let dirs = DataDirs { history, ..dirs.clone() };
            let session = session_id.as_deref();
            let source = match (&node_id, &recording) {
                (Some(node), None) => TimelineSource::Node(NodeAddress { node, session, server: &server }),
                (None, Some(recording)) => TimelineSource::Recording(recording),
                _ => return Err(EngineError::invalid_request("node_id or recording is required")),
            };
            read_timeline(source, &engine.inner.timelines, &dirs)
        })
        .await
    }

    /// Returns the terminal of a recording at a position, and the output that follows. A long recording is indexed first, in
    /// several requests.
    ///
    /// # Errors
    /// NotFound (no recording), InvalidRequest (two positions, a limit out of range), Process (unreadable files).
    pub async fn read_recording(
        &self,
        request: ReadRecording,
        _: RequestContext,
    ) -> Result<RecordedOutput, EngineError> {
        let limit = request.limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            let message = format!("params.limit: {limit} is not from 1 to {MAX_LIMIT}");
            return Err(EngineError::invalid_request(message));
        }
        if request.at.is_some() && request.offset.is_some() {
            return Err(EngineError::invalid_request("at and offset: only one of them can be given"));
        }
        if request.output_only && request.at.is_some() {
            return Err(EngineError::invalid_request("output_only needs a position by offset"));
        }
        self.file_job(move |dirs| read_output(&request, limit, dirs)).await
    }
}
