//! Answers that come as a stream: each piece goes on as soon as it is there.

use http::StatusCode;
use serde_json::{Value, json};

use super::{Plan, error, ids, stop_reason};
use crate::api_error::Fault;

/// The last event of OpenAI's streams.
const DONE: &str = "[DONE]";
/// Tool calls of one answer.
const CALLS: usize = 256;
/// Bytes that are held back until the block before them has ended.
const HELD: usize = 16 << 20;

/// Takes the data of OpenAI's events, gives Anthropic's events.
///
/// Blocks follow each other: of several tool calls at once the first goes on as it comes, the pieces of the others when the answer
/// ends, however they were mixed. So does text behind a call.
#[derive(Debug)]
pub struct Stream {
    plan: Plan,
    has_begun: bool,
    id: String,
    open: Option<Open>,
    /// Blocks so far.
    blocks: u64,
    calls: Vec<Call>,
    late_words: String,
    held: usize,
    finish: Option<String>,
    matched: Value,
    tokens: stop_reason::Tokens,
    is_done: bool,
    has_ended: bool,
}

/// The block that is being told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Thinking,
    Text,
    /// The call at this place.
    Call(usize),
}

#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    held: String,
    is_told: bool,
}

impl Stream {
    /// The answer to a request.
    pub fn new(plan: Plan) -> Stream {
        Stream {
            plan,
            has_begun: false,
            id: String::new(),
            open: None,
            blocks: 0,
            calls: Vec::new(),
            late_words: String::new(),
            held: 0,
            finish: None,
            matched: Value::Null,
            tokens: stop_reason::Tokens::default(),
            is_done: false,
            has_ended: false,
        }
    }

    /// The events that follow from the data of one.
    ///
    /// # Errors
    /// What the upstream says is wrong, or what is wrong with what it says.
    pub fn push(&mut self, data: &str) -> Result<String, Fault> {
        let mut out = String::new();
        if self.is_done || data.trim().is_empty() {
            return Ok(out);
        }
        if data.trim() == DONE {
            self.is_done = true;
            return self.finish();
        }
        let chunk: Value = serde_json::from_str(data).map_err(|error| {
            Fault::bad_gateway(format!("the upstream sent an event that is no JSON: {error}"))
        })?;
        if !chunk["error"].is_null() {
            return Err(error::fault(StatusCode::BAD_GATEWAY, &chunk));
        }
        self.begin(&chunk, &mut out);
        self.tokens.take(&chunk["usage"]);
        let choice = &chunk["choices"][0];
        // Who was asked for a stream and answers whole has a message here.
        let delta = if choice["delta"].is_object() { &choice["delta"] } else { &choice["message"] };
        self.think(stop_reason::thinking(delta), &mut out);
        self.say(&stop_reason::words(delta), &mut out)?;
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            self.call(piece, &mut out)?;
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.finish = Some(reason.to_string());
            self.matched = choice["stop_reason"].clone();
        }
        Ok(out)
    }

    /// The upstream has nothing more to say: the last events.
    ///
    /// # Errors
    /// 502 if it was in the middle of something.
    pub fn finish(&mut self) -> Result<String, Fault> {
        let mut out = String::new();
        if std::mem::replace(&mut self.has_ended, true) {
            return Ok(out);
        }
        if !self.has_begun || (self.finish.is_none() && !self.is_done) {
            return Err(Fault::bad_gateway("the upstream stopped in the middle of its answer"));
        }
        self.close(&mut out);
        for at in 0..self.calls.len() {
            if !self.calls[at].is_told {
                self.open_call(at, &mut out)?;
                self.close(&mut out);
            }
        }
        let late = std::mem::take(&mut self.late_words);
        self.say(&late, &mut out)?;
        self.close(&mut out);
        let (reason, sequence) =
            stop_reason::ending(&self.plan, self.finish.as_deref(), !self.calls.is_empty(), &self.matched);
        let delta = json!({ "stop_reason": reason, "stop_sequence": sequence });
        event(&mut out, &json!({ "type": "message_delta", "delta": delta, "usage": self.tokens.to_json() }));
        event(&mut out, &json!({ "type": "message_stop" }));
        Ok(out)
    }

    /// Whether the last event was given.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn begin(&mut self, chunk: &Value, out: &mut String) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        self.id = stop_reason::message_id(&chunk["id"]);
        let message = json!({
            "id": self.id, "type": "message", "role": "assistant", "content": [],
            "model": chunk["model"].as_str().unwrap_or(&self.plan.model),
            "stop_reason": null, "stop_sequence": null,
            // How many it took is told at the end.
            "usage": stop_reason::Tokens::default().to_json(),
        });
        event(out, &json!({ "type": "message_start", "message": message }));
    }

    /// Thinking behind a tool call would tear that apart: it is left out.
    fn think(&mut self, piece: &str, out: &mut String) {
        if piece.is_empty() || matches!(self.open, Some(Open::Call(_))) {
            return;
        }
        if self.open != Some(Open::Thinking) {
            self.open(Open::Thinking, &json!({ "type": "thinking", "thinking": "", "signature": "" }), out);
        }
        self.delta(&json!({ "type": "thinking_delta", "thinking": piece }), out);
    }

    fn say(&mut self, piece: &str, out: &mut String) -> Result<(), Fault> {
        if piece.is_empty() {
            return Ok(());
        }
        if matches!(self.open, Some(Open::Call(_))) {
            self.hold(piece)?;
            self.late_words.push_str(piece);
            return Ok(());
        }
        if self.open != Some(Open::Text) {
            self.open(Open::Text, &json!({ "type": "text", "text": "" }), out);
        }
        self.delta(&json!({ "type": "text_delta", "text": piece }), out);
        Ok(())
    }

    fn call(&mut self, piece: &Value, out: &mut String) -> Result<(), Fault> {
        let text = |pointer: &str| piece.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let at = self.place(piece["index"].as_u64(), text("/id"))?;
        let call = &mut self.calls[at];
        // Some repeat both with each piece.
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
        if self.open == Some(Open::Call(at)) {
            if !arguments.is_empty() {
                self.delta(&json!({ "type": "input_json_delta", "partial_json": arguments }), out);
            }
            return Ok(());
        }
        self.hold(&arguments)?;
        self.calls[at].held.push_str(&arguments);
        if matches!(self.open, Some(Open::Call(_))) || self.calls[at].name.is_empty() {
            return Ok(());
        }
        self.open_call(at, out)
    }

    /// Which call a piece belongs to. Who does not count sends whole calls, or goes on with the last.
    fn place(&mut self, index: Option<u64>, id: &str) -> Result<usize, Fault> {
        let known = match index {
            Some(_) => self.calls.iter().position(|call| call.index == index),
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().position(|call| call.id == id),
        };
        if let Some(at) = known {
            return Ok(at);
        }
        if self.calls.len() >= CALLS {
            return Err(Fault::bad_gateway(format!(
                "the upstream's answer has more than {CALLS} tool calls"
            )));
        }
        self.calls.push(Call { index, ..Call::default() });
        Ok(self.calls.len() - 1)
    }

    fn open_call(&mut self, at: usize, out: &mut String) -> Result<(), Fault> {
        let fallback = format!("{}_{at}", self.id);
        let call = &mut self.calls[at];
        if call.name.is_empty() {
            return Err(Fault::bad_gateway("the upstream's answer has a tool call without a name"));
        }
        call.is_told = true;
        let held = std::mem::take(&mut call.held);
        self.held -= held.len().min(self.held);
        let id = ids::to_anthropic(&call.id, &fallback);
        let name = self.plan.names.to_anthropic(&call.name).to_string();
        self.open(Open::Call(at), &json!({ "type": "tool_use", "id": id, "name": name, "input": {} }), out);
        if !held.is_empty() {
            self.delta(&json!({ "type": "input_json_delta", "partial_json": held }), out);
        }
        Ok(())
    }

    fn hold(&mut self, piece: &str) -> Result<(), Fault> {
        self.held += piece.len();
        if self.held > HELD {
            return Err(Fault::bad_gateway("the upstream's answer has tool calls that are too large"));
        }
        Ok(())
    }

    fn open(&mut self, what: Open, block: &Value, out: &mut String) {
        self.close(out);
        self.open = Some(what);
        event(out, &json!({ "type": "content_block_start", "index": self.blocks, "content_block": block }));
    }

    fn delta(&self, delta: &Value, out: &mut String) {
        event(out, &json!({ "type": "content_block_delta", "index": self.blocks, "delta": delta }));
    }

    fn close(&mut self, out: &mut String) {
        if self.open.take().is_some() {
            event(out, &json!({ "type": "content_block_stop", "index": self.blocks }));
            self.blocks += 1;
        }
    }
}

/// Adds an event, named by its type.
fn event(out: &mut String, data: &Value) {
    let name = data["type"].as_str().unwrap_or_default();
    out.push_str(&format!("event: {name}\ndata: {data}\n\n"));
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
