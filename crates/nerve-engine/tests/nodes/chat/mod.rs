//! Chat nodes against the scripted model API.

mod budgets;
mod faults;
mod persistence;
mod tools;
mod turns;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nerve_api::reply::NodeInfo;
use nerve_api::request::NodeSpec;
use nerve_api::value::BackendKind;
use nerve_graph::context::RunContext;
use nerve_graph::session::Session;
use nerve_node::chat::{ChatNode, ChatSettings, Provider};
use nerve_node::context::ChunkSink;
use nerve_node::error::EngineError;
use nerve_node::factory::{FactoryConfig, NodeFactory};
use nerve_testkit::harness::node_ref;
use nerve_testkit::mock_model::{Answer, MockModel, Script};
use serde_json::{Value, json};

use crate::harness::{Harness, LIMIT};

/// The API key of all tests. It must appear only in requests.
pub(crate) const KEY: &str = "sk-test-0123456789-very-secret";

/// An engine and a scripted model.
pub(crate) struct ChatHarness {
    pub(crate) nodes: Harness,
    pub(crate) model: MockModel,
}

pub(crate) async fn answers(answers: impl IntoIterator<Item = Answer>) -> MockModel {
    MockModel::start(Script::default().first(answers)).await
}

/// Returns a chat spec for the scripted model.
pub(crate) fn chat(provider: Provider, model: &MockModel) -> ChatSettings {
    ChatSettings { base_url: Some(model.url()), ..ChatSettings::new(provider, "test-model") }
}

pub(crate) fn spec(harness: &Harness, node: &str, chat: ChatSettings) -> NodeSpec {
    NodeSpec {
        cwd: Some(harness.folder.path().to_path_buf()),
        env: env(),
        response_timeout: LIMIT.into(),
        chat: Some(Box::new(chat)),
        backend: BackendKind::Chat,
        ..NodeSpec::new(node)
    }
}

fn env() -> BTreeMap<String, String> {
    ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"].map(|name| (name.to_string(), KEY.to_string())).into()
}

impl ChatHarness {
    /// Creates node `c` for `provider`, and a model that follows `script`.
    pub(crate) async fn new(provider: Provider, script: Script) -> ChatHarness {
        ChatHarness::with(provider, script, |_| {}).await
    }

    /// Like [`ChatHarness::new`], with a changed spec.
    pub(crate) async fn with(
        provider: Provider,
        script: Script,
        change: impl FnOnce(&mut ChatSettings),
    ) -> ChatHarness {
        let harness = ChatHarness { nodes: Harness::new(), model: MockModel::start(script).await };
        let mut chat = chat(provider, &harness.model);
        change(&mut chat);
        harness.create(chat).await.unwrap();
        harness
    }

    pub(crate) async fn create(&self, chat: ChatSettings) -> Result<NodeInfo, EngineError> {
        self.nodes.engine.create(spec(&self.nodes, "c", chat)).await
    }

    pub(crate) async fn bash(&self, node: &str) {
        let mut spec = self.nodes.spec(node, &[]);
        spec.backend = BackendKind::Bash;
        self.nodes.engine.create(spec).await.unwrap();
    }

    pub(crate) async fn info(&self) -> NodeInfo {
        self.nodes.engine.node_info(&node_ref("c")).unwrap()
    }

    /// Returns the conversation as the node renders it.
    pub(crate) async fn text(&self) -> String {
        self.nodes.buffer("c", None).await
    }

    /// Returns the messages of the nth request.
    pub(crate) fn sent_messages(&self, nth: usize) -> Value {
        self.model.requests()[nth].body["messages"].clone()
    }
}

/// Creates a node without an engine.
pub(crate) fn standalone_node(chat: ChatSettings) -> ChatNode {
    let factory = NodeFactory::new(FactoryConfig::default());
    let spec = NodeSpec {
        env: env(),
        history: false,
        response_timeout: LIMIT.into(),
        chat: Some(Box::new(chat)),
        backend: BackendKind::Chat,
        ..NodeSpec::new("c")
    };
    factory.create_chat(spec).unwrap()
}

/// Returns a context with an input, and the chunks it collects.
pub(crate) fn context(session: &Session, input: &str) -> (RunContext, Arc<Mutex<Vec<String>>>) {
    let chunks = Arc::new(Mutex::new(Vec::new()));
    let collected = Arc::clone(&chunks);
    let sink: ChunkSink = Arc::new(move |chunk: &str| collected.lock().unwrap().push(chunk.to_string()));
    (RunContext::new(session).with_input(input).with_timeout(LIMIT).with_chunks(sink), chunks)
}

/// Returns the beginning of a streamed answer, without its end.
pub(crate) fn partial_stream(provider: Provider) -> String {
    match provider {
        Provider::Anthropic => {
            let start = json!({ "type": "message_start", "message": { "model": "m", "usage": { "input_tokens": 5, "output_tokens": 1 } } });
            let delta = json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "Half an ans" } });
            format!("event: message_start\ndata: {start}\n\nevent: content_block_delta\ndata: {delta}\n\n")
        }
        Provider::Openai => {
            format!(
                "data: {}\n\n",
                json!({ "model": "m", "choices": [{ "index": 0, "delta": { "content": "Half an ans" } }] })
            )
        }
    }
}

pub(crate) async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, work).await.unwrap()
}

pub(crate) const SHORT_TIMEOUT: Duration = Duration::from_millis(300);
