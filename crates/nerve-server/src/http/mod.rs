//! The HTTP interface: commands as resources, events over SSE, and the line protocol over a WebSocket.
//!
//! | module | contents |
//! |---|---|
//! | `operation`, `operations` | the table of operations |
//! | `gate` | the middleware: Host, Origin, token, common headers |
//! | `resource`, `reply` | commands as resources, and their replies |
//! | `builtin` | operations that are not a single command |
//! | `metrics` | the metrics page |
//! | `agentapi` | the compatibility layer for agentapi |
//! | `openai` | nodes as models of OpenAI's Chat Completions API |
//! | [`mount`] | services of other crates behind the same gate |
//! | `machines` | the operations of other machines |
//! | `query`, `body`, `page` | query strings, request bodies, pagination |
//! | `budget`, `body_guard` | limits the memory of bodies |
//! | `event_stream`, `sse`, `events_socket` | events, over both transports |
//! | `websocket`, `terminal_socket` | whole connections, and terminals |
//! | `connection`, `connection_auth` | one client over HTTP/1.1 or HTTP/2, and its authentication |
//! | `stream` | version detection and draining of a client's stream |
//! | `plaintext` | plain HTTP on a TLS port |
//! | `idle_timeout`, `activity` | closes idle and stalled connections |
//! | `problem`, `request_id` | errors and request ids |
//! | `openapi`, `docs_page` | the table as OpenAPI and as a page |

mod activity;
mod agentapi;
mod body;
mod body_guard;
mod budget;
mod builtin;
mod connection;
mod connection_auth;
mod docs_page;
mod event_stream;
mod events_socket;
mod gate;
mod idle_timeout;
mod machines;
mod metrics;
pub(crate) mod mount;
mod openai;
mod openapi;
mod operation;
mod operations;
pub(crate) mod plaintext;
mod problem;
pub(crate) mod query;
mod reply;
mod request_id;
mod resource;
mod sse;
mod stream;
mod terminal_socket;
mod websocket;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{MethodRouter, on};
use http::StatusCode;
use nerve_api::ErrorKind;
use nerve_machine::relay::MachineRelay;
use tokio_util::sync::CancellationToken;

pub(crate) use self::body::read_small;
pub(crate) use self::budget::Budget;
pub(crate) use self::connection::serve;
pub(crate) use self::connection_auth::ConnectionAuth;
pub(crate) use self::gate::{Gate, not_found};
pub(crate) use self::mount::{Mount, ShutdownSignal};
use self::openai::ChatEndpoint;
pub(crate) use self::openapi::document;
use self::operation::{Builtin, Handler, Operation};
use self::operations::OPERATIONS;
pub(crate) use self::problem::Problem;
use self::resource::PathParams;
pub(crate) use self::resource::{json_body, raw_query};
use crate::access::Authenticator;
use crate::clients::Clients;
use crate::metrics::Metrics;
use crate::state::ServerState;
use crate::web::{self, Web};

/// Protocols offered to TLS clients.
pub(crate) const PROTOCOLS: &[&[u8]] = &[b"h2", b"http/1.1"];

/// Encodes the response to a connection that is not served.
pub(crate) fn refusal(message: &str) -> Vec<u8> {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, ErrorKind::Busy, message).raw_response()
}

/// Configuration of the HTTP interface.
#[derive(Debug, Clone)]
pub(crate) struct HttpConfig {
    /// Host names accepted in addition to those of loopback.
    pub(crate) names: Vec<String>,
    /// Further services.
    pub(crate) mounts: Vec<Mount>,
    /// The web console.
    pub(crate) web: Arc<Web>,
    /// The settings of the interface for clients of OpenAI's API.
    pub(crate) openai: PathBuf,
    /// The machines whose nodes clients may use, if any.
    pub(crate) relay: Option<Arc<MachineRelay>>,
}

/// State of a site that all its handlers share.
#[derive(Debug, Clone)]
struct SiteState {
    state: Arc<ServerState>,
    budget: Budget,
    openai: Arc<ChatEndpoint>,
    relay: Option<Arc<MachineRelay>>,
}

/// The router behind the gate.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    router: Router,
    closing: CancellationToken,
    /// Counts connections, if there is a server.
    metrics: Option<Arc<Metrics>>,
}

impl Site {
    pub(crate) fn new(
        state: Arc<ServerState>,
        clients: Clients,
        authenticator: Arc<Authenticator>,
        address: SocketAddr,
        setup: &HttpConfig,
    ) -> Site {
        let (closing, metrics) = (state.closing.clone(), Some(state.hub.metrics.clone()));
        let closing_handle = ShutdownSignal::new(closing.clone(), clients.tracker.clone());
        let gate_state =
            Gate::new(clients, authenticator.clone(), &setup.names, address.ip()).with_web(setup.web.clone());
        let budget = Budget::new();
        let web = web::router(setup.web.clone(), authenticator, setup.relay.is_some());
        let openai = Arc::new(ChatEndpoint::new(setup.openai.clone()));
        let relay = setup.relay.clone();
        let mut router = relay.as_ref().map_or_else(Router::new, |_| machines::router(OPERATIONS));
        let site = SiteState { state, budget: budget.clone(), openai, relay };
        for operation in OPERATIONS {
            router = router.route(operation.path, route(operation));
        }
        let router = router.with_state(site).merge(web);
        let router = mount::all(router, &setup.mounts, &closing_handle, &budget);
        Site { router: add_gate(router, gate_state), closing, metrics }
    }

    /// Creates a site with mounts only.
    pub(crate) fn with_mounts_only(
        gate_state: Gate,
        mounts: &[Mount],
        closing_handle: &ShutdownSignal,
    ) -> Site {
        let router = mount::all(Router::new(), mounts, closing_handle, &Budget::new());
        Site { router: add_gate(router, gate_state), closing: closing_handle.begun(), metrics: None }
    }
}

/// Puts the gate in front of all routes.
fn add_gate(router: Router, gate_state: Gate) -> Router {
    router
        .fallback(gate::not_found)
        .method_not_allowed_fallback(gate::wrong_method)
        .layer(from_fn_with_state(gate_state, gate::gate))
}

fn route(operation: &'static Operation) -> MethodRouter<SiteState> {
    let method = operation.method();
    match &operation.handler {
        Handler::Request(mapped) => {
            on(method, move |state: State<SiteState>, path: PathParams, request: Request| {
                resource::serve(mapped, state, path, request)
            })
        }
        Handler::Builtin(which, _) => match which {
            Builtin::Metrics => on(method, metrics::serve),
            Builtin::Health => on(method, async || builtin::health()),
            Builtin::Document => on(method, async || resource::json_body(document())),
            Builtin::Page => on(method, async || -> Response { docs_page::render() }),
            Builtin::RawCommand => on(method, builtin::raw_command),
            Builtin::Shutdown => on(method, builtin::shutdown),
            Builtin::Socket => on(method, websocket::serve),
            Builtin::Terminal => {
                on(method, move |state: State<SiteState>, path: PathParams, request: Request| {
                    terminal_socket::serve(operation, state, path, request)
                })
            }
            Builtin::Events => on(method, async move |state: State<SiteState>, request: Request| {
                match gate::is_websocket_upgrade(request.headers()) {
                    true => events_socket::serve(operation, state, request).await,
                    false => sse::serve(operation, state, request).await,
                }
            }),
            Builtin::AgentStatus | Builtin::AgentMessages | Builtin::AgentMessage | Builtin::AgentEvents => {
                on(method, move |state: State<SiteState>, path: PathParams, request: Request| {
                    agentapi::serve(operation, *which, state, path, request)
                })
            }
            Builtin::Models | Builtin::Model | Builtin::ChatCompletion => {
                on(method, move |state: State<SiteState>, path: PathParams, request: Request| {
                    openai::serve(*which, state, path, request)
                })
            }
        },
    }
}

#[cfg(test)]
impl SiteState {
    /// Creates the state with an engine that keeps its files below `folder`.
    fn for_test(folder: &std::path::Path) -> SiteState {
        use nerve_engine::{Engine, EngineConfig};
        use nerve_node::factory::FactoryConfig;

        let history_dir = Some(folder.join("history"));
        let nodes = FactoryConfig { server: "test".to_string(), history_dir, ..FactoryConfig::default() };
        let engine = Engine::new(EngineConfig { nodes, ..EngineConfig::default() });
        let openai = Arc::new(ChatEndpoint::new(folder.join("openai.toml")));
        SiteState { state: Arc::new(ServerState::new(engine)), budget: Budget::new(), openai, relay: None }
    }
}
