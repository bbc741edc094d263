//! The operations of other machines, below `/machines/NAME`: requests and events.

use std::sync::Arc;

use axum::Router;
use axum::extract::ws::close_code;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::{get, on};
use futures_util::TryFutureExt;
use futures_util::stream::{StreamExt, TryStreamExt, iter, try_unfold};
use http::StatusCode;
use nerve_api::request::Subscribe;
use nerve_api::{Envelope, ErrorKind, RequestName};
use nerve_machine::MachineError;
use nerve_machine::relay::{MachineEvents, MachineRelay, RelayError, check_filter};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::body::{self, ReceivedBody};
use super::budget::SMALL;
use super::events_socket::{self, EventLines, MAX_INPUT_BYTES};
use super::operation::{Handler, Operation, RequestMapping};
use super::problem::Problem;
use super::reply::ReplyBody;
use super::resource::{PathParams, collection_path, is_async, json_body, raw_query, read_params, respond};
use super::websocket::Handshake;
use super::{SiteState, query};
use crate::reply_context::Failure;
use crate::web::role;

/// Name of the machine among the parameters of a path.
const MACHINE: &str = "machine_name";
const PREFIX: &str = "/machines/{machine_name}";

/// Returns the routes of a server that relays to machines.
pub(super) fn router(operations: &'static [Operation]) -> Router<SiteState> {
    let router = Router::new().route("/machines", get(list));
    let router = router.route(&format!("{PREFIX}/events"), get(events));
    operations.iter().fold(router, |router, operation| match &operation.handler {
        Handler::Request(mapped) => {
            let serve = move |state: State<SiteState>, path: PathParams, request: Request| {
                relay(mapped, state, path, request)
            };
            router.route(&format!("{PREFIX}{}", operation.path), on(operation.method(), serve))
        }
        Handler::Builtin(..) => router,
    })
}

/// Sends a request to a machine.
async fn relay(
    mapped: &'static RequestMapping,
    State(site): State<SiteState>,
    PathParams(path): PathParams,
    request: Request,
) -> Result<Response, Problem> {
    role::check_permission(mapped.request).map_err(Problem::permission_denied)?;
    let (parts, sent) = request.into_parts();
    let ReceivedBody { bytes: sent, memory: _memory } = body::read(sent, &site.budget).await?;
    let params = read_params(mapped, &path, &parts, &sent)?;
    let is_async = is_async(&params);
    let mut params = params.into_map();
    let machine = params.remove(MACHINE);
    let machine = machine.as_ref().and_then(Value::as_str).unwrap_or_default();
    let connection = relay_to(&site, machine)?.connect(machine).await.map_err(unreachable)?;
    let reply = connection.request(mapped.request, Value::Object(params)).await;
    let reply = reply.map_err(failed_request)?;
    // The request has been executed, so its reply is not refused. Meanwhile it holds its place among the requests to the machine.
    let memory = match reply.json.len() {
        0..=SMALL => None,
        _ => site.budget.reserve_completed_response(&CancellationToken::new()).await,
    };
    let created_id = if mapped.creates { created_id(&reply.json) } else { None };
    let reply = ReplyBody { bytes: reply.json.into_bytes(), created_id };
    Ok(respond(reply, mapped, is_async, collection_path(&parts.uri, 3), memory.unwrap_or_default()))
}

/// Returns the id of the item that a reply describes.
fn created_id(reply: &str) -> Option<String> {
    let reply: Value = serde_json::from_str(reply).ok()?;
    let id = ["node_id", "graph_id", "name"].iter().find_map(|name| reply[name].as_str());
    id.map(str::to_string)
}

/// Lists the machines, without connecting to them.
async fn list(State(site): State<SiteState>) -> Result<Response, Problem> {
    let machines = site.relay.as_ref().map(|relay| relay.list()).transpose();
    let machines = machines.map_err(unlisted)?;
    Ok(json_body(json!({ "machines": machines }).to_string()))
}

/// Switches to a WebSocket that receives the events of a machine. Events from before are not sent. The WebSocket is accepted before the
/// connection to the machine is made: browsers open no other one to this server meanwhile (RFC 6455, section 4.1).
async fn events(
    State(site): State<SiteState>,
    Path(machine): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    role::check_permission(RequestName::Subscribe).map_err(Problem::permission_denied)?;
    let (mut parts, _) = request.into_parts();
    let query = query::read(query::MACHINE_EVENTS, &raw_query(&parts.uri)?)?;
    let filter = serde_json::from_value(Value::Object(query));
    let filter = filter.map_err(|error| Problem::invalid(error.to_string()))?;
    check_filter(&filter).map_err(unlisted)?;
    let relay = relay_to(&site, &machine)?;
    let handshake = Handshake::read(&mut parts, &site).await;
    let handshake = handshake
        .map_err(|problem| problem.hint("the events of other machines need a WebSocket over HTTP/1.1"))?;
    let lines = event_lines(relay, machine, filter);
    let lines = lines.take_until(site.state.closing.clone().cancelled_owned()).boxed();
    Ok(handshake.accept(MAX_INPUT_BYTES, async move |socket, credential| {
        events_socket::run(socket, lines, credential).await;
    }))
}

/// Connects to a machine and returns its events that a filter selects.
fn event_lines(relay: Arc<MachineRelay>, machine: String, filter: Subscribe) -> EventLines {
    let connecting = async move {
        let events = MachineEvents::new(relay.connect(&machine).await?, filter);
        let start = json!({ "type": "start", "server": machine, "seq": 0 }).to_string();
        let lines = try_unfold(events, async |mut events: MachineEvents| {
            Ok::<_, MachineError>(Some((vec![events.next().await?], events)))
        });
        Ok::<_, MachineError>(iter([Ok(vec![start])]).chain(lines))
    };
    connecting.try_flatten_stream().map_err(|error| (close_code::AGAIN, error.message)).boxed()
}

/// Returns the relay, if this machine is in its list.
fn relay_to(site: &SiteState, machine: &str) -> Result<Arc<MachineRelay>, Problem> {
    let no_relay = || Problem::of_kind(ErrorKind::NotFound, "this server relays to no machines");
    let relay = site.relay.as_ref().ok_or_else(no_relay)?;
    relay.check(machine).map_err(unlisted)?;
    Ok(Arc::clone(relay))
}

/// Returns the problem of a machine that cannot be reached. Its status is never that of a missing node or of this server's own
/// credentials.
fn unreachable(MachineError { kind, message, hint }: MachineError) -> Problem {
    let is_busy = kind == ErrorKind::Busy;
    let status = if is_busy { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::BAD_GATEWAY };
    with_hint(Problem::new(status, kind, message), hint)
}

/// Returns the problem of a machine that is not in the list, or of a list that cannot be read.
fn unlisted(MachineError { kind, message, hint }: MachineError) -> Problem {
    with_hint(Problem::of_kind(kind, message), hint)
}

fn failed_request(error: RelayError) -> Problem {
    match error {
        RelayError::Machine(error) => unreachable(error),
        RelayError::Server(error) => {
            let failure = Failure { message: error.message.clone(), details: error.details.clone().into() };
            Problem::of(&failure, &Envelope::default())
        }
    }
}

fn with_hint(problem: Problem, hint: Option<String>) -> Problem {
    match hint {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}
