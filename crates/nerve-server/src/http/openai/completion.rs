//! An answer to a conversation: the whole call, and its response at the end.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::Request;
use axum::response::Response;
use http::{HeaderMap, HeaderName};
use nerve_api::ErrorKind;

use super::client_connection::ClientConnection;
use super::config::ToolCallDisplay;
use super::conversation::Conversation;
use super::destination::Destination;
use super::error::ApiError;
use super::model::{ModelTarget, encode};
use super::stream::{self, ChunkOptions};
use super::turn::{Turn, TurnOptions, TurnStep};
use super::types::{
    AssistantMessage, ChatCompletion, ChatRequest, ChatRole, Choice, CompletionHead, FinishReason,
};
use crate::http::body::ReceivedBody;
use crate::http::resource::{guarded_body, json_body};
use crate::http::{SiteState, body};

/// Lists the parameters of a request that had no effect.
const IGNORED: HeaderName = HeaderName::from_static("x-nerve-ignored-parameters");

/// Answers the last message of a conversation, unless the client leaves first.
pub(super) async fn complete(site: SiteState, mut request: Request) -> Result<Response, ApiError> {
    let connection = ClientConnection::take(&mut request);
    let (parts, body) = request.into_parts();
    let body = body::read(body, &site.budget).await?;
    let answered = call(site, &parts.headers, body, connection.clone());
    tokio::select! {
        biased;
        response = answered => response,
        () = connection.closed() => Err(ApiError::new(ErrorKind::Interrupted, "the client has left", None)),
    }
}

async fn call(
    site: SiteState,
    headers: &HeaderMap,
    body: ReceivedBody,
    connection: ClientConnection,
) -> Result<Response, ApiError> {
    let ReceivedBody { bytes, memory } = body;
    let request = ChatRequest::read(&bytes)?;
    drop(bytes);
    let ignored = request.ignored();
    let ChatRequest { model, messages, stream, stream_options, others: _ } = request;
    let config = site.openai.config().await?;
    let target = ModelTarget::read(&model, &config)?;
    let conversation = Conversation::read(messages)?;
    let permit = site.openai.begin_call()?;
    let trace = (header(headers, "traceparent"), header(headers, "tracestate"));
    let options = TurnOptions { trace, ..TurnOptions::new(stream, &config, permit) };
    let object = if stream { "chat.completion.chunk" } else { "chat.completion" };
    let id = format!("chatcmpl-{}-{:x}", site.state.id, site.state.tag());
    let head = CompletionHead { id, object, created: seconds_since_epoch(), model };
    let destination = Destination::prepare(target, conversation, &site).await?;
    let turn = Turn::start(destination, options, site).await?;
    // The engine bounds what it keeps of the messages.
    drop(memory);
    let tool_calls = config.tool_calls;
    let mut response = match stream {
        true => {
            let include_usage = stream_options.include_usage;
            let options = ChunkOptions { head, tool_calls, include_usage, connection };
            stream::respond(turn, options).await?
        }
        false => respond(turn, head, tool_calls).await?,
    };
    if let Some(ignored) = ignored {
        response.headers_mut().insert(IGNORED, ignored);
    }
    Ok(response)
}

/// Waits for the end of a turn.
async fn respond(
    mut turn: Turn,
    head: CompletionHead,
    tool_calls: ToolCallDisplay,
) -> Result<Response, ApiError> {
    while turn.next().await != TurnStep::Ended {}
    let (answer, memory) = turn.answer().await?;
    let content = match tool_calls {
        ToolCallDisplay::Hidden => answer.text,
        ToolCallDisplay::Text => answer.text_with_tools(),
    };
    let message = AssistantMessage { role: ChatRole::Assistant, content, refusal: () };
    let choice = Choice { index: 0, message, finish_reason: FinishReason::Stop, logprobs: () };
    let completion = ChatCompletion { head, choices: vec![choice], usage: answer.usage };
    Ok(json_body(guarded_body(encode(&completion), memory)))
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_string())
}

fn seconds_since_epoch() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
