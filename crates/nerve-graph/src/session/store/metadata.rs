//! The stored metadata of a session.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use nerve_api::request::{ChatSettings, CommandLine, ProxySettings};
use nerve_types::TsNs;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use nerve_node::command::PanePlace;
use nerve_node::conversation_id::ConversationId;

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

/// The definition of a node, also in the sessions file. `None` means that a value was not specified.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeRecord {
    /// The id.
    pub name: String,
    /// `pty`, `bash` …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The program to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandLine>,
    /// The working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Variables set on top of the server's environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Names of variables that were set too, but whose values are not stored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env_omitted: Vec<String>,
    /// Columns of the terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
    /// Rows of the terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    /// The profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The parser.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parser: Option<String>,
    /// Enables the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<bool>,
    /// Enables recording of the terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<bool>,
    /// Timeout of the start.
    #[serde(with = "seconds", skip_serializing_if = "Option::is_none")]
    pub ready_timeout: Option<Duration>,
    /// Timeout of a turn.
    #[serde(with = "seconds", skip_serializing_if = "Option::is_none")]
    pub response_timeout: Option<Duration>,
    /// The location of its pane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<PanePlace>,
    /// Id of the agent's own conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_session: Option<String>,
    /// The settings of a chat node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chat: Option<Box<ChatSettings>>,
    /// The conversation in which its prompts are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationId>,
    /// The settings of its proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Box<ProxySettings>>,
}

/// Durations as seconds, as on the wire.
mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    pub(super) fn serialize<S: Serializer>(limit: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        limit.map(|limit| limit.as_secs_f64()).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        let seconds = Option::<f64>::deserialize(from)?;
        seconds.map(Duration::try_from_secs_f64).transpose().map_err(de::Error::custom)
    }
}

/// A graph of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GraphRecord {
    /// The name in the session.
    pub name: String,
    /// The content of the graph file.
    pub definition: Value,
}

/// Returns true if a variable's name suggests a secret value. A few words count anywhere in the name, in any case: a value left
/// out by mistake can be given again, but a key that was stored cannot be taken back.
pub(crate) fn is_secret(name: &str) -> bool {
    const WORDS: [&str; 7] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "AUTH", "CREDENTIAL"];
    let name = name.to_uppercase();
    WORDS.iter().any(|word| name.contains(word))
}

impl SessionMetadata {
    /// Returns the metadata without values that may be secret.
    pub(crate) fn without_secrets(mut self) -> SessionMetadata {
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
