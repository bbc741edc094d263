//! The stored metadata of a session.

use std::collections::{BTreeMap, BTreeSet};

use nerve_api::request::NodeSpec;
use nerve_node::usage_ledger::LedgerRecord;
use nerve_types::TsNs;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};

use crate::session::entry::LastProcess;

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
    /// Limits and usage of all its nodes.
    pub ledger: LedgerRecord,
    /// Its graphs.
    pub graphs: Vec<GraphRecord>,
}

/// The definition of a node in the sessions file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeRecord {
    /// The specification. Its session is that of the metadata.
    #[serde(flatten)]
    pub spec: NodeSpec,
    /// Names of further variables that were set, whose values are not stored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env_omitted: Vec<String>,
    /// The last process; `None` in files of older servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<LastProcess>,
}

impl<'de> Deserialize<'de> for NodeRecord {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<NodeRecord, D::Error> {
        #[derive(Deserialize)]
        struct Fields {
            #[serde(flatten)]
            spec: NodeSpec,
            #[serde(default)]
            env_omitted: Vec<String>,
            #[serde(default)]
            last: Option<LastProcess>,
        }
        let mut fields = Map::deserialize(from)?;
        rename_old_fields(&mut fields);
        let Fields { spec, env_omitted, last } =
            serde_json::from_value(fields.into()).map_err(de::Error::custom)?;
        Ok(NodeRecord { spec, env_omitted, last })
    }
}

/// Renames the fields of files of older servers, in which `null` means that a field is missing.
fn rename_old_fields(fields: &mut Map<String, Value>) {
    let place = fields.remove("place");
    let mut place = place.and_then(|place| place.as_object().cloned()).unwrap_or_default();
    let conversation =
        ["agent_session", "claude_session_id"].into_iter().find_map(|name| fields.remove(name));
    let renamed = [
        ("node_id", fields.remove("name")),
        ("conversation_id", conversation),
        ("pane_id", place.remove("pane")),
        ("tmux_session", place.remove("session")),
        ("socket", place.remove("socket")),
    ];
    fields.extend(renamed.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?))));
    fields.retain(|_, value| !value.is_null());
}

/// A graph of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GraphRecord {
    /// The name in the session.
    pub name: String,
    /// The content of the graph file.
    pub definition: Value,
}

/// Returns true if a variable may have a secret value: its name suggests one, or its value is a URL with a password. A few words
/// count anywhere in the name, in any case. A value left out by mistake can be given again, but a stored key cannot be taken back.
/// `PASS` counts only at the end of a name, because of `PASSTHROUGH` and `PGPASSFILE`.
pub(crate) fn is_secret(name: &str, value: &str) -> bool {
    const WORDS: [&str; 8] =
        ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "AUTH", "CREDENTIAL"];
    let name = name.to_uppercase();
    let is_named_secret = WORDS.iter().any(|word| name.contains(word)) || name.ends_with("PASS");
    is_named_secret || name.ends_with("_PWD") || has_url_password(value)
}

/// Length from which a user without a password is taken for a token: `https://ghp_…@github.com`.
const MIN_TOKEN: usize = 20;

/// Returns true if a text contains a URL with a password or a token (RFC 3986, section 3.2.1): `postgres://me:pw@host`.
fn has_url_password(text: &str) -> bool {
    text.split("://").skip(1).any(|rest| {
        let url = rest.split(char::is_whitespace).next().unwrap_or_default();
        let authority = url.split(['/', '?', '#']).next().unwrap_or_default();
        match (authority.rsplit_once('@'), authority.rsplit_once(':')) {
            (Some((user, _)), _) => user.contains(':') || user.len() >= MIN_TOKEN,
            // Such a character in a password is often not encoded, so the password seems to be a port.
            (None, Some((_, port))) => port.parse::<u16>().is_err() && url.contains('@'),
            (None, None) => false,
        }
    })
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
        match self.nodes.iter().find(|node| node.spec.cwd.as_ref().is_some_and(|cwd| cwd.to_str().is_none()))
        {
            Some(node) => {
                Err(format!("the folder of node '{}' has a name that is not UTF-8", node.spec.node_id))
            }
            None => Ok(()),
        }
    }
}

impl NodeRecord {
    fn omit_secrets(&mut self) {
        let (secret, plain): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.spec.env).into_iter().partition(|(name, value)| is_secret(name, value));
        self.spec.env = plain;
        if !secret.is_empty() {
            let names: BTreeSet<String> = self.env_omitted.drain(..).chain(secret.into_keys()).collect();
            self.env_omitted = names.into_iter().collect();
        }
    }
}
