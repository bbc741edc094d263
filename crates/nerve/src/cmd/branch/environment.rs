//! What a branch's node gets of the recorded one's environment, and of its proxy. Values are kept by the server that made that node, as
//! long as it knows it, and go from there to the new one; beside a recording are names alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use nerve_api::reply::NodeInfo;
use nerve_api::request::{LikeNode, ProxyOption};
use nerve_client::NerveClient;

use super::origin::Origin;
use crate::exit::{FAILED, Failure};

/// Where its home was, which is known apart.
const HOME: &str = "HOME";

/// What was recorded of how the session's program was started.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    recording: PathBuf,
    /// The id of its host, if it is not recorded.
    host: Option<String>,
    node: Option<String>,
    session: Option<String>,
    server: Option<String>,
    cwd: Option<PathBuf>,
    /// Names of the variables it was given.
    env: BTreeSet<String>,
    /// Kind of its proxy.
    proxy: Option<String>,
}

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    /// Variables.
    pub(crate) env: BTreeMap<String, String>,
    /// A proxy of its own.
    pub(crate) proxy: Option<ProxyOption>,
    /// Past the proxy that the recorded one had.
    pub(crate) no_proxy: bool,
}

/// What there is to take over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Inherited {
    /// The node that it is taken from.
    pub(crate) like: Option<LikeNode>,
    /// Names of the variables that are.
    pub(crate) env: Vec<String>,
    /// Names of those that are not known any more.
    pub(crate) missing: Vec<String>,
    /// Kind of the proxy.
    pub(crate) proxy: Option<String>,
}

impl Recorded {
    pub(super) fn of(origin: &Origin) -> Recorded {
        let meta = &origin.meta;
        Recorded {
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

    /// What is known of it on a server, if that is the one it was made by.
    ///
    /// # Errors
    /// It had a proxy, whose settings nobody knows, and nothing is asked for instead: without, its budget and its key would be
    /// passed by.
    pub(super) async fn inherited(
        &self,
        server: &str,
        client: &NerveClient,
        asked: &Asked,
    ) -> Result<Inherited, Failure> {
        let node = match &self.node {
            Some(name) if self.server.as_deref() == Some(server) => {
                // Its session may be gone, and with it what was known.
                let nodes = client.list_nodes(self.session.as_deref()).await.unwrap_or_default();
                nodes.into_iter().find(|node| node.id == *name && self.is_of(node))
            }
            _ => None,
        };
        let fact = |name: &str| node.as_ref().and_then(|node| fact(node, name));
        let known: BTreeSet<String> =
            fact("env").unwrap_or_default().split_whitespace().map(str::to_string).collect();
        let is_open = |name: &&String| *name != HOME && !asked.env.contains_key(*name);
        let proxy = fact("proxy");
        if proxy.is_none()
            && asked.proxy.is_none()
            && !asked.no_proxy
            && let Some(kind) = &self.proxy
        {
            let message =
                format!("the recorded agent had a proxy ({kind}), whose settings are not known any more");
            return Err(Failure::new(FAILED, message)
                .hint("give it one with --proxy, or let it go past it with --no-proxy"));
        }
        Ok(Inherited {
            like: node.map(|node| LikeNode {
                node_id: node.id,
                session_id: self.session.clone(),
                proxy: !asked.no_proxy,
            }),
            env: known.iter().filter(is_open).cloned().collect(),
            missing: self.env.difference(&known).filter(is_open).cloned().collect(),
            proxy: proxy.filter(|_| asked.proxy.is_none() && !asked.no_proxy),
        })
    }

    /// A node of the same name may be another one. One that was only read back by a new server tells no recording.
    fn is_of(&self, node: &NodeInfo) -> bool {
        let is_same = |one: &Path, other: &Path| match (one.canonicalize(), other.canonicalize()) {
            (Ok(one), Ok(other)) => one == other,
            _ => one == other,
        };
        if self.host.is_some() {
            return fact(node, "host") == self.host;
        }
        match fact(node, "recording") {
            Some(path) => is_same(Path::new(&path), &self.recording),
            None => {
                let cwd = fact(node, "cwd").map(PathBuf::from);
                node.state == "created" && cwd.is_some() && cwd == self.cwd
            }
        }
    }
}

fn fact(node: &NodeInfo, name: &str) -> Option<String> {
    node.metadata.get(name).and_then(|value| value.as_str()).map(str::to_string)
}

impl Inherited {
    /// What the node is not given, in words.
    pub(crate) fn lacks(&self) -> Option<String> {
        (!self.missing.is_empty()).then(|| {
            let names = self.missing.join(", ");
            format!(
                "without {names}, which the recorded one was given: values are not kept; give them with --env"
            )
        })
    }
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
    fn a_node_of_the_same_name_is_the_same_only_by_its_recording_or_before_it_runs_again() {
        let meta = Meta { node: Some("me".into()), cwd: Some("/w".into()), ..Meta::default() };
        let of = |file: &str| {
            Recorded::of(&Origin { file: file.into(), meta: meta.clone(), snapshots: Vec::new() })
        };
        let recorded = of("/r/a.ahr");
        let is_of = |state: &str, metadata: serde_json::Value| {
            recorded.is_of(&node(json!({ "id": "me", "type": "pty", "state": state, "metadata": metadata })))
        };
        assert!(is_of("ready", json!({ "recording": "/r/a.ahr" })));
        assert!(!is_of("ready", json!({ "recording": "/r/b.ahr", "cwd": "/w" })));
        assert!(is_of("created", json!({ "cwd": "/w" })));
        assert!(!is_of("created", json!({ "cwd": "/x" })));
        assert!(!is_of("ready", json!({ "cwd": "/w" })), "one that is not recorded");
        let unrecorded = of("/h/aa11.unrecorded/session.ahr");
        let is_of = |host: &str| {
            let metadata = json!({ "host": host, "cwd": "/w" });
            unrecorded
                .is_of(&node(json!({ "id": "me", "type": "pty", "state": "ready", "metadata": metadata })))
        };
        assert!(is_of("aa11") && !is_of("aa22"));
    }
}
