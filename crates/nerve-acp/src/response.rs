//! The response to a request of the client, and the notice that follows it.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;

use futures_util::FutureExt;
use serde_json::{Value, json};

use crate::mcp_servers::AgentMcp;
use crate::peer::Peer;
use crate::rpc_error::{INTERNAL_ERROR, RpcError};
use crate::types::SessionUpdate;

/// The work of a request.
pub(crate) type Reply = Pin<Box<dyn Future<Output = Result<Response, RpcError>> + Send>>;

/// Work that follows a response.
type Continuation = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A response.
pub(crate) struct Response {
    result: Value,
    /// Id of a session, and an update of it. The client knows a new session only after the response.
    notice: Option<(String, SessionUpdate)>,
    continuation: Option<Continuation>,
}

impl From<Value> for Response {
    fn from(result: Value) -> Response {
        Response { result, notice: None, continuation: None }
    }
}

impl Response {
    /// Continues with `work` after the response was sent.
    pub(crate) fn followed_by(self, work: impl Future<Output = ()> + Send + 'static) -> Response {
        Response { continuation: Some(Box::pin(work)), ..self }
    }

    /// Lists the MCP servers that the agent does not get, in the response and in a notice.
    pub(crate) fn with_ignored(mut self, session: &str, mcp: &AgentMcp) -> Response {
        if !mcp.ignored.is_empty() {
            let title = format!("The agent does not get these MCP servers: {}", mcp.ignored.join(", "));
            tracing::warn!("{title}");
            self.result["_meta"] = json!({ "nerve": { "ignoredMcpServers": mcp.ignored } });
            let notice = SessionUpdate::Notice { severity: "warning".into(), title };
            self.notice = Some((session.to_string(), notice));
        }
        self
    }
}

/// Does the work of a request and responds to it. `shows_notices`: the client supports notices.
pub(crate) async fn respond(peer: &Peer, id: Value, reply: Reply, shows_notices: bool) {
    match catch_panic(reply).await {
        Ok(Response { result, notice, continuation }) => {
            peer.respond(id, Ok(result)).await;
            if let Some((session, update)) = notice.filter(|_| shows_notices) {
                peer.update(&session, &update).await;
            }
            if let Some(work) = continuation {
                work.await;
            }
        }
        Err(error) => peer.respond(id, Err(error)).await,
    }
}

/// Does the work of a request. A panic is an error, so that the client does not wait for ever.
async fn catch_panic(reply: Reply) -> Result<Response, RpcError> {
    AssertUnwindSafe(reply).catch_unwind().await.unwrap_or_else(|_| {
        let error = RpcError::new(INTERNAL_ERROR, "the request failed: a bug in nerve");
        Err(error.with("hint", "report it with the log on standard error"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panic_is_an_internal_error() {
        let reply: Reply = Box::pin(async { panic!("a test") });
        assert_eq!(catch_panic(reply).await.err().map(|error| error.code), Some(INTERNAL_ERROR));
    }
}
