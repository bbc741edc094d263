//! The specification of a node.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use nerve_types::Size;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

use super::budget::UsageLimits;
use super::chat::ChatSettings;
use super::conversation::ConversationOptions;
use super::node::{ClearBuffer, ExplainNode, GetNode, SendInterrupt, StartNode, StopNode};
use super::proxy::{ProxyOption, ProxySettings};
use super::value::{CommandLine, Seconds, without_nulls};
use crate::value::{BackendKind, ParserKind};
use crate::{DEFAULT_SESSION, session_option};

/// A node in a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeRef {
    /// Name of the session; `None` for the default session.
    pub session: Option<String>,
    /// Id of the node.
    pub node: String,
}

impl NodeRef {
    /// Creates a reference.
    pub fn new(node: impl Into<String>, session: Option<String>) -> NodeRef {
        NodeRef { session, node: node.into() }
    }

    /// Returns the name of the session.
    pub fn session_or_default(&self) -> &str {
        self.session.as_deref().unwrap_or(DEFAULT_SESSION)
    }

    /// Returns the reference with the name of its session, even if that is the default one.
    #[must_use]
    pub fn with_session(&self) -> NodeRef {
        NodeRef::new(&self.node, Some(self.session_or_default().to_string()))
    }

    /// Returns the reference without the name of the default session.
    #[must_use]
    pub fn without_default_session(mut self) -> NodeRef {
        self.session = self.session.filter(|session| session != DEFAULT_SESSION);
        self
    }

    /// Returns the arguments that select the node in a command.
    pub fn arguments(&self) -> String {
        format!("{}{}", self.node, session_option(self.session_or_default()))
    }
}

/// Implements conversions for requests that have a node as their only parameter.
macro_rules! from_node {
    ($($request:ident)*) => {$(
        impl From<NodeRef> for $request {
            fn from(at: NodeRef) -> $request {
                $request::new(at.node, at.session)
            }
        }
    )*};
}

from_node! { ClearBuffer ExplainNode GetNode SendInterrupt StartNode StopNode }

/// CREATE_NODE: creates and starts a node from its specification.
pub type CreateNode = NodeSpec;

/// Specification of a node: CREATE_NODE creates and starts a node from it, and the sessions file stores it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeSpec {
    /// Id of the new node: 1–32 of `a-z 0-9 -`.
    pub node_id: String,
    /// Session of the new node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Command to run. Default: the user's shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandLine>,
    /// Kind of node. Default: `pty`.
    #[serde(default)]
    pub backend: BackendKind,
    /// Working directory. Default: the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Environment variables in addition to those of `shell_env` or the server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Environment of the shell that creates the node, instead of the server's. It is not stored. Variables that describe a terminal, and
    /// `NERVE_*`, are ignored. Default: the server's environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell_env: Option<BTreeMap<String, String>>,
    /// Existing pane to attach to instead of starting a program: of tmux (`%3`, `session:window.pane`) or WezTerm (a number). It is never
    /// killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pane_id: Option<String>,
    /// tmux session for a new pane, created if missing. Default: `nerve`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmux_session: Option<String>,
    /// tmux or WezTerm server: path of its socket, or for tmux a name as in `tmux -L`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
    /// Columns of the terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
    /// Rows of the terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    /// Name of the agent profile. Default: detected from the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Parser of answers. Default: the profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parser: Option<ParserKind>,
    /// Writes an audit log. Default: true.
    #[serde(default = "enabled")]
    pub history: bool,
    /// Records the terminal. Default: true.
    #[serde(default = "enabled")]
    pub record: bool,
    /// Time limit for the start until the node is ready, in seconds. Default: 60.
    #[serde(default = "default_ready_timeout")]
    pub ready_timeout: Seconds,
    /// Default time limit of a turn, in seconds. Default: 1800.
    #[serde(default = "default_response_timeout")]
    pub response_timeout: Seconds,
    /// Id of the agent's conversation. Default: from the command, otherwise generated if the agent accepts one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    /// Starts a version of the agent that is older than those its profile was tested with. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// Model of a chat node. Required for `backend` = `chat`, invalid for others.
    #[serde(default, deserialize_with = "chat", skip_serializing_if = "Option::is_none")]
    pub chat: Option<Box<ChatSettings>>,
    /// Proxy of this node between its agent and the model's API: `anthropic`, `openai`, or settings.
    #[serde(default, deserialize_with = "ProxyOption::settings", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<ProxyOption>"))]
    pub proxy: Option<Box<ProxySettings>>,
    /// Limits of the usage of an agent in a terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<UsageLimits>,
    /// Default conversation of its prompts: `workspace` and `chat`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationOptions>,
    /// Existing node whose environment variables and proxy are inherited, unless set in this request. Their values are not disclosed.
    #[serde(rename = "like", default, skip_serializing_if = "Option::is_none")]
    pub inherit: Option<InheritedNode>,
}

/// Another node of the same server, from which CREATE_NODE inherits settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InheritedNode {
    /// Id of the node.
    pub node_id: String,
    /// Session of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Inherits the proxy with its settings too. Default: true.
    #[serde(default = "enabled")]
    pub proxy: bool,
}

fn enabled() -> bool {
    true
}

fn chat<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<ChatSettings>>, D::Error> {
    let settings = Option::<Value>::deserialize(deserializer)?;
    settings.map(without_nulls).transpose().map_err(de::Error::custom)
}

fn default_ready_timeout() -> Seconds {
    Seconds::from(Duration::from_secs(60))
}

fn default_response_timeout() -> Seconds {
    Seconds::from(Duration::from_secs(1800))
}

impl NodeSpec {
    /// Creates the specification of a node in the default session, with all defaults.
    pub fn new(node_id: impl Into<String>) -> NodeSpec {
        NodeSpec::at(NodeRef { session: None, node: node_id.into() })
    }

    /// Creates the specification of a node with all defaults.
    pub fn at(node: NodeRef) -> NodeSpec {
        NodeSpec {
            node_id: node.node,
            session_id: node.session,
            command: None,
            backend: BackendKind::default(),
            cwd: None,
            env: BTreeMap::new(),
            shell_env: None,
            pane_id: None,
            tmux_session: None,
            socket: None,
            cols: None,
            rows: None,
            profile: None,
            parser: None,
            history: true,
            record: true,
            ready_timeout: default_ready_timeout(),
            response_timeout: default_response_timeout(),
            conversation_id: None,
            force: false,
            chat: None,
            proxy: None,
            budget: None,
            conversation: None,
            inherit: None,
        }
    }

    /// Returns the node's session and id.
    pub fn node_ref(&self) -> NodeRef {
        NodeRef { session: self.session_id.clone(), node: self.node_id.clone() }
    }

    /// Returns the size of the terminal, limited to the allowed range.
    pub fn size(&self) -> Size {
        let default = Size::default();
        Size::new(self.cols.unwrap_or(default.cols), self.rows.unwrap_or(default.rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_session_has_two_spellings() {
        let [short, long] = [None, Some("default".to_string())].map(|session| NodeRef::new("n", session));
        assert_eq!(short.with_session(), long);
        assert_eq!(long.clone().without_default_session(), short);
        assert_eq!([&short, &long].map(NodeRef::arguments), ["n", "n"]);
        let other = NodeRef::new("n", Some("s".to_string()));
        assert_eq!(other.arguments(), "n --session s");
        assert_eq!([other.with_session(), other.clone().without_default_session()], [other.clone(), other]);
    }
}
