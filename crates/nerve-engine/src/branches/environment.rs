//! Environment and proxy that a branch inherits from the recorded node. The recording stores only names; the values
//! come from the server that created the recorded node, as long as it still knows that node.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use nerve_api::reply::NodeInfo;
use nerve_api::request::{InheritedNode, ListNodes, ProxySettings};
use nerve_api::value::{BranchProxy, NodeState};
use nerve_node::error::EngineError;

use super::origin::Origin;
use super::server::NodeServer;

/// Variable that is recorded with its value.
const HOME: &str = "HOME";

/// The recorded node's identity and the names in its environment.
#[derive(Debug, Clone)]
pub(super) struct RecordedNode {
    recording: PathBuf,
    /// Host id of an unrecorded session.
    host: Option<String>,
    node: Option<String>,
    session: Option<String>,
    server: Option<String>,
    cwd: Option<PathBuf>,
    /// Names of the variables it was created with.
    env: BTreeSet<String>,
    /// Kind of its proxy.
    proxy: Option<String>,
}

/// Environment and proxy settings of the new node.
#[derive(Debug, Clone, Default)]
pub struct NodeOverrides {
    /// Variables to set.
    pub env: BTreeMap<String, String>,
    /// Proxy of the new node, instead of the recorded one's.
    pub proxy: Option<Box<ProxySettings>>,
    /// Do not use the recorded node's proxy.
    pub no_proxy: bool,
}

/// Settings inherited from the recorded node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InheritedSettings {
    /// The node to copy from.
    pub inherit: Option<InheritedNode>,
    /// Names of the inherited variables.
    pub env: Vec<String>,
    /// Names of variables whose values are unknown.
    pub missing: Vec<String>,
    /// Kind of the inherited proxy.
    pub proxy: Option<BranchProxy>,
}

impl RecordedNode {
    pub(super) fn from_origin(origin: &Origin) -> RecordedNode {
        let meta = &origin.meta;
        RecordedNode {
            recording: origin.file.clone(),
            host: origin.unrecorded().map(str::to_string),
            node: meta.node.clone(),
            session: meta.session.clone(),
            server: meta.server.clone(),
            cwd: meta.cwd.clone(),
            env: meta.env.iter().cloned().collect(),
            proxy: meta.proxy.clone(),
        }
    }

    /// Returns the settings that the server called `name` can pass on from the recorded node, if it created that node.
    ///
    /// # Errors
    /// The recorded node had a proxy whose settings are unknown, and `overrides` neither replaces nor disables it. Without a proxy
    /// the new node would bypass its budget and key.
    pub(super) async fn inherit(
        &self,
        name: &str,
        server: &impl NodeServer,
        overrides: &NodeOverrides,
    ) -> Result<InheritedSettings, EngineError> {
        let node = match &self.node {
            Some(node) if self.server.as_deref() == Some(name) => {
                // The session may no longer exist.
                let request = ListNodes { session_id: self.session.clone(), ..ListNodes::default() };
                let nodes = server.list_nodes(request).await.unwrap_or_default();
                nodes.into_iter().find(|info| info.node_id == *node && self.is_recorded_node(info))
            }
            _ => None,
        };
        let metadata = |name: &str| node.as_ref().and_then(|node| metadata(node, name));
        let known: BTreeSet<String> =
            metadata("env").unwrap_or_default().split_whitespace().map(str::to_string).collect();
        let is_open = |name: &&String| *name != HOME && !overrides.env.contains_key(*name);
        let proxy = metadata("proxy").map(|kind| kind.parse::<BranchProxy>().unwrap_or_default());
        if proxy.is_none()
            && overrides.proxy.is_none()
            && !overrides.no_proxy
            && let Some(kind) = &self.proxy
        {
            let message =
                format!("cannot inherit the recorded agent's proxy ({kind}): its settings are unknown");
            return Err(EngineError::process(message)
                .hint("configure a proxy with `proxy`, or use none with `no_proxy`"));
        }
        Ok(InheritedSettings {
            inherit: node.map(|node| InheritedNode {
                node_id: node.node_id,
                session_id: self.session.clone(),
                proxy: !overrides.no_proxy,
            }),
            env: known.iter().filter(is_open).cloned().collect(),
            missing: self.env.difference(&known).filter(is_open).cloned().collect(),
            proxy: proxy.filter(|_| overrides.proxy.is_none() && !overrides.no_proxy),
        })
    }

    /// Returns true if `node` is the recorded one, not another of the same name. A node restored by a new server has
    /// no recording yet.
    fn is_recorded_node(&self, node: &NodeInfo) -> bool {
        let is_same = |one: &Path, other: &Path| match (one.canonicalize(), other.canonicalize()) {
            (Ok(one), Ok(other)) => one == other,
            _ => one == other,
        };
        if self.host.is_some() {
            return metadata(node, "host_id") == self.host;
        }
        match metadata(node, "recording_path") {
            Some(path) => is_same(Path::new(&path), &self.recording),
            None => {
                let cwd = metadata(node, "cwd").map(PathBuf::from);
                matches!(node.state, NodeState::Created | NodeState::Stopped)
                    && cwd.is_some()
                    && cwd == self.cwd
            }
        }
    }
}

/// Returns a text of the node's metadata.
fn metadata(node: &NodeInfo, name: &str) -> Option<String> {
    node.metadata.known_text(name).map(str::to_string)
}

/// Describes variables whose values are unknown, if there are any.
pub fn missing_note(missing: &[String]) -> Option<String> {
    (!missing.is_empty()).then(|| {
        let names = missing.join(", ");
        format!("without {names} of the recorded node: values are not recorded; set them with --env")
    })
}

#[cfg(test)]
mod tests {
    use nerve_record::meta::Meta;
    use serde_json::json;

    use super::*;

    fn node(value: serde_json::Value) -> NodeInfo {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn node_is_recognized_by_recording_host_or_directory() {
        let meta = Meta { node: Some("me".into()), cwd: Some("/w".into()), ..Meta::default() };
        let of = |file: &str| {
            RecordedNode::from_origin(&Origin {
                file: file.into(),
                meta: meta.clone(),
                snapshots: Vec::new(),
            })
        };
        let recorded = of("/r/a.ahr");
        let is_recorded_node = |state: &str, metadata: serde_json::Value| {
            recorded.is_recorded_node(&node(
                json!({ "node_id": "me", "type": "pty", "state": state, "metadata": metadata }),
            ))
        };
        assert!(is_recorded_node("ready", json!({ "recording_path": "/r/a.ahr" })));
        assert!(!is_recorded_node("ready", json!({ "recording_path": "/r/b.ahr", "cwd": "/w" })));
        assert!(is_recorded_node("created", json!({ "cwd": "/w" })));
        assert!(!is_recorded_node("created", json!({ "cwd": "/x" })));
        assert!(!is_recorded_node("ready", json!({ "cwd": "/w" })), "unrecorded node");
        let unrecorded = of("/h/aa11.unrecorded/session.ahr");
        let is_recorded_node = |host: &str| {
            let metadata = json!({ "host_id": host, "cwd": "/w" });
            unrecorded.is_recorded_node(&node(
                json!({ "node_id": "me", "type": "pty", "state": "ready", "metadata": metadata }),
            ))
        };
        assert!(is_recorded_node("aa11") && !is_recorded_node("aa22"));
    }
}
