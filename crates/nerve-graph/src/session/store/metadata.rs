//! The stored metadata of a session.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use nerve_types::TsNs;
use serde_json::Value;

use nerve_node::chat::ChatSpec;
use nerve_node::command::{CommandLine, PanePlace};
use nerve_node::conversation_id::ConversationId;
use nerve_node::proxy::ProxySpec;

/// The stored metadata of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionMetadata {
    /// The id, unique in the file.
    pub id: String,
    /// The name, unique on its server.
    pub name: String,
    /// The server's name.
    pub server: String,
    /// The description, for people.
    pub description: String,
    /// Tags to search for.
    pub tags: Vec<String>,
    /// Creation time; 0 if unknown. Stored in seconds with microsecond precision.
    pub created_at: TsNs,
    /// Time of the last change; stored like `created_at`.
    pub updated_at: TsNs,
    /// The definitions of its nodes.
    pub nodes: Vec<NodeRecord>,
    /// Its graphs.
    pub graphs: Vec<GraphRecord>,
}

/// The definition of a node. `None` means that a value was not specified.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeRecord {
    /// The id.
    pub name: String,
    /// `pty`, `bash` …
    pub backend: Option<String>,
    /// The program to run.
    pub command: Option<CommandLine>,
    /// The working directory.
    pub cwd: Option<PathBuf>,
    /// Variables set on top of the server's environment.
    pub env: BTreeMap<String, String>,
    /// Names of variables that were set too, but whose values are not stored.
    pub env_omitted: Vec<String>,
    /// Columns of the terminal.
    pub cols: Option<u16>,
    /// Rows of the terminal.
    pub rows: Option<u16>,
    /// The profile.
    pub profile: Option<String>,
    /// The parser.
    pub parser: Option<String>,
    /// Enables the audit log.
    pub history: Option<bool>,
    /// Enables recording of the terminal.
    pub record: Option<bool>,
    /// Timeout of the start.
    pub ready_timeout: Option<Duration>,
    /// Timeout of a turn.
    pub response_timeout: Option<Duration>,
    /// The location of its pane.
    pub place: Option<PanePlace>,
    /// Id of the agent's own conversation.
    pub agent_session: Option<String>,
    /// The settings of a chat node.
    pub chat: Option<Box<ChatSpec>>,
    /// The conversation in which its prompts are stored.
    pub conversation: Option<ConversationId>,
    /// The settings of its proxy.
    pub proxy: Option<Box<ProxySpec>>,
}

/// A graph of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphRecord {
    /// The name in the session.
    pub name: String,
    /// The content of the graph file.
    pub definition: Value,
}

/// Returns true if a variable's name suggests a secret value. A few words count anywhere in the name, in any case: a value left
/// out by mistake can be given again, but a key that was stored cannot be taken back.
pub fn is_secret(name: &str) -> bool {
    const WORDS: [&str; 7] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "AUTH", "CREDENTIAL"];
    let name = name.to_uppercase();
    WORDS.iter().any(|word| name.contains(word))
}

impl SessionMetadata {
    /// Returns the metadata without values that may be secret.
    pub fn without_secrets(mut self) -> SessionMetadata {
        for node in &mut self.nodes {
            node.omit_secrets();
        }
        self
    }

    /// Checks that the session can be stored as text.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.id.is_empty() {
            return Err("the session has no id".to_string());
        }
        match self.nodes.iter().find(|node| node.cwd.as_ref().is_some_and(|cwd| cwd.to_str().is_none())) {
            Some(node) => Err(format!("the folder of node '{}' has a name that is not UTF-8", node.name)),
            None => Ok(()),
        }
    }
}

impl NodeRecord {
    fn omit_secrets(&mut self) {
        let (secret, plain): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.env).into_iter().partition(|(name, _)| is_secret(name));
        self.env = plain;
        if !secret.is_empty() {
            let names: BTreeSet<String> = self.env_omitted.drain(..).chain(secret.into_keys()).collect();
            self.env_omitted = names.into_iter().collect();
        }
    }
}
