//! Requests as HTTP resources: path, query and body are the parameters, the reply is the body of the response.

use axum::body::Body;
use axum::extract::{FromRequestParts, Query, RawPathParams, Request, State};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use nerve_api::framing::{MAX_LINE_BYTES, TooLarge};
use nerve_api::{Param, Params, RawRequest, RequestName, ResultMessage, encode_body, legacy_names};
use nerve_engine::dispatch::{Outcome, ReplySize};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::body::ReceivedBody;
use super::body_guard::{BodyObserver, GuardedBody};
use super::budget::{Budget, Share};
use super::operation::{BodyUse, RequestMapping};
use super::page::{List, Page};
use super::problem::Problem;
use super::{Shared, body, query};
use crate::answer::{Answer, ReplyBody};
use crate::line::too_large;
use crate::requests::{self, Incoming, Refusal};
use crate::state::ServerState;

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
    State(shared): State<Shared>,
    PathParams(path): PathParams,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, sent) = request.into_parts();
    let mut query = query::read(mapped.query, &raw_query(&parts.uri)?)?;
    let page = match mapped.list {
        Some(list) => Some((list, Page::from_params(&mut query)?)),
        None => None,
    };
    let mut params = Params::from(query);
    for (name, text) in &path {
        params.insert(name.to_string(), Param::Value(text.into()));
    }
    let ReceivedBody { bytes: sent, share } = body::read(sent, &shared.budget).await?;
    if mapped.body != BodyUse::None {
        join(&mut params, object(&sent)?)?;
    } else if !matches!(sent.trim_ascii(), b"" | b"{}") {
        return Err(Problem::invalid("this operation takes no body"));
    }
    if mapped.takes_trace {
        take_trace(&mut params, &parts.headers);
    }
    if mapped.request == RequestName::ListResults {
        // This module cuts the list into pages.
        params.insert("last".to_string(), Param::Value(u32::MAX.into()));
    }
    let is_set = |option: &&str| params.get(*option).is_some_and(|param| param.clone().into_value() == true);
    let later = ["async", "detach"].iter().any(is_set);
    let request = decode(mapped.request, params, &shared);
    drop(sent);
    let is_channel = parts.uri.path().starts_with("/channels/");
    let (reply, share) = if page.is_none() && !is_channel {
        let (reply, share) = dispatch(request, &shared, share, Answer::body).await?;
        (reply.map_err(|failure| Problem::of(*failure))?, share)
    } else {
        let (mut result, share) = dispatch(request, &shared, share, Answer::message).await?;
        if !result.success {
            return Err(Problem::of(result));
        }
        if let Value::Object(data) = &mut result.data {
            edit(data, page, is_channel);
        }
        (ReplyBody { bytes: encode_body(&result.data, &result.warnings), created_id: None }, share)
    };
    respond(reply, mapped, later, &parts.uri, share)
}

/// Reduces a list to its page; the older path gets the older words.
fn edit(data: &mut Map<String, Value>, page: Option<(List, Page)>, is_channel: bool) {
    if let Some((list, page)) = page {
        page.apply(list, data);
    }
    if is_channel {
        legacy_names::add_old_fields(RequestName::GetHistory, data);
        if let Some(Value::String(note)) = data.get_mut("note") {
            *note = note.replace("this node", "this channel");
        }
    }
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
fn object(bytes: &[u8]) -> Result<Params<'_>, Problem> {
    if bytes.trim_ascii().is_empty() {
        return Ok(Params::default());
    }
    Params::parse(bytes).map_err(|error| {
        let what = error.to_string();
        match what.contains("recursion limit") {
            true => Problem::invalid("body: nested deeper than 127 levels"),
            false => Problem::invalid(format!("body: expected a JSON object: {}", query::short(&what))),
        }
    })
}

/// Adds the parameters in the body to those in path and query. A parameter may be repeated only with the same value.
fn join<'a>(params: &mut Params<'a>, mut body: Params<'a>) -> Result<(), Problem> {
    for (name, param) in body.drain(..) {
        match params.get(&name) {
            Some(known) if !param.is_null() && known.clone().into_value() != param.clone().into_value() => {
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

/// Executes a request. `share` is the memory that the parameters take; the memory of the result is returned with it.
pub(crate) async fn execute(
    name: RequestName,
    params: Params<'_>,
    shared: &Shared,
    share: Share,
) -> Result<(ResultMessage, Share), Problem> {
    dispatch(decode(name, params, shared), shared, share, Answer::message).await
}

/// Reads the parameters of a request.
fn decode(name: RequestName, mut params: Params<'_>, shared: &Shared) -> Result<Incoming, Box<Refusal>> {
    let warnings = legacy_names::modernise(name, &mut params);
    let request = RawRequest { command: name, params, request_id: None, warnings };
    requests::incoming(request, &shared.state.dispatcher)
}

/// Executes a request that was read. `encode` makes the answer.
async fn dispatch<T: Send + 'static>(
    request: Result<Incoming, Box<Refusal>>,
    shared: &Shared,
    share: Share,
    encode: fn(Answer, Outcome) -> T,
) -> Result<(T, Share), Problem> {
    match request {
        Ok(request) => run(request, shared, share, encode).await,
        Err(refusal) => {
            shared.state.hub.metrics.refused();
            Ok((encode(refusal.answer, Err(refusal.error)), Share::default()))
        }
    }
}

/// An answer as a connection would send it, and its memory.
pub(crate) struct Line {
    pub(crate) bytes: Vec<u8>,
    pub(crate) share: Share,
}

/// Executes the request in a line, as a connection would.
pub(crate) async fn line(line: ReceivedBody, shared: &Shared) -> Result<Line, Problem> {
    let ReceivedBody { bytes, share } = line;
    let request = requests::read_line(&bytes, &shared.state.dispatcher);
    drop(bytes);
    match request {
        Ok(request) => {
            let (bytes, share) = run(request, shared, share, Answer::outcome).await?;
            Ok(Line { bytes, share })
        }
        Err(bytes) => {
            shared.state.hub.metrics.refused();
            Ok(Line { bytes, share: Share::default() })
        }
    }
}

/// Executes a request in a task of its own: work that changes something continues when its client leaves. `encode` makes the answer.
async fn run<T: Send + 'static>(
    request: Incoming,
    shared: &Shared,
    share: Share,
    encode: fn(Answer, Outcome) -> T,
) -> Result<(T, Share), Problem> {
    let gone = CancellationToken::new();
    let _guard = gone.clone().drop_guard();
    let (serving, budget): (std::sync::Arc<ServerState>, Budget) =
        (shared.state.clone(), shared.budget.clone());
    let task = tokio::spawn(async move {
        // The engine bounds what it keeps of the parameters.
        drop(share);
        let is_large = matches!(&request, Incoming::Call { call, .. } if call.size == ReplySize::Large);
        let mut share = if is_large { budget.answer().await? } else { Share::default() };
        let room = async || {
            if let Some(room) = budget.answer_for_completed(&gone).await {
                share = room;
            }
        };
        let answer = requests::answer(request, &serving, &gone, room, encode).await;
        Ok(answer.map(|answer| (answer, share)))
    });
    match task.await {
        Ok(Ok(Some(answer))) => Ok(answer),
        Ok(Err(problem)) => Err(problem),
        Ok(Ok(None)) | Err(_) => {
            Err(Problem::internal("the request ended without an answer: this is a bug in nerve"))
        }
    }
}

fn respond(
    reply: ReplyBody,
    mapped: &RequestMapping,
    later: bool,
    uri: &Uri,
    share: Share,
) -> Result<Response, Problem> {
    let ReplyBody { bytes, created_id } = reply;
    if bytes.len() > MAX_LINE_BYTES {
        return Err(Problem::of(too_large(None, &TooLarge { bytes: bytes.len() as u64 })));
    }
    let mut response = json_body(held(bytes, share));
    if later {
        *response.status_mut() = StatusCode::ACCEPTED;
    }
    if let (true, Some(id)) = (mapped.creates, created_id) {
        *response.status_mut() = StatusCode::CREATED;
        let folder = uri.path().split('/').nth(1).unwrap_or_default();
        if let Ok(location) = HeaderValue::from_str(&format!("/{folder}/{id}")) {
            response.headers_mut().insert(header::LOCATION, location);
        }
    }
    Ok(response)
}

/// Returns a body that holds its memory until it is sent.
pub(crate) fn held(bytes: Vec<u8>, mut share: Share) -> Body {
    share.shrink(bytes.len());
    Body::new(GuardedBody::new(Body::from(bytes), share))
}

impl BodyObserver for Share {}

/// Returns a response with a JSON body.
pub(crate) fn json_body(json: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], json.into()).into_response()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[tokio::test]
    async fn long_replies_hold_their_memory() {
        let folder = tempfile::tempdir().unwrap();
        let shared = Shared::for_test(folder.path());
        let ask = async |name: RequestName, params: Value| {
            let (result, share) = execute(name, map(params).into(), &shared, Share::default()).await.unwrap();
            assert!(result.success, "{result:?}");
            (result.data, share)
        };
        ask(RequestName::CreateNode, json!({ "node_id": "sh", "backend": "bash" })).await;
        let begun =
            ask(RequestName::ExecuteInput, json!({ "node_id": "sh", "text": "echo hi", "async": true }))
                .await;
        let graph = json!({ "graph": "g", "steps": [{ "id": "a", "node_id": "sh", "text": "echo hi" }] });
        for (name, params) in [
            (RequestName::GetResult, json!({ "result_id": begun.0["result_id"], "wait": true })),
            (RequestName::ExecuteGraph, json!({ "definition": graph })),
            (RequestName::GetHistory, json!({ "node_id": "sh" })),
        ] {
            let (_, share) = ask(name, params).await;
            assert_eq!(shared.budget.answers_in_use(), MAX_LINE_BYTES, "{name:?}");
            drop(share);
            assert_eq!(shared.budget.answers_in_use(), 0);
        }
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
            let mut params = map(body).into();
            take_trace(&mut params, headers);
            assert_eq!(Value::Object(params.into_map()), wanted);
        }
    }
}
