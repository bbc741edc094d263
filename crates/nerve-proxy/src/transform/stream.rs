//! Translates streamed answers piece by piece.

use http::StatusCode;
use serde_json::{Value, json};

use super::{ResponsePlan, error, ids, response_fields};
use crate::api_error::ApiError;

/// Last event of OpenAI's streams.
const DONE: &str = "[DONE]";
/// Maximum number of tool calls in an answer.
const MAX_TOOL_CALLS: usize = 256;
/// Maximum size of held-back pieces, in bytes.
const MAX_HELD: usize = 16 << 20;

/// Translates OpenAI's events to Anthropic's.
///
/// Anthropic's blocks follow each other, but OpenAI's tool calls may interleave. The first call is streamed; pieces of
/// other calls, and text after a call, are held back until the answer ends.
#[derive(Debug)]
pub struct StreamTranslator {
    plan: ResponsePlan,
    has_begun: bool,
    id: String,
    open_block: Option<OpenBlock>,
    /// Number of finished blocks.
    blocks: u64,
    calls: Vec<Call>,
    late_text: String,
    held: usize,
    finish: Option<String>,
    matched_stop: Value,
    tokens: response_fields::Tokens,
    is_done: bool,
    has_ended: bool,
}

/// The block that is being streamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenBlock {
    Thinking,
    Text,
    /// The tool call at this index.
    Call(usize),
}

#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    held: String,
    is_sent: bool,
}

impl StreamTranslator {
    /// Creates the translator for the answer to a request.
    pub fn new(plan: ResponsePlan) -> StreamTranslator {
        StreamTranslator {
            plan,
            has_begun: false,
            id: String::new(),
            open_block: None,
            blocks: 0,
            calls: Vec::new(),
            late_text: String::new(),
            held: 0,
            finish: None,
            matched_stop: Value::Null,
            tokens: response_fields::Tokens::default(),
            is_done: false,
            has_ended: false,
        }
    }

    /// Translates the data of one event.
    ///
    /// # Errors
    /// An error that the upstream reports, or that its data contains.
    pub fn push(&mut self, data: &str) -> Result<String, ApiError> {
        let mut out = String::new();
        if self.is_done || data.trim().is_empty() {
            return Ok(out);
        }
        if data.trim() == DONE {
            self.is_done = true;
            return self.finish();
        }
        let chunk: Value = serde_json::from_str(data).map_err(|error| {
            ApiError::bad_gateway(format!("the upstream sent an event that is not JSON: {error}"))
        })?;
        if !chunk["error"].is_null() {
            return Err(error::api_error(StatusCode::BAD_GATEWAY, &chunk));
        }
        self.begin(&chunk, &mut out);
        self.tokens.update(&chunk["usage"]);
        let choice = &chunk["choices"][0];
        // A server that ignores `stream` sends a message here.
        let delta = if choice["delta"].is_object() { &choice["delta"] } else { &choice["message"] };
        self.push_thinking(response_fields::thinking(delta), &mut out);
        self.push_text(&response_fields::visible_text(delta), &mut out)?;
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            self.push_call(piece, &mut out)?;
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.finish = Some(reason.to_string());
            self.matched_stop = choice["stop_reason"].clone();
        }
        Ok(out)
    }

    /// Returns the last events, after the upstream's stream has ended.
    ///
    /// # Errors
    /// 502 if the answer is incomplete.
    pub fn finish(&mut self) -> Result<String, ApiError> {
        let mut out = String::new();
        if std::mem::replace(&mut self.has_ended, true) {
            return Ok(out);
        }
        if !self.has_begun || (self.finish.is_none() && !self.is_done) {
            return Err(ApiError::bad_gateway("the upstream stopped in the middle of its answer"));
        }
        self.stop_block(&mut out);
        for at in 0..self.calls.len() {
            if !self.calls[at].is_sent {
                self.open_call(at, &mut out)?;
                self.stop_block(&mut out);
            }
        }
        let late = std::mem::take(&mut self.late_text);
        self.push_text(&late, &mut out)?;
        self.stop_block(&mut out);
        let (reason, sequence) = response_fields::stop_reason(
            &self.plan,
            self.finish.as_deref(),
            !self.calls.is_empty(),
            &self.matched_stop,
        );
        let delta = json!({ "stop_reason": reason, "stop_sequence": sequence });
        append_event(
            &mut out,
            &json!({ "type": "message_delta", "delta": delta, "usage": self.tokens.to_json() }),
        );
        append_event(&mut out, &json!({ "type": "message_stop" }));
        Ok(out)
    }

    /// Returns true if the last event has been returned.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn begin(&mut self, chunk: &Value, out: &mut String) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        self.id = response_fields::message_id(&chunk["id"]);
        let message = json!({
            "id": self.id, "type": "message", "role": "assistant", "content": [],
            "model": chunk["model"].as_str().unwrap_or(&self.plan.model),
            "stop_reason": null, "stop_sequence": null,
            // The real counts follow at the end.
            "usage": response_fields::Tokens::default().to_json(),
        });
        append_event(out, &json!({ "type": "message_start", "message": message }));
    }

    /// Streams thinking. Drops thinking inside a tool call, which it would split.
    fn push_thinking(&mut self, piece: &str, out: &mut String) {
        if piece.is_empty() || matches!(self.open_block, Some(OpenBlock::Call(_))) {
            return;
        }
        if self.open_block != Some(OpenBlock::Thinking) {
            self.start_block(
                OpenBlock::Thinking,
                &json!({ "type": "thinking", "thinking": "", "signature": "" }),
                out,
            );
        }
        self.delta(&json!({ "type": "thinking_delta", "thinking": piece }), out);
    }

    fn push_text(&mut self, piece: &str, out: &mut String) -> Result<(), ApiError> {
        if piece.is_empty() {
            return Ok(());
        }
        if matches!(self.open_block, Some(OpenBlock::Call(_))) {
            self.hold(piece)?;
            self.late_text.push_str(piece);
            return Ok(());
        }
        if self.open_block != Some(OpenBlock::Text) {
            self.start_block(OpenBlock::Text, &json!({ "type": "text", "text": "" }), out);
        }
        self.delta(&json!({ "type": "text_delta", "text": piece }), out);
        Ok(())
    }

    fn push_call(&mut self, piece: &Value, out: &mut String) -> Result<(), ApiError> {
        let text = |pointer: &str| piece.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let at = self.call_index(piece["index"].as_u64(), text("/id"))?;
        let call = &mut self.calls[at];
        // Some servers repeat both in each piece.
        if call.id.is_empty() {
            call.id = text("/id").to_string();
        }
        if call.name.is_empty() {
            call.name = text("/function/name").to_string();
        }
        let arguments = match &piece["function"]["arguments"] {
            Value::Object(whole) => Value::Object(whole.clone()).to_string(),
            other => other.as_str().unwrap_or_default().to_string(),
        };
        if self.open_block == Some(OpenBlock::Call(at)) {
            if !arguments.is_empty() {
                self.delta(&json!({ "type": "input_json_delta", "partial_json": arguments }), out);
            }
            return Ok(());
        }
        self.hold(&arguments)?;
        self.calls[at].held.push_str(&arguments);
        if matches!(self.open_block, Some(OpenBlock::Call(_))) || self.calls[at].name.is_empty() {
            return Ok(());
        }
        self.open_call(at, out)
    }

    /// Returns the index of the call that a piece belongs to. Servers without indexes send whole calls or continue the
    /// last one.
    fn call_index(&mut self, index: Option<u64>, id: &str) -> Result<usize, ApiError> {
        let existing = match index {
            Some(_) => self.calls.iter().position(|call| call.index == index),
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().position(|call| call.id == id),
        };
        if let Some(at) = existing {
            return Ok(at);
        }
        if self.calls.len() >= MAX_TOOL_CALLS {
            return Err(ApiError::bad_gateway(format!(
                "the upstream's answer has more than {MAX_TOOL_CALLS} tool calls"
            )));
        }
        self.calls.push(Call { index, ..Call::default() });
        Ok(self.calls.len() - 1)
    }

    fn open_call(&mut self, at: usize, out: &mut String) -> Result<(), ApiError> {
        let fallback = format!("{}_{at}", self.id);
        let call = &mut self.calls[at];
        if call.name.is_empty() {
            return Err(ApiError::bad_gateway("the upstream's answer has a tool call without a name"));
        }
        call.is_sent = true;
        let held = std::mem::take(&mut call.held);
        self.held -= held.len().min(self.held);
        let id = ids::to_anthropic(&call.id, &fallback);
        let name = self.plan.names.to_anthropic(&call.name).to_string();
        self.start_block(
            OpenBlock::Call(at),
            &json!({ "type": "tool_use", "id": id, "name": name, "input": {} }),
            out,
        );
        if !held.is_empty() {
            self.delta(&json!({ "type": "input_json_delta", "partial_json": held }), out);
        }
        Ok(())
    }

    fn hold(&mut self, piece: &str) -> Result<(), ApiError> {
        self.held += piece.len();
        if self.held > MAX_HELD {
            return Err(ApiError::bad_gateway("the upstream's answer has tool calls that are too large"));
        }
        Ok(())
    }

    fn start_block(&mut self, what: OpenBlock, block: &Value, out: &mut String) {
        self.stop_block(out);
        self.open_block = Some(what);
        append_event(
            out,
            &json!({ "type": "content_block_start", "index": self.blocks, "content_block": block }),
        );
    }

    fn delta(&self, delta: &Value, out: &mut String) {
        append_event(out, &json!({ "type": "content_block_delta", "index": self.blocks, "delta": delta }));
    }

    fn stop_block(&mut self, out: &mut String) {
        if self.open_block.take().is_some() {
            append_event(out, &json!({ "type": "content_block_stop", "index": self.blocks }));
            self.blocks += 1;
        }
    }
}

/// Appends an event, named by its type.
fn append_event(out: &mut String, data: &Value) {
    let name = data["type"].as_str().unwrap_or_default();
    out.push_str(&format!("event: {name}\ndata: {data}\n\n"));
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
