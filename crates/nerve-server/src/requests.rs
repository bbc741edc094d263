//! Reads requests, passes them to the engine or the server, and answers them.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use nerve_api::reply::{Authenticated, Stopped};
use nerve_api::request::{Authenticate, Shutdown, Subscribe, read};
use nerve_api::{DecodeError, EventType, Params, RawRequest, RequestName, decode_request};
use nerve_engine::dispatch::{Dispatcher, Outcome, PreparedRequest, ReplySize};
use nerve_node::error::{EngineError, ErrorKind};
use tokio_util::sync::CancellationToken;

use crate::client_origin;
use crate::events::Filter;
use crate::line::line_of;
use crate::reply_context::{ReplyContext, has_ended_run};
use crate::state::ServerState;
use crate::web::role;

/// A decoded request that has not been executed.
#[derive(Debug)]
pub(crate) struct DecodedRequest {
    pub(crate) command: Command,
    pub(crate) context: ReplyContext,
}

/// The command of a request, with its parameters.
#[derive(Debug)]
pub(crate) enum Command {
    /// A call of the engine.
    Call(PreparedRequest),
    /// SUBSCRIBE: selects the connection's events.
    Subscribe { filter: Filter, since: Option<u64> },
    /// AUTHENTICATE on a connection that is authenticated already.
    Authenticate,
    /// A shutdown of the server.
    Shutdown { keep_nodes: bool },
}

/// A request that is refused before it reaches the engine.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) context: ReplyContext,
    pub(crate) error: EngineError,
}

/// Reads a line. The error is the line that answers it.
pub(crate) fn read_line(line: &[u8], dispatcher: &Dispatcher) -> Result<DecodedRequest, Vec<u8>> {
    let request = decode_request(line).map_err(|error| line_of(&error.reply()))?;
    decode(request, dispatcher).map_err(|refusal| refusal.context.error_line(refusal.error))
}

/// Reads the parameters of a request.
pub(crate) fn decode(
    request: RawRequest<'_>,
    dispatcher: &Dispatcher,
) -> Result<DecodedRequest, Box<Refusal>> {
    let RawRequest { command: name, params, request_id, warnings } = request;
    // Until here only older names cause warnings.
    let old_names = !warnings.is_empty();
    let origin = client_origin::current();
    let context =
        ReplyContext { request_id, name: Some(name), old_names, warnings, origin, ..ReplyContext::default() };
    match decode_command(name, &params, dispatcher) {
        Ok(command) => Ok(DecodedRequest { command, context }),
        Err(error) => Err(Box::new(Refusal { context, error })),
    }
}

fn decode_command(
    name: RequestName,
    params: &Params<'_>,
    dispatcher: &Dispatcher,
) -> Result<Command, EngineError> {
    let invalid = |message| EngineError::invalid_request(message);
    role::check_permission(name)?;
    Ok(match name {
        RequestName::Subscribe => {
            let request: Subscribe = read(name, params).map_err(invalid)?;
            let since = request.since;
            Command::Subscribe { filter: parse_filter(request)?, since }
        }
        RequestName::Authenticate => Command::Authenticate,
        RequestName::Shutdown => {
            let Shutdown { keep_nodes } = read(name, params).map_err(invalid)?;
            Command::Shutdown { keep_nodes }
        }
        _ => Command::Call(dispatcher.decode(name, params).map_err(invalid)?),
    })
}

/// Returns the events that a SUBSCRIBE selects.
///
/// # Errors
/// `InvalidRequest` if an event is unknown.
pub(crate) fn parse_filter(request: Subscribe) -> Result<Filter, EngineError> {
    let Subscribe { node_id, session_id, run_id, types, aliases, .. } = request;
    let parse = |name: &String| {
        EventType::parse(name)
            .ok_or_else(|| EngineError::invalid_request(format!("params.types: unknown event {name:?}")))
    };
    let types = types.map(|names| names.iter().map(parse).collect()).transpose()?;
    Ok(Filter { node: node_id, session: session_id, run: run_id, types, aliases, hides_drops: false })
}

/// The token of a client, and the context of the reply to it.
pub(crate) struct Credentials {
    pub(crate) token: Option<Vec<u8>>,
    pub(crate) context: ReplyContext,
}

/// Reads the first line of a client that is not authenticated. The error is the line that answers anything but AUTHENTICATE.
pub(crate) fn parse_credentials(line: &[u8]) -> Result<Credentials, Vec<u8>> {
    let RawRequest { command: name, params, request_id, .. } =
        decode_request(line).map_err(|error| line_of(&error.reply()))?;
    let context = ReplyContext { request_id, name: Some(name), ..ReplyContext::default() };
    if name != RequestName::Authenticate {
        let error = EngineError::new(ErrorKind::Authentication, "AUTHENTICATE must come first");
        return Err(context
            .error_line(error.hint("send the token: 'nerve token show' on the server's machine prints it")));
    }
    match read::<Authenticate>(name, &params) {
        Ok(request) => Ok(Credentials { token: request.token.map(String::into_bytes), context }),
        Err(message) => Err(context.error_line(EngineError::invalid_request(message))),
    }
}

/// Returns the line that answers a line that was too long to be read.
pub(crate) fn too_long(bytes: u64) -> Vec<u8> {
    line_of(&DecodeError::too_long(bytes).reply())
}

/// Executes one request that has no connection of the line protocol, and makes its reply with `encode`. Refuses
/// SUBSCRIBE. Must be called in a task of its own, which outlives the client.
///
/// Calls `reserve_memory` before it encodes a reply that may be large and whose size is known only at the end.
/// Returns `None` if `disconnected` was cancelled first.
pub(crate) async fn respond<T, R: Future<Output = ()>>(
    DecodedRequest { command, context }: DecodedRequest,
    state: &ServerState,
    disconnected: &CancellationToken,
    reserve_memory: impl FnOnce() -> R,
    encode: impl Fn(ReplyContext, Outcome) -> T,
) -> Option<T> {
    let outcome: Outcome = match command {
        Command::Call(call) => {
            let size = call.size;
            let outcome = execute(call, &context, None, disconnected).await?;
            if size == ReplySize::LargeAtEnd {
                reserve_memory().await;
            }
            record_outcome(&context, &outcome, state);
            outcome
        }
        Command::Subscribe { .. } => {
            let error = EngineError::invalid_request("SUBSCRIBE is for connections that stay open");
            Err(error.hint("use a socket, the WebSocket at /api/events, or SSE at /events"))
        }
        Command::Authenticate => Ok(Box::new(Authenticated { authenticated: true })),
        Command::Shutdown { keep_nodes } => {
            state.shut_down(keep_nodes);
            Ok(Box::new(Stopped { stopped: true }))
        }
    };
    Some(encode(context, outcome))
}

/// Executes a request. If the client leaves, only a request that changes nothing is aborted: turns and runs
/// continue. Returns `None` if it was aborted. A panic of the engine becomes an error.
pub(crate) async fn execute(
    call: PreparedRequest,
    context: &ReplyContext,
    tag: Option<u64>,
    disconnected: &CancellationToken,
) -> Option<Outcome> {
    let ends_with_client = call.ends_with_client;
    // Unwind-safe: a future that panicked is dropped and not polled again.
    let work = AssertUnwindSafe(call.execute(context.request_context(tag))).catch_unwind();
    tokio::select! {
        biased;
        outcome = work => Some(outcome.unwrap_or_else(|_| {
            tracing::error!("a request failed in the engine");
            Err(EngineError::internal("the request ended without an answer: this is a bug in nerve"))
        })),
        () = disconnected.cancelled(), if ends_with_client => None,
    }
}

/// Counts an outcome. Forwards the events that led to it, so that they are sent before the reply.
pub(crate) fn record_outcome(context: &ReplyContext, outcome: &Outcome, state: &ServerState) {
    state.hub.publish_pending();
    if let Some(name) = context.name {
        let error = outcome.as_ref().err().filter(|error| !has_ended_run(error));
        state.hub.metrics.count_request(name, error.map(|error| error.kind));
    }
}
