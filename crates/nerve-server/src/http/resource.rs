//! Requests as HTTP resources: path, query and body are the parameters, the reply is the body of the response.

use axum::body::Body;
use axum::extract::{FromRequestParts, Query, RawPathParams, Request, State};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use nerve_api::{Param, Params, RawRequest, RequestName};
use nerve_engine::dispatch::{Outcome, ReplySize};
use tokio_util::sync::CancellationToken;

use super::body::ReceivedBody;
use super::body_guard::{BodyObserver, GuardedBody};
use super::budget::{Budget, MemoryReservation};
use super::operation::{BodyUse, RequestMapping};
use super::problem::Problem;
use super::reply::{self, ReplyBody};
use super::{SiteState, body, query};
use crate::client_origin;
use crate::legacy_names;
use crate::reply_context::ReplyContext;
use crate::requests::{self, Command, DecodedRequest, Refusal};
use crate::state::ServerState;
use crate::web::role;

/// Items of a page of a list if the query has no limit.
const DEFAULT_LIMIT: u64 = 100;

/// Decoded names and values of a query.
pub(crate) type RawQuery = Vec<(String, String)>;

/// Values of the placeholders in a path.
pub(crate) struct PathParams(pub(crate) RawPathParams);

impl<S: Send + Sync> FromRequestParts<S> for PathParams {
    /// Replaces axum's own rejection, which has another format.
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<PathParams, Problem> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        params.map(PathParams).map_err(|error| Problem::invalid(format!("invalid path: {error}")))
    }
}

/// Serves an operation that is a request.
pub(crate) async fn serve(
    mapped: &'static RequestMapping,
    State(site): State<SiteState>,
    PathParams(path): PathParams,
    request: Request,
) -> Result<Response, Problem> {
    role::check_permission(mapped.request).map_err(Problem::permission_denied)?;
    let (parts, sent) = request.into_parts();
    let ReceivedBody { bytes: sent, memory } = body::read(sent, &site.budget).await?;
    let params = read_params(mapped, &path, &parts, &sent)?;
    let is_async = is_async(&params);
    let request = decode(mapped.request, params, &site);
    drop(sent);
    let is_channel = legacy_names::is_channel_path(parts.uri.path());
    let encode = move |context, outcome| reply::encode_with(is_channel, context, outcome);
    let (reply, memory) = dispatch(request, &site, memory, encode).await?;
    Ok(respond(reply?, mapped, is_async, collection_path(&parts.uri, 1), memory))
}

/// Returns the path of the collection to which a path belongs: its first segments.
pub(super) fn collection_path(uri: &Uri, segments: usize) -> &str {
    let path = uri.path();
    path.match_indices('/').nth(segments).map_or(path, |(end, _)| &path[..end])
}

/// Returns true if the reply does not wait for the end of what the request starts.
pub(super) fn is_async(params: &Params<'_>) -> bool {
    let is_set = |option: &&str| params.get(*option).is_some_and(|param| param.clone().into_value() == true);
    ["async", "detach"].iter().any(is_set)
}

/// Reads the parameters of a request: from its path, its query, its body and its trace.
pub(super) fn read_params<'a>(
    mapped: &RequestMapping,
    path: &RawPathParams,
    parts: &Parts,
    sent: &'a [u8],
) -> Result<Params<'a>, Problem> {
    let mut params = Params::from(query::read(mapped.query, &raw_query(&parts.uri)?)?);
    if mapped.is_list && !params.contains_key("limit") {
        params.insert("limit".to_string(), Param::Value(DEFAULT_LIMIT.into()));
    }
    for (name, text) in path {
        params.insert(name.to_string(), Param::Value(text.into()));
    }
    if mapped.body != BodyUse::None {
        merge_params(&mut params, parse_object(sent)?)?;
    } else if !matches!(sent.trim_ascii(), b"" | b"{}") {
        return Err(Problem::invalid("this operation takes no body"));
    }
    if mapped.takes_trace {
        take_trace(&mut params, &parts.headers);
    }
    Ok(params)
}

/// Adds the caller's span from the headers, unless the body contains it. A `tracestate` without its `traceparent` is ignored (W3C Trace
/// Context §3.3).
fn take_trace(params: &mut Params<'_>, headers: &HeaderMap) {
    let header = |name: &str| headers.get(name)?.to_str().ok();
    if params.contains_key("traceparent") {
        return;
    }
    let Some(parent) = header("traceparent") else { return };
    params.insert("traceparent".to_string(), Param::Value(parent.into()));
    params.shift_remove("tracestate");
    if let Some(state) = header("tracestate") {
        params.insert("tracestate".to_string(), Param::Value(state.into()));
    }
}

/// Decodes the query.
pub(crate) fn raw_query(uri: &Uri) -> Result<RawQuery, Problem> {
    Query::<RawQuery>::try_from_uri(uri)
        .map(|Query(query)| query)
        .map_err(|error| Problem::invalid(format!("invalid query: {error}")))
}

/// Parses the object in a body. An empty body is an empty object.
fn parse_object(bytes: &[u8]) -> Result<Params<'_>, Problem> {
    if bytes.trim_ascii().is_empty() {
        return Ok(Params::default());
    }
    Params::parse(bytes).map_err(|error| {
        let message = error.to_string();
        match message.contains("recursion limit") {
            true => Problem::invalid("body: nested deeper than 127 levels"),
            false => Problem::invalid(format!("body: expected a JSON object: {}", query::short(&message))),
        }
    })
}

/// Adds the parameters in the body to those in path and query. A parameter may be repeated only with the same value.
fn merge_params<'a>(params: &mut Params<'a>, mut body: Params<'a>) -> Result<(), Problem> {
    for (name, param) in body.drain(..) {
        match params.get(&name) {
            Some(existing)
                if !param.is_null() && existing.clone().into_value() != param.clone().into_value() =>
            {
                return Err(Problem::invalid(format!(
                    "{}: the values in body and URL differ",
                    query::short(&name)
                )));
            }
            Some(_) => {}
            None => {
                params.insert(name, param);
            }
        }
    }
    Ok(())
}

/// Executes a request whose parameters are in `body`, and returns the body of its reply.
pub(crate) async fn execute(
    name: RequestName,
    body: ReceivedBody,
    site: &SiteState,
) -> Result<Response, Problem> {
    role::check_permission(name).map_err(Problem::permission_denied)?;
    let ReceivedBody { bytes, memory } = body;
    let request = decode(name, parse_object(&bytes)?, site);
    let (reply, memory) = dispatch(request, site, memory, reply::encode).await?;
    Ok(json_body(guarded_body(reply?.bytes, memory)))
}

/// Executes a request that was made in this process. Returns its reply and the memory reserved for a large reply.
pub(crate) async fn call<R: nerve_api::Request>(
    request: R,
    site: &SiteState,
) -> Result<(R::Reply, MemoryReservation), Problem> {
    role::check_permission(R::NAME).map_err(Problem::permission_denied)?;
    let Some(call) = site.state.dispatcher.prepare(request) else {
        return Err(Problem::internal(format!("the engine does not handle {}", R::NAME)));
    };
    let context =
        ReplyContext { name: Some(R::NAME), origin: client_origin::current(), ..ReplyContext::default() };
    let request = DecodedRequest { command: Command::Call(call), context };
    let (reply, memory) =
        run_in_task(request, site, MemoryReservation::default(), reply::downcast::<R::Reply>).await?;
    Ok((*reply?, memory))
}

/// Reads the parameters of a request.
fn decode(
    name: RequestName,
    mut params: Params<'_>,
    site: &SiteState,
) -> Result<DecodedRequest, Box<Refusal>> {
    let warnings = legacy_names::modernise(name, &mut params);
    let request = RawRequest { command: name, params, request_id: None, warnings };
    requests::decode(request, &site.state.dispatcher)
}

/// Executes a decoded request, or replies with the error of a refused one. `encode` makes the reply.
async fn dispatch<T: Send + 'static>(
    request: Result<DecodedRequest, Box<Refusal>>,
    site: &SiteState,
    memory: MemoryReservation,
    encode: impl Fn(ReplyContext, Outcome) -> T + Send + Sync + 'static,
) -> Result<(T, MemoryReservation), Problem> {
    match request {
        Ok(request) => run_in_task(request, site, memory, encode).await,
        Err(refusal) => {
            site.state.hub.metrics.count_refusal();
            Ok((encode(refusal.context, Err(refusal.error)), MemoryReservation::default()))
        }
    }
}

/// A reply as a line of the protocol, and the memory reserved for it.
pub(crate) struct ReplyLine {
    pub(crate) bytes: Vec<u8>,
    pub(crate) memory: MemoryReservation,
}

/// Executes the request that a line of the protocol contains.
pub(crate) async fn execute_line(body: ReceivedBody, site: &SiteState) -> Result<ReplyLine, Problem> {
    let ReceivedBody { bytes, memory } = body;
    let request = requests::read_line(&bytes, &site.state.dispatcher);
    drop(bytes);
    match request {
        Ok(request) => {
            let (bytes, memory) = run_in_task(request, site, memory, ReplyContext::outcome_line).await?;
            Ok(ReplyLine { bytes, memory })
        }
        Err(bytes) => {
            site.state.hub.metrics.count_refusal();
            Ok(ReplyLine { bytes, memory: MemoryReservation::default() })
        }
    }
}

/// Executes a request in a task of its own, so that changes are completed even if the client leaves. `encode` makes
/// the reply.
async fn run_in_task<T: Send + 'static>(
    request: DecodedRequest,
    site: &SiteState,
    memory: MemoryReservation,
    encode: impl Fn(ReplyContext, Outcome) -> T + Send + Sync + 'static,
) -> Result<(T, MemoryReservation), Problem> {
    let disconnected = CancellationToken::new();
    let _guard = disconnected.clone().drop_guard();
    let (state, budget): (std::sync::Arc<ServerState>, Budget) = (site.state.clone(), site.budget.clone());
    let task = tokio::spawn(async move {
        // The engine limits the parameters that it keeps, so this reservation can end.
        drop(memory);
        let is_large = matches!(&request.command, Command::Call(call) if call.size == ReplySize::Large);
        let mut memory =
            if is_large { budget.reserve_response().await? } else { MemoryReservation::default() };
        let reserve_memory = async || {
            if let Some(reserved) = budget.reserve_completed_response(&disconnected).await {
                memory = reserved;
            }
        };
        let reply = requests::respond(request, &state, &disconnected, reserve_memory, encode).await;
        Ok(reply.map(|reply| (reply, memory)))
    });
    match task.await {
        Ok(Ok(Some(reply))) => Ok(reply),
        Ok(Err(problem)) => Err(problem),
        Ok(Ok(None)) | Err(_) => {
            Err(Problem::internal("the request ended without an answer: this is a bug in nerve"))
        }
    }
}

/// Returns the response with a reply. `collection`: the path below which an item is created.
pub(super) fn respond(
    reply: ReplyBody,
    mapped: &RequestMapping,
    is_async: bool,
    collection: &str,
    memory: MemoryReservation,
) -> Response {
    let ReplyBody { bytes, created_id } = reply;
    let mut response = json_body(guarded_body(bytes, memory));
    if is_async {
        *response.status_mut() = StatusCode::ACCEPTED;
    }
    if let (true, Some(id)) = (mapped.creates, created_id) {
        *response.status_mut() = StatusCode::CREATED;
        if let Ok(location) = HeaderValue::from_str(&format!("{collection}/{id}")) {
            response.headers_mut().insert(header::LOCATION, location);
        }
    }
    response
}

/// Returns a body that holds its memory until it is sent.
pub(crate) fn guarded_body(bytes: Vec<u8>, mut memory: MemoryReservation) -> Body {
    memory.shrink(bytes.len());
    Body::new(GuardedBody::new(Body::from(bytes), memory))
}

impl BodyObserver for MemoryReservation {}

/// Returns a response with a JSON body.
pub(crate) fn json_body(json: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], json.into()).into_response()
}

#[cfg(test)]
mod tests {
    use nerve_api::framing::MAX_LINE_BYTES;
    use nerve_api::reply::ExecuteReply;
    use nerve_api::request::{CreateNode, ExecuteGraph, ExecuteInput, GetHistory, GetResult};
    use nerve_api::value::BackendKind;
    use serde_json::{Value, json};

    use super::*;

    #[tokio::test]
    async fn long_replies_hold_their_memory() {
        async fn holds_memory<R: nerve_api::Request>(request: R, site: &SiteState) {
            let (_, memory) = call(request, site).await.unwrap();
            assert_eq!(site.budget.response_bytes_in_use(), MAX_LINE_BYTES, "{}", R::NAME);
            drop(memory);
            assert_eq!(site.budget.response_bytes_in_use(), 0);
        }

        let folder = tempfile::tempdir().unwrap();
        let site = SiteState::for_test(folder.path());
        let create = CreateNode { backend: BackendKind::Bash, ..CreateNode::new("sh") };
        call(create, &site).await.unwrap();
        let prompt = ExecuteInput { is_async: true, ..ExecuteInput::new("sh", "echo hi") };
        let ExecuteReply::Accepted(begun) = call(prompt, &site).await.unwrap().0 else { panic!() };
        let steps = json!([{ "id": "a", "node_id": "sh", "text": "echo hi" }]);
        let graph = json!({ "definition": { "graph": "g", "steps": steps } });
        let result = GetResult { result_id: begun.result_id, wait: true, ..GetResult::default() };
        holds_memory(result, &site).await;
        holds_memory(serde_json::from_value::<ExecuteGraph>(graph).unwrap(), &site).await;
        holds_memory(GetHistory { node_id: "sh".into(), ..GetHistory::default() }, &site).await;
    }

    #[test]
    fn trace_in_body_overrides_headers() {
        let headers = |names: &[&'static str]| {
            names.iter().map(|name| (name.parse().unwrap(), HeaderValue::from_static("h"))).collect()
        };
        let both = headers(&["traceparent", "tracestate"]);
        for (body, headers, wanted) in [
            (json!({}), &both, json!({ "traceparent": "h", "tracestate": "h" })),
            (json!({ "traceparent": "b" }), &both, json!({ "traceparent": "b" })),
            (json!({ "tracestate": "b" }), &headers(&["traceparent"]), json!({ "traceparent": "h" })),
            (json!({}), &headers(&["tracestate"]), json!({})),
        ] {
            let mut params = body.as_object().unwrap().clone().into();
            take_trace(&mut params, headers);
            assert_eq!(Value::Object(params.into_map()), wanted);
        }
    }
}
