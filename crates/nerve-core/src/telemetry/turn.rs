//! A prompt and its answer as a span.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::json;

use super::context::TraceContext;
use super::span::{Attributes, Span, SpanKind};
use super::tracer::{ActiveSpan, Telemetry};
use crate::command::{NodeRef, Response};
use crate::error::{EngineError, ErrorKind};
use crate::session::DEFAULT;

/// Who is asked.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// Kind of the node.
    pub(crate) kind: &'static str,
    /// It is a model or an agent, not a shell or a program.
    pub(crate) is_agent: bool,
    /// Whose model it is, in OpenTelemetry's words: `anthropic`, `openai`, `gcp.gemini`.
    pub(crate) provider: Option<String>,
    /// What is known of its program by this name.
    pub(crate) profile: Option<String>,
    /// The model, where that is known before it has answered.
    pub(crate) model: Option<String>,
}

impl Telemetry {
    /// Begins the span of a turn: when it is asked for, waiting included.
    pub(crate) fn begin_turn(
        &self,
        parent: Option<&Arc<TraceContext>>,
        node: &NodeRef,
        prompt: &str,
        asked: impl FnOnce() -> Asked,
    ) -> ActiveSpan {
        if !self.is_on() {
            return self.begin(SpanKind::Internal, parent, || Cow::Borrowed(""));
        }
        let Asked { kind, is_agent, provider, profile, model } = asked();
        let name = || match is_agent {
            true => Cow::Owned(format!("invoke_agent {}", node.node)),
            false => Cow::Owned(format!("turn {}", node.node)),
        };
        let mut span = self.begin(SpanKind::Internal, parent, name);
        let captures = self.captures_content();
        span.describe(|span| {
            let facts = &mut span.attributes;
            if is_agent {
                facts.set("gen_ai.operation.name", "invoke_agent");
                facts.set("gen_ai.agent.name", node.node.clone());
                facts.set_some("gen_ai.provider.name", provider);
                facts.set_some("gen_ai.request.model", model);
            }
            set_node(facts, node);
            facts.set("nerve.node.kind", kind);
            facts.set_some("nerve.profile", profile);
            if captures && is_agent {
                facts.set_content("gen_ai.input.messages", prompt, |said| {
                    json!([{ "role": "user", "parts": [{ "type": "text", "content": said }] }]).to_string()
                });
            }
        });
        span.is_turn_of(self, node);
        span
    }
}

/// Says which node something is of.
pub(crate) fn set_node(facts: &mut Attributes, node: &NodeRef) {
    facts.set("nerve.node", node.node.clone());
    facts.set("nerve.session", node.session.clone().unwrap_or_else(|| DEFAULT.to_string()));
}

/// Ends the span of a turn. `conversation` is the agent's own, as it is known now.
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
            Ok(response) => answered(span, response, captures),
            Err(error) => failed(span, error),
        }
    });
}

/// Says why something failed. What an agent said or showed is not part of it.
pub(crate) fn failed(span: &mut Span, error: &EngineError) {
    span.attributes.set_some("nerve.delivery", error.delivery);
    let why = match error.kind {
        ErrorKind::Api | ErrorKind::Blocked | ErrorKind::Delivery => {
            format!("{}: the history says more", error.kind.as_str())
        }
        _ => error.message.clone(),
    };
    span.fail(error.kind.as_str(), why);
}

fn answered(span: &mut Span, response: &Response, captures: bool) {
    // What a shell is given and prints is nobody's conversation.
    let captures = captures && span.attributes.get("gen_ai.agent.name").is_some();
    let took = response.time.1.0.saturating_sub(response.time.0.0);
    let facts = &mut span.attributes;
    facts.set("nerve.turn", response.turn);
    facts.set("nerve.turn.duration_ms", took / 1_000_000);
    facts.set("nerve.delivery", response.delivery);
    facts.set("nerve.source", response.source);
    if let Some(tokens) = &response.tokens {
        facts.set_some("gen_ai.usage.input_tokens", tokens.input);
        facts.set_some("gen_ai.usage.output_tokens", tokens.output);
        facts.set_some("nerve.tokens", tokens.total);
    }
    // What its proxy has counted is more than what an agent shows.
    if let Some(usage) = response.usage.as_ref().filter(|usage| usage.requests > 0) {
        facts.set("gen_ai.usage.input_tokens", usage.total().saturating_sub(usage.output));
        facts.set("gen_ai.usage.output_tokens", usage.output);
        facts.set("nerve.api_calls", usage.requests);
        facts.set_some("nerve.cost_usd", usage.cost_usd);
    }
    let said = |name: &str| response.attributes.get(name);
    facts.set_some("gen_ai.response.model", said("model").cloned());
    facts.set_some("process.exit.code", said("exit_code").and_then(|code| code.parse::<i64>().ok()));
    if captures {
        let reason = if response.is_complete { "stop" } else { "incomplete" };
        facts.set_content("gen_ai.output.messages", &response.text, |said| {
            let parts = json!([{ "type": "text", "content": said }]);
            json!([{ "role": "assistant", "parts": parts, "finish_reason": reason }]).to_string()
        });
    }
    if let Some((why, kind)) = response.failure() {
        // What a command or an agent says of its failure is content.
        let why = if captures || response.source == "process" {
            why
        } else {
            "the node says that it failed".to_string()
        };
        span.fail(kind.as_str(), why);
    } else if said("interrupted").is_some_and(|interrupted| interrupted == "true") {
        span.fail("interrupted", "the turn was interrupted");
    }
}
