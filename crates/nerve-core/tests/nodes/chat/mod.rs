//! Chat nodes against the scripted model API.

mod faults;
mod persistence;
mod tools;
mod turns;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nerve_core::chat::{ChatNode, ChatSpec, Provider};
use nerve_core::command::{BackendKind, CommandLine, NodeInfo, NodeSpec};
use nerve_core::context::{ChunkSink, ExecutionContext};
use nerve_core::error::EngineError;
use nerve_core::node::factory::{FactoryConfig, NodeFactory};
use nerve_core::session::Session;
use nerve_testkit::mock_model::{Answer, MockModel, Script, serve};
use serde_json::{Value, json};

use crate::harness::{LIMIT, Stage, at};

/// The key of all tests: where it is not sent, it must not be seen.
pub(crate) const KEY: &str = "sk-test-0123456789-very-secret";

/// An engine and a model.
pub(crate) struct Talk {
    pub(crate) stage: Stage,
    pub(crate) model: MockModel,
}

pub(crate) async fn model(script: Script) -> MockModel {
    serve(([127, 0, 0, 1], 0).into(), script).await.unwrap()
}

pub(crate) async fn answers(answers: impl IntoIterator<Item = Answer>) -> MockModel {
    model(Script::default().first(answers)).await
}

/// A model of `provider` behind `base_url`.
pub(crate) fn chat(provider: Provider, model: &MockModel) -> ChatSpec {
    ChatSpec { base_url: Some(model.url()), ..ChatSpec::new(provider, "test-model") }
}

pub(crate) fn spec(stage: &Stage, node: &str, chat: ChatSpec) -> NodeSpec {
    NodeSpec {
        cwd: Some(stage.folder.path().to_path_buf()),
        env: env(),
        response_timeout: LIMIT,
        chat: Some(Box::new(chat)),
        ..NodeSpec::new(at(node), BackendKind::Chat, CommandLine::Argv(Vec::new()))
    }
}

fn env() -> BTreeMap<String, String> {
    ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"].map(|name| (name.to_string(), KEY.to_string())).into()
}

impl Talk {
    /// A node `c` of `provider`, and a model that answers by `script`.
    pub(crate) async fn new(provider: Provider, script: Script) -> Talk {
        Talk::with(provider, script, |_| {}).await
    }

    /// The same, the spec changed.
    pub(crate) async fn with(provider: Provider, script: Script, change: impl FnOnce(&mut ChatSpec)) -> Talk {
        let talk = Talk { stage: Stage::new(), model: model(script).await };
        let mut chat = chat(provider, &talk.model);
        change(&mut chat);
        talk.create(chat).await.unwrap();
        talk
    }

    pub(crate) async fn create(&self, chat: ChatSpec) -> Result<NodeInfo, EngineError> {
        self.stage.engine.create(spec(&self.stage, "c", chat)).await
    }

    pub(crate) async fn bash(&self, node: &str) {
        let mut spec = self.stage.spec(node, &[]);
        spec.backend = BackendKind::Bash;
        self.stage.engine.create(spec).await.unwrap();
    }

    pub(crate) async fn info(&self) -> NodeInfo {
        self.stage.engine.node_info(&at("c")).unwrap()
    }

    /// The conversation as the node reads it back.
    pub(crate) async fn text(&self) -> String {
        self.stage.buffer("c", None).await
    }

    /// The messages of the nth request.
    pub(crate) fn sent(&self, nth: usize) -> Value {
        self.model.requests()[nth].body["messages"].clone()
    }
}

/// A node without an engine.
pub(crate) fn alone(chat: ChatSpec) -> ChatNode {
    let factory = NodeFactory::new(FactoryConfig::default());
    let spec = NodeSpec {
        env: env(),
        history: false,
        response_timeout: LIMIT,
        chat: Some(Box::new(chat)),
        ..NodeSpec::new(at("c"), BackendKind::Chat, CommandLine::Argv(Vec::new()))
    };
    factory.create_chat(spec).unwrap()
}

/// A context with an input, and where pieces of the answer go.
pub(crate) fn context(session: &Session, input: &str) -> (ExecutionContext, Arc<Mutex<Vec<String>>>) {
    let chunks = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&chunks);
    let sink: ChunkSink = Arc::new(move |chunk: &str| taken.lock().unwrap().push(chunk.to_string()));
    (ExecutionContext::new(session).with_input(input).with_timeout(LIMIT).with_chunks(sink), chunks)
}

/// A text of this model in the pieces of a stream, without its end.
pub(crate) fn begin_of_a_stream(provider: Provider) -> String {
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

pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, work).await.unwrap()
}

pub(crate) const SHORT: Duration = Duration::from_millis(300);
