//! The source of a transcript or a timeline.

use nerve_node::error::EngineError;
use nerve_node::names::check_name;

/// A node or a recording, selected by a request. The node need not exist any more.
#[derive(Debug)]
pub(crate) enum RecordedSource {
    /// The newest recording and the history of a node.
    Node {
        /// Id of the node.
        node: String,
        /// Its session, if the request names one.
        session: Option<String>,
    },
    /// A recording: its path, its id or `NODE@N`.
    Recording(String),
}

impl RecordedSource {
    /// Reads the parameters of a request.
    ///
    /// # Errors
    /// InvalidRequest: an invalid name; neither or both of `node_id` and `recording`.
    pub(crate) fn parse(
        node_id: Option<String>,
        session: Option<String>,
        recording: Option<String>,
    ) -> Result<RecordedSource, EngineError> {
        node_id.iter().try_for_each(|node| check_name(node, "node"))?;
        session.iter().try_for_each(|session| check_name(session, "session"))?;
        match (node_id, recording) {
            (Some(node), None) => Ok(RecordedSource::Node { node, session }),
            (None, Some(recording)) => Ok(RecordedSource::Recording(recording)),
            _ => Err(EngineError::invalid_request("node_id or recording is required")),
        }
    }
}
