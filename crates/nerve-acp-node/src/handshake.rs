//! The start of a session: the version of the protocol, and a new or an earlier conversation.

use std::path::Path;

use nerve_acp_protocol::rpc_error::{AUTH_REQUIRED, RpcError};
use nerve_acp_protocol::types::{Implementation, InitializeResponse, NewSessionResponse};
use nerve_node::error::{EngineError, ErrorKind};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::link::{CallError, Link};

/// The version of the protocol.
const VERSION: u16 = 1;

/// The conversation of a new process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Opening {
    New,
    /// Continues a session.
    Resume(String),
    /// Continues a copy of a session.
    Fork(String),
}

/// Opens a session in `cwd`, which is absolute. Returns the name of the agent.
///
/// # Errors
/// Process: the agent ended, or does not speak the protocol. Authentication. NotFound: the conversation cannot be continued.
/// InvalidRequest: the agent does not fork sessions.
pub(crate) async fn open_session(
    link: &Link,
    cwd: &Path,
    opening: &Opening,
) -> Result<Option<Implementation>, EngineError> {
    let agent = initialize(link).await?;
    let mut params = json!({ "cwd": cwd.to_string_lossy(), "mcpServers": [] });
    match opening {
        Opening::New => make_session(link, &agent, "session/new", params).await?,
        Opening::Resume(id) => {
            params["sessionId"] = id.as_str().into();
            resume_session(link, &agent, id, params).await?;
        }
        Opening::Fork(id) => {
            if !agent.agent_capabilities.session_capabilities.fork.is_object() {
                let refused = error(link, ErrorKind::InvalidRequest, "the agent does not fork sessions");
                return Err(refused.hint("create a new node instead"));
            }
            params["sessionId"] = id.as_str().into();
            make_session(link, &agent, "session/fork", params).await?;
            link.await_silence().await;
        }
    }
    Ok(agent.agent_info)
}

/// Opens a session with a new id.
async fn make_session(
    link: &Link,
    agent: &InitializeResponse,
    method: &str,
    params: Value,
) -> Result<(), EngineError> {
    let made = link.call(method, params).await.map_err(|error| call_error(link, error, &logins(agent)))?;
    let made: NewSessionResponse = parse(link, method, made)?;
    link.set_session_id(&made.session_id);
    Ok(())
}

/// Opens an earlier session.
async fn resume_session(
    link: &Link,
    agent: &InitializeResponse,
    id: &str,
    params: Value,
) -> Result<(), EngineError> {
    let capabilities = &agent.agent_capabilities;
    let method = match (capabilities.session_capabilities.resume.is_object(), capabilities.load_session) {
        (true, _) => "session/resume",
        (false, true) => "session/load",
        (false, false) => {
            return Err(no_conversation_error(link, id, "the agent cannot load sessions"));
        }
    };
    link.set_session_id(id);
    link.call(method, params).await.map_err(|error| match error {
        CallError::Rpc(error) if error.code != AUTH_REQUIRED => {
            no_conversation_error(link, id, &describe(&error))
        }
        error => call_error(link, error, &logins(agent)),
    })?;
    if method == "session/load" {
        link.await_silence().await;
    }
    Ok(())
}

/// Returns the ways to log in to an agent.
fn logins(agent: &InitializeResponse) -> String {
    agent.auth_methods.iter().map(|method| method.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Agrees on the version. No file system and no terminals are offered to the agent.
async fn initialize(link: &Link) -> Result<InitializeResponse, EngineError> {
    let params = json!({
        "protocolVersion": VERSION,
        "clientCapabilities": { "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false },
        "clientInfo": { "name": "nerve", "title": "nerve", "version": env!("CARGO_PKG_VERSION") },
    });
    let response = link.call("initialize", params).await.map_err(|error| call_error(link, error, ""))?;
    let agent: InitializeResponse = parse(link, "initialize", response)?;
    if agent.protocol_version != VERSION {
        let version = agent.protocol_version;
        let message =
            format!("it speaks version {version} of the Agent Client Protocol, and nerve version {VERSION}");
        return Err(error(link, ErrorKind::Process, &message).hint("use another version of the agent"));
    }
    link.set_initialized();
    Ok(agent)
}

/// Creates the error of a start that was not complete in time.
pub(crate) fn timeout_error(link: &Link) -> EngineError {
    error(link, ErrorKind::Timeout, "it did not open a session in time")
        .hint("check that the command speaks the Agent Client Protocol over its standard streams; `--ready-timeout` sets the limit")
}

fn parse<T: DeserializeOwned>(link: &Link, method: &str, response: Value) -> Result<T, EngineError> {
    serde_json::from_value(response).map_err(|problem| {
        error(link, ErrorKind::Process, &format!("invalid response to {method}: {problem}"))
    })
}

/// Creates the error of a failed request. `login`: the ways to log in.
fn call_error(link: &Link, failed: CallError, login: &str) -> EngineError {
    match failed {
        CallError::Rpc(rpc) if rpc.code == AUTH_REQUIRED => {
            let message = format!("it requires a login: {}", describe(&rpc));
            let hint = match login {
                "" => "log in with the agent itself, and create the node again".to_string(),
                login => format!("log in with the agent itself ({login}), and create the node again"),
            };
            error(link, ErrorKind::Authentication, &message).hint(hint)
        }
        CallError::Rpc(rpc) => error(link, ErrorKind::Process, &describe(&rpc)).hint(
            "the agent reported this error; run it in a terminal, or in an editor, to see what it needs",
        ),
        CallError::Ended(end) => {
            let last = end.stderr.lines().last().map_or(String::new(), |line| format!(" ({line})"));
            error(link, ErrorKind::Process, &format!("it ended: {}{last}", end.reason))
                .hint("run the command in a terminal; it has to speak the Agent Client Protocol")
        }
    }
}

fn no_conversation_error(link: &Link, id: &str, why: &str) -> EngineError {
    let node = &link.state.node.node;
    error(link, ErrorKind::NotFound, &format!("it did not open conversation {id}: {why}"))
        .hint(format!("`nerve start {node} --fresh` starts it with a new conversation"))
}

/// Creates an error of the start, with the end of the agent's standard error.
fn error(link: &Link, kind: ErrorKind, why: &str) -> EngineError {
    let message = format!("node '{}' was not started: {why}", link.state.node.node);
    let mut error = EngineError::new(kind, message);
    error.screen = Some(link.stderr()).filter(|text| !text.is_empty());
    error
}

/// Describes an error of the agent with its details.
pub(crate) fn describe(error: &RpcError) -> String {
    let details = match &error.data {
        Value::String(text) => Some(text.as_str()),
        data => ["details", "message", "error"].iter().find_map(|key| data[*key].as_str()),
    };
    match details.filter(|details| !error.message.contains(details)) {
        Some(details) => format!("{}: {details}", error.message),
        None => error.message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_described_with_their_details() {
        let error = |data: Value| RpcError { data, ..RpcError::new(-32603, "Internal error") };
        assert_eq!(describe(&error(Value::Null)), "Internal error");
        assert_eq!(describe(&error(json!({ "details": "no key" }))), "Internal error: no key");
        assert_eq!(describe(&error(json!("no key"))), "Internal error: no key");
        assert_eq!(describe(&error(json!([1]))), "Internal error");
    }
}
