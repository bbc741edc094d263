//! Spans of turns: a prompt and its answer.

use std::sync::Arc;

use nerve_api::request::NodeRef;
use serde_json::{Value, json};

use super::Telemetry;
use super::context::TraceContext;
use super::span::{ActiveSpan, count, new_span, set_error};
use crate::error::{EngineError, ErrorKind};
use crate::response::{Response, TurnFailure};

/// The attributes of a turn's node.
#[derive(Debug, Default)]
pub struct TurnAttributes {
    /// Kind of the node.
    pub kind: &'static str,
    /// True if the node is a model or an agent, false for a shell or program.
    pub is_agent: bool,
    /// Provider of the model, in OpenTelemetry's terms: `anthropic`, `openai`, `gcp.gemini`.
    pub provider: Option<String>,
    /// Agent profile of the node's program.
    pub profile: Option<String>,
    /// The model, if it is known before the answer.
    pub model: Option<String>,
}

/// The span of a turn. Dropping it ends it as cancelled.
pub struct TurnSpan {
    span: ActiveSpan,
    captures_content: bool,
}

impl Telemetry {
    /// Begins the span of a turn, at the time of the request: it includes the wait in the queue. `info` is called only if a
    /// subscriber wants the span.
    pub fn begin_turn(
        self,
        parent: Option<&Arc<TraceContext>>,
        node: &NodeRef,
        prompt: &str,
        info: impl FnOnce() -> TurnAttributes,
    ) -> TurnSpan {
        let span = new_span!("turn");
        let TurnAttributes { kind, is_agent, provider, profile, model } =
            if span.is_disabled() { TurnAttributes::default() } else { info() };
        let span = ActiveSpan::begin(span, parent, || match is_agent {
            true => format!("invoke_agent {}", node.node),
            false => format!("turn {}", node.node),
        });
        // Input and output of a shell are not a conversation.
        let captures_content = self.captures_content && is_agent;
        span.describe(|span| {
            if is_agent {
                span.set("gen_ai.operation.name", "invoke_agent");
                span.set("gen_ai.agent.name", node.node.clone());
                span.set_some("gen_ai.provider.name", provider);
                span.set_some("gen_ai.request.model", model);
            }
            set_node(span, node);
            span.set("nerve.node.kind", kind);
            span.set_some("nerve.profile", profile);
            if captures_content {
                span.set_content("gen_ai.input.messages", prompt, |text| {
                    json!([{ "role": "user", "parts": [{ "type": "text", "content": text }] }]).to_string()
                });
            }
        });
        TurnSpan { span, captures_content }
    }
}

impl TurnSpan {
    /// Returns the parent for child spans.
    pub fn context(&self) -> Option<&Arc<TraceContext>> {
        self.span.context()
    }

    /// Ends the span. `conversation`: current conversation id of the agent.
    pub fn end(self, outcome: &Result<Response, EngineError>, conversation: impl FnOnce() -> Option<String>) {
        self.span.end(|span| {
            span.set_some("gen_ai.conversation.id", conversation());
            match outcome {
                Ok(response) => set_response(span, response, self.captures_content),
                Err(error) => set_error(span, error),
            }
        });
    }
}

/// Sets the attributes of a node.
pub(super) fn set_node(span: &ActiveSpan, node: &NodeRef) {
    span.set("nerve.node", node.node.clone());
    span.set("nerve.session", node.session_or_default().to_string());
}

fn set_response(span: &ActiveSpan, response: &Response, captures_content: bool) {
    span.set("nerve.turn", count(response.turn));
    span.set("nerve.turn.duration_ms", count(nerve_types::millis(response.time.duration())));
    span.set("nerve.delivery", response.delivery.as_str());
    span.set("nerve.source", response.source.as_str());
    let shown = response.tokens.as_ref();
    let mut input = shown.and_then(|tokens| tokens.input);
    let mut output = shown.and_then(|tokens| tokens.output);
    // The proxy's counts are more complete than what an agent shows.
    if let Some(usage) = response.usage.as_ref().filter(|usage| usage.requests > 0) {
        input = Some(usage.tokens.whole_input());
        output = Some(usage.tokens.output);
        span.set("nerve.api_calls", count(usage.requests));
        span.set_some("nerve.cost_usd", usage.cost_usd);
    }
    span.set_some("gen_ai.usage.input_tokens", input.map(count));
    span.set_some("gen_ai.usage.output_tokens", output.map(count));
    span.set_some("nerve.tokens", shown.and_then(|tokens| tokens.total).map(count));
    let attribute = |name: &str| response.attributes.get(name);
    span.set_some("gen_ai.response.model", attribute("model").and_then(Value::as_str).map(str::to_string));
    span.set_some("process.exit.code", attribute("exit_code").and_then(Value::as_i64));
    if captures_content {
        let reason = if response.is_complete { "stop" } else { "incomplete" };
        span.set_content("gen_ai.output.messages", &response.text, |text| {
            let parts = json!([{ "type": "text", "content": text }]);
            json!([{ "role": "assistant", "parts": parts, "finish_reason": reason }]).to_string()
        });
    }
    if let Some(TurnFailure { kind, message, .. }) = response.failure() {
        // An agent's own error messages are content.
        let is_safe = captures_content || kind != ErrorKind::Api;
        span.fail(kind.as_str(), if is_safe { &message } else { "the node reported a failure" });
    }
}
