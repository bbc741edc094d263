//! What is kept of a session.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use nerve_term::event::TsNs;
use serde_json::Value;

use crate::chat::ChatSpec;
use crate::command::{CommandLine, PanePlace};
use crate::conversation::ConversationId;
use crate::proxy::ProxySpec;

/// What is kept of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionMetadata {
    /// Unique in the file.
    pub id: String,
    /// Unique on its server.
    pub name: String,
    /// The server's name.
    pub server: String,
    /// For people.
    pub description: String,
    /// To find it by.
    pub tags: Vec<String>,
    /// When it was made; 0 where a file does not say. Kept in seconds: to a microsecond.
    pub created_at: TsNs,
    /// When it was last changed; as `created_at`.
    pub updated_at: TsNs,
    /// Its nodes, as they were made.
    pub nodes: Vec<NodeRecord>,
    /// Its graphs.
    pub graphs: Vec<GraphRecord>,
}

/// How a node was made; what is `None` was not said then.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeRecord {
    /// Its id.
    pub name: String,
    /// `pty`, `bash` …
    pub backend: Option<String>,
    /// What it runs.
    pub command: Option<CommandLine>,
    /// Where.
    pub cwd: Option<PathBuf>,
    /// Variables set on top of the server's environment.
    pub env: BTreeMap<String, String>,
    /// Names of variables that were set too, and whose values are not kept.
    pub env_omitted: Vec<String>,
    /// Columns of its terminal.
    pub cols: Option<u16>,
    /// Rows of its terminal.
    pub rows: Option<u16>,
    /// Its profile.
    pub profile: Option<String>,
    /// Its parser.
    pub parser: Option<String>,
    /// Is an audit log kept?
    pub history: Option<bool>,
    /// Is its terminal recorded?
    pub record: Option<bool>,
    /// How long a start may take.
    pub ready_timeout: Option<Duration>,
    /// How long a turn may take.
    pub response_timeout: Option<Duration>,
    /// Where its pane is.
    pub place: Option<PanePlace>,
    /// Its agent's own conversation.
    pub agent_session: Option<String>,
    /// The model of a chat node.
    pub chat: Option<Box<ChatSpec>>,
    /// The conversation its prompts belong to.
    pub conversation: Option<ConversationId>,
    /// Its proxy.
    pub proxy: Option<Box<ProxySpec>>,
}

/// A graph of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphRecord {
    /// Its name in the session.
    pub name: String,
    /// The graph file.
    pub definition: Value,
}

/// Does a variable's name look as if its value were secret? A few words count wherever they stand in it, in any
/// case: a value that was left out can be given again, a key that was written down cannot be taken back.
pub fn is_secret(name: &str) -> bool {
    const WORDS: [&str; 7] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "AUTH", "CREDENTIAL"];
    let name = name.to_uppercase();
    WORDS.iter().any(|word| name.contains(word))
}

impl SessionMetadata {
    pub(super) fn without_secrets(mut self) -> SessionMetadata {
        for node in &mut self.nodes {
            node.omit_secrets();
        }
        self
    }

    /// What cannot be kept in a text file.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.id.is_empty() {
            return Err("it has no id".to_string());
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
