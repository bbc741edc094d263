//! Names of the first nerve, as deprecated aliases.

use nerve_api::reply::Turn;
use nerve_api::request::{CreateNode, ExecuteInput};

use crate::client::NerveClient;
use crate::error::ClientError;
use crate::execute::ExecuteStream;
use crate::node::RemoteNode;

/// Older name of [`RemoteNode`].
#[deprecated(note = "use RemoteNode")]
pub type RemoteChannel = RemoteNode;

impl RemoteNode {
    /// Older name of [`RemoteNode::execute`].
    #[deprecated(note = "use RemoteNode::execute")]
    pub async fn send(&self, input: impl Into<ExecuteInput>) -> Result<Turn, ClientError> {
        self.execute(input).await
    }

    /// Older name of [`RemoteNode::execute_stream`].
    #[deprecated(note = "use RemoteNode::execute_stream")]
    pub async fn send_stream(&self, input: impl Into<ExecuteInput>) -> Result<ExecuteStream, ClientError> {
        self.execute_stream(input).await
    }

    /// Older name of [`RemoteNode::stop`].
    #[deprecated(note = "use RemoteNode::stop")]
    pub async fn close(&self) -> Result<(), ClientError> {
        self.stop().await
    }

    /// Older name of [`RemoteNode::id`].
    #[deprecated(note = "use RemoteNode::id")]
    pub fn channel_id(&self) -> &str {
        self.id()
    }
}

impl NerveClient {
    /// Older name of [`NerveClient::create_node`].
    #[deprecated(note = "use NerveClient::create_node")]
    pub async fn create_channel(&self, params: &CreateNode) -> Result<RemoteNode, ClientError> {
        self.create_node(params).await
    }

    /// Older name of [`NerveClient::get_node`].
    #[deprecated(note = "use NerveClient::get_node")]
    pub async fn get_channel(
        &self,
        channel_id: &str,
        session: Option<&str>,
    ) -> Result<RemoteNode, ClientError> {
        self.get_node(channel_id, session).await
    }

    /// Returns only the ids of [`NerveClient::list_nodes`].
    #[deprecated(note = "use NerveClient::list_nodes")]
    pub async fn list_channels(&self, session: Option<&str>) -> Result<Vec<String>, ClientError> {
        Ok(self.list_nodes(session).await?.into_iter().map(|node| node.node_id).collect())
    }
}
