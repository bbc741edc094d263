//! Responses in chunks: server-sent events with the parts of an answer.

use std::collections::VecDeque;

use axum::body::Bytes;
use axum::response::Response;
use futures_util::stream::unfold;
use nerve_api::ErrorKind;

use super::client_connection::ClientConnection;
use super::config::ToolCallDisplay;
use super::error::ApiError;
use super::model::encode;
use super::outcome::{Answer, tool_line};
use super::streamed_text::{Rest, StreamedText};
use super::turn::{Turn, TurnStep};
use super::types::{
    ChatCompletionChunk, ChatRole, ChunkChoice, ChunkDelta, CompletionHead, CompletionUsage, FinishReason,
};
use crate::http::budget::MemoryReservation;
use crate::http::sse;

/// The end of a stream that has succeeded.
const DONE: &[u8] = b"data: [DONE]\n\n";

/// Content of the chunks.
pub(super) struct ChunkOptions {
    pub(super) head: CompletionHead,
    pub(super) tool_calls: ToolCallDisplay,
    /// Sends the usage in a last chunk.
    pub(super) include_usage: bool,
    pub(super) connection: ClientConnection,
}

/// Streams a turn.
///
/// # Errors
/// The turn ended before the agent worked, and has no answer: the response has the status of the error. Later errors are the last
/// event of the stream.
pub(super) async fn respond(mut turn: Turn, options: ChunkOptions) -> Result<Response, ApiError> {
    let first = turn.next().await;
    let mut chunks = Chunks {
        turn,
        options,
        sent: StreamedText::default(),
        queue: VecDeque::new(),
        tools_shown: 0,
        has_ended: false,
        memory: MemoryReservation::default(),
    };
    let role = Some(ChatRole::Assistant);
    chunks.push(ChunkDelta { role, content: Some(String::new()) }, None);
    match first {
        TurnStep::Ended => {
            let answer = chunks.turn.answer().await?;
            chunks.end(Ok(answer));
        }
        step => chunks.read(step).await,
    }
    Ok(sse::respond(unfold(chunks, |mut chunks| async move { Some((chunks.next().await?, chunks)) })))
}

struct Chunks {
    turn: Turn,
    options: ChunkOptions,
    sent: StreamedText,
    queue: VecDeque<Bytes>,
    /// Number of tool calls that were shown.
    tools_shown: usize,
    has_ended: bool,
    /// The memory of the complete answer.
    memory: MemoryReservation,
}

impl Chunks {
    /// Returns the next event; `None` at the end. It is polled only when the previous event has left.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Some(event);
            }
            if self.has_ended {
                return None;
            }
            let step = tokio::select! {
                biased;
                step = self.turn.next() => step,
                () = self.options.connection.closed() => return None,
            };
            self.read(step).await;
        }
    }

    async fn read(&mut self, step: TurnStep) {
        match step {
            TurnStep::Started => {}
            TurnStep::Silence => self.queue.push_back(Bytes::from_static(sse::COMMENT)),
            TurnStep::Text(text) => self.push_answer(text),
            TurnStep::Tool(name, args) => self.push_tool(&tool_line(&name, &args)),
            TurnStep::Ended => {
                let answer = self.turn.answer().await;
                self.end(answer);
            }
        }
    }

    /// Sends what is missing of the answer, and the end.
    fn end(&mut self, answer: Result<(Answer, MemoryReservation), ApiError>) {
        self.has_ended = true;
        let done = answer.and_then(|(answer, memory)| {
            self.memory = memory;
            // Those that the agent did not report while it worked.
            answer.tool_lines().skip(self.tools_shown).for_each(|line| self.push_tool(&line));
            match self.sent.rest(&answer.text) {
                Rest::Nothing => {}
                Rest::Continuation(rest) => self.push_answer(rest.to_string()),
                Rest::Correction(_) if self.turn.has_gap() => return Err(gap_error(&answer)),
                Rest::Correction(rest) => self.push_answer(format!("\n\n{rest}")),
            }
            self.turn.remember(&self.sent, &answer);
            Ok(answer.usage)
        });
        match done {
            Ok(usage) => self.finish(usage),
            Err(error) => self.queue.push_back(event(&error.body())),
        }
        self.memory.shrink(self.queue.iter().map(Bytes::len).sum());
    }

    fn finish(&mut self, usage: Option<CompletionUsage>) {
        self.push(ChunkDelta::default(), Some(FinishReason::Stop));
        if let Some(usage) = usage.filter(|_| self.options.include_usage) {
            self.push_chunk(Vec::new(), Some(usage));
        }
        self.queue.push_back(Bytes::from_static(DONE));
    }

    /// Sends a part of the answer.
    fn push_answer(&mut self, text: String) {
        self.sent.push(&text);
        self.push_text(text);
    }

    fn push_tool(&mut self, line: &str) {
        self.tools_shown += 1;
        if self.options.tool_calls == ToolCallDisplay::Text {
            self.push_text(format!("\n\n{line}\n\n"));
        }
    }

    fn push_text(&mut self, text: String) {
        self.push(ChunkDelta { role: None, content: Some(text) }, None);
    }

    fn push(&mut self, delta: ChunkDelta, finish_reason: Option<FinishReason>) {
        self.push_chunk(vec![ChunkChoice { index: 0, delta, finish_reason, logprobs: () }], None);
    }

    fn push_chunk(&mut self, choices: Vec<ChunkChoice>, usage: Option<CompletionUsage>) {
        let chunk = ChatCompletionChunk { head: self.options.head.clone(), choices, usage };
        self.queue.push_back(event(&encode(&chunk)));
    }
}

fn event(data: &[u8]) -> Bytes {
    [b"data: ", data, b"\n\n"].concat().into()
}

/// Returns the error of a client that reads so slowly that its answer cannot be completed.
fn gap_error(answer: &Answer) -> ApiError {
    let hint = "read the stream faster, or request the answer without a stream".to_string();
    let error =
        ApiError::new(ErrorKind::Incomplete, "parts of the answer were lost on their way", Some(hint));
    error.text(Some(answer.text.clone())).final_failure()
}
