//! A shell that acts as an agent: its profile sets the proxy variables, and a script sends requests to the model.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use nerve_api::reply::NodeInfo;
use nerve_api::request::NodeSpec;
use nerve_node::error::EngineError;
use nerve_node::proxy::{Provider, ProxySettings};
use nerve_testkit::harness::{EngineHarness, node_ref};
use nerve_testkit::mock_model::{MockModel, Script};
use nerve_testkit::wait_until_async;
use serde_json::Value;

use crate::harness::Harness;

/// Sends one request to the model and prints the head and body of the answer.
const REQUEST_SCRIPT: &str = r#"#!/bin/bash
at=${ANTHROPIC_BASE_URL#http://}
body='{"model":"m-1","max_tokens":9,"messages":[{"role":"user","content":"'"$1"'"}]}'
exec 3<>"/dev/tcp/${at%:*}/${at#*:}" || exit 1
printf 'POST /v1/messages HTTP/1.1\r\nhost: %s\r\nconnection: close\r\ncontent-type: application/json\r\nx-api-key: %s\r\ncontent-length: %s\r\n\r\n%s' \
  "$at" "${2:-${ANTHROPIC_AUTH_TOKEN:-own-key}}" "${#body}" "$body" >&3
cat <&3
echo
"#;

pub(crate) struct ProxyHarness {
    pub(crate) nodes: Harness,
    pub(crate) model: MockModel,
}

impl ProxyHarness {
    pub(crate) async fn new() -> ProxyHarness {
        let folder = tempfile::tempdir().unwrap();
        let model = MockModel::start(Script::default()).await;
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("profiles")).unwrap();
        let shell = include_str!("../../../../nerve-agent/profiles/shell.toml");
        let caller = shell
            .replace("name = \"shell\"", "name = \"caller\"")
            .replace("programs = [", "programs = [\"caller\"] # [")
            + "\n[proxy]\nurl = \"ANTHROPIC_BASE_URL\"\ntoken = \"ANTHROPIC_AUTH_TOKEN\"\nunset = [\"NERVE_TEST_KEY\"]\n";
        fs::write(at("profiles/caller.toml"), caller).unwrap();
        fs::write(at("ask"), REQUEST_SCRIPT).unwrap();
        fs::set_permissions(at("ask"), PermissionsExt::from_mode(0o755)).unwrap();
        let mut config = EngineHarness::config(folder.path());
        config.nodes.proxies.folder = Some(at("proxies"));
        ProxyHarness { nodes: Harness::with(config, folder), model }
    }

    /// Returns a proxy spec with the scripted model as upstream.
    pub(crate) fn proxy(&self, kind: Provider) -> ProxySettings {
        ProxySettings { base_url: Some(self.model.url()), ..ProxySettings::new(kind) }
    }

    pub(crate) fn spec(&self, node: &str, proxy: ProxySettings) -> NodeSpec {
        let spec = self.nodes.spec(node, &["bash", "--norc", "--noprofile"]);
        NodeSpec { profile: Some("caller".into()), proxy: Some(Box::new(proxy)), ..spec }
    }

    pub(crate) async fn create(&self, spec: NodeSpec) -> Result<NodeInfo, EngineError> {
        self.nodes.engine.create(spec).await
    }

    pub(crate) async fn info(&self, node: &str) -> NodeInfo {
        self.nodes.engine.node_info(&node_ref(node)).unwrap()
    }

    pub(crate) async fn metadata(&self, node: &str, name: &str) -> Option<String> {
        Some(self.info(node).await.metadata.display(name)).filter(|value| !value.is_empty())
    }

    /// Waits until a metadata field of the node has the value.
    pub(crate) async fn wait_for_metadata(&self, node: &str, name: &str, value: &str) {
        let reached = async || self.metadata(node, name).await.as_deref() == Some(value);
        let in_time = wait_until_async(crate::harness::LIMIT, reached).await;
        assert!(in_time, "{name} is {:?}, not {value}", self.metadata(node, name).await);
    }

    /// Returns the path of the request script, for a command line.
    pub(crate) fn script(&self) -> String {
        self.nodes.folder.path().join("ask").display().to_string()
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.nodes.folder.path().join(path)
    }

    /// Returns the replies in the log of a node.
    pub(crate) fn logged_replies(&self, node: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.path(&format!("proxies/log/test/default/{node}.jsonl"))).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["type"] == "reply").collect()
    }
}
