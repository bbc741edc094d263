//! Spans of turns: a prompt and its answer.

use std::borrow::Cow;
use std::sync::Arc;

use nerve_api::value::{Delivery, ResponseSource};
use serde_json::json;

use super::context::TraceContext;
use super::span::{Attributes, Span, SpanKind};
use super::tracer::{ActiveSpan, Telemetry};
use crate::command::{NodeRef, Response};
use crate::error::{EngineError, ErrorKind};
use crate::node::names::DEFAULT_SESSION;

/// The attributes of a turn's node.
#[derive(Debug, Default)]
pub(crate) struct TurnAttributes {
    /// Kind of the node.
    pub(crate) kind: &'static str,
    /// True if the node is a model or an agent, false for a shell or program.
    pub(crate) is_agent: bool,
    /// Provider of the model, in OpenTelemetry's terms: `anthropic`, `openai`, `gcp.gemini`.
    pub(crate) provider: Option<String>,
    /// Agent profile of the node's program.
    pub(crate) profile: Option<String>,
    /// The model, if it is known before the answer.
    pub(crate) model: Option<String>,
}

impl Telemetry {
    /// Begins the span of a turn, at the time of the request: it includes the wait in the queue.
    pub(crate) fn begin_turn(
        &self,
        parent: Option<&Arc<TraceContext>>,
        node: &NodeRef,
        prompt: &str,
        info: impl FnOnce() -> TurnAttributes,
    ) -> ActiveSpan {
        if !self.is_on() {
            return self.begin(SpanKind::Internal, parent, || Cow::Borrowed(""));
        }
        let TurnAttributes { kind, is_agent, provider, profile, model } = info();
        let name = || match is_agent {
            true => Cow::Owned(format!("invoke_agent {}", node.node)),
            false => Cow::Owned(format!("turn {}", node.node)),
        };
        let mut span = self.begin(SpanKind::Internal, parent, name);
        let captures = self.captures_content();
        span.describe(|span| {
            let attributes = &mut span.attributes;
            if is_agent {
                attributes.set("gen_ai.operation.name", "invoke_agent");
                attributes.set("gen_ai.agent.name", node.node.clone());
                attributes.set_some("gen_ai.provider.name", provider);
                attributes.set_some("gen_ai.request.model", model);
            }
            set_node(attributes, node);
            attributes.set("nerve.node.kind", kind);
            attributes.set_some("nerve.profile", profile);
            if captures && is_agent {
                attributes.set_content("gen_ai.input.messages", prompt, |text| {
                    json!([{ "role": "user", "parts": [{ "type": "text", "content": text }] }]).to_string()
                });
            }
        });
        span.register_turn(self, node);
        span
    }
}

/// Sets the attributes of a node.
pub(crate) fn set_node(attributes: &mut Attributes, node: &NodeRef) {
    attributes.set("nerve.node", node.node.clone());
    attributes.set("nerve.session", node.session.clone().unwrap_or_else(|| DEFAULT_SESSION.to_string()));
}

/// Ends the span of a turn. `conversation`: current conversation id of the agent.
pub(crate) fn end_turn(
    span: ActiveSpan,
    telemetry: &Telemetry,
    outcome: &Result<Response, EngineError>,
    conversation: impl FnOnce() -> Option<String>,
) {
    let captures = telemetry.captures_content();
    span.end(|span| {
        span.attributes.set_some("gen_ai.conversation.id", conversation());
        match outcome {
            Ok(response) => set_response(span, response, captures),
            Err(error) => set_error(span, error),
        }
    });
}

/// Sets the error of a span. Output of an agent is not included.
pub(crate) fn set_error(span: &mut Span, error: &EngineError) {
    span.attributes.set_some("nerve.delivery", error.delivery.map(Delivery::as_str));
    let why = match error.kind {
        ErrorKind::Api | ErrorKind::Blocked | ErrorKind::Delivery => {
            format!("{}: see the node's history", error.kind.as_str())
        }
        _ => error.message.clone(),
    };
    span.fail(error.kind.as_str(), why);
}

fn set_response(span: &mut Span, response: &Response, captures: bool) {
    // Input and output of a shell are not a conversation.
    let captures = captures && span.attributes.get("gen_ai.agent.name").is_some();
    let took = response.time.1.0.saturating_sub(response.time.0.0);
    let attributes = &mut span.attributes;
    attributes.set("nerve.turn", response.turn);
    attributes.set("nerve.turn.duration_ms", took / 1_000_000);
    attributes.set("nerve.delivery", response.delivery.as_str());
    attributes.set("nerve.source", response.source.as_str());
    if let Some(tokens) = &response.tokens {
        attributes.set_some("gen_ai.usage.input_tokens", tokens.input);
        attributes.set_some("gen_ai.usage.output_tokens", tokens.output);
        attributes.set_some("nerve.tokens", tokens.total);
    }
    // The proxy's counts are more complete than what an agent shows.
    if let Some(usage) = response.usage.as_ref().filter(|usage| usage.requests > 0) {
        attributes.set("gen_ai.usage.input_tokens", usage.total().saturating_sub(usage.output));
        attributes.set("gen_ai.usage.output_tokens", usage.output);
        attributes.set("nerve.api_calls", usage.requests);
        attributes.set_some("nerve.cost_usd", usage.cost_usd);
    }
    let attribute = |name: &str| response.attributes.get(name);
    attributes.set_some("gen_ai.response.model", attribute("model").cloned());
    attributes
        .set_some("process.exit.code", attribute("exit_code").and_then(|code| code.parse::<i64>().ok()));
    if captures {
        let reason = if response.is_complete { "stop" } else { "incomplete" };
        attributes.set_content("gen_ai.output.messages", &response.text, |text| {
            let parts = json!([{ "type": "text", "content": text }]);
            json!([{ "role": "assistant", "parts": parts, "finish_reason": reason }]).to_string()
        });
    }
    if let Some((why, kind)) = response.failure() {
        // Messages of a command or an agent are content.
        let why = if captures || response.source == ResponseSource::Process {
            why
        } else {
            "the node reported a failure".to_string()
        };
        span.fail(kind.as_str(), why);
    } else if attribute("interrupted").is_some_and(|interrupted| interrupted == "true") {
        span.fail("interrupted", "the turn was interrupted");
    }
}
