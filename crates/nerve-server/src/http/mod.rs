//! HTTP: the wire's commands as resources, events as SSE and over a WebSocket.
//!
//! | module | what it is |
//! |---|---|
//! | `operation`, `operations` | all that can be asked for, as a table |
//! | `gate` | who may come in: Host, Origin, token; what all answers have |
//! | `hosts` | under which names the server may be called |
//! | `resource` | commands of the wire as resources |
//! | `builtin` | what is no single command |
//! | `metrics` | numbers for Prometheus |
//! | `agentapi` | a node as agentapi shows an agent |
//! | [`mount`] | what other crates serve behind the same gate |
//! | `query`, `body`, `page` | parts of requests and answers, within bounds |
//! | `budget`, `body_guard` | the memory that bodies take, and how long they do |
//! | `sse`, `websocket` | events, and whole connections |
//! | `connection` | one client: HTTP/1.1 or HTTP/2, the closing_handle of both |
//! | `stream` | its bytes, before a protocol is chosen for them and after it |
//! | `plain` | HTTP in the clear where TLS is spoken |
//! | `idle_timeout`, `activity` | how long a connection may keep silent |
//! | `problem`, `request_id` | errors, and how a request is called |
//! | `document`, `docs_page` | the table as OpenAPI, and as a page |

mod activity;
mod agentapi;
mod body;
mod body_guard;
mod budget;
mod builtin;
mod connection;
mod docs_page;
mod document;
mod gate;
mod hosts;
mod idle_timeout;
mod metrics;
pub(crate) mod mount;
mod operation;
mod operations;
mod page;
pub(crate) mod plain;
mod problem;
mod query;
mod request_id;
mod resource;
mod sse;
mod stream;
mod websocket;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub(crate) use self::budget::Budget;
pub(crate) use self::connection::serve;
pub(crate) use self::document::document;
pub(crate) use self::gate::Gate;
pub(crate) use self::mount::{Closing, Mount};
use self::operation::{Does, Operation, Own};
use self::operations::OPERATIONS;
use self::resource::PathParams;
use crate::access::Authenticator;
use crate::metrics::Metrics;
use crate::server::Clients;
use crate::state::ServerState;

/// What is spoken inside TLS.
pub(crate) const PROTOCOLS: &[&[u8]] = &[b"h2", b"http/1.1"];

/// What HTTP needs to know beside what all connections share.
#[derive(Debug, Clone)]
pub(crate) struct HttpConfig {
    /// Names by which clients may call the server, beside those of loopback.
    pub(crate) names: Vec<String>,
    /// The folder of the recordings.
    pub(crate) recordings: PathBuf,
    /// What else is served.
    pub(crate) mounts: Vec<Mount>,
}

/// What all requests share.
#[derive(Debug, Clone)]
struct Shared {
    state: Arc<ServerState>,
    recordings: Arc<Path>,
    /// Who looks through the recordings.
    recordings_lock: Arc<Semaphore>,
    budget: Budget,
}

/// Everything that is served over HTTP.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    router: Router,
    closing: CancellationToken,
    /// Where its clients are counted.
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
        let closing_handle = Closing::new(closing.clone(), clients.tracker.clone());
        let gate_state = Gate::new(clients, authenticator, &setup.names, address.ip());
        let recordings = setup.recordings.as_path().into();
        let budget = Budget::new();
        let shared = Shared {
            state,
            recordings,
            recordings_lock: Arc::new(Semaphore::new(1)),
            budget: budget.clone(),
        };
        let mut router = Router::new();
        for operation in OPERATIONS {
            router = router.route(operation.path, route(operation));
        }
        let router = mount::all(router.with_state(shared), &setup.mounts, &closing_handle, &budget);
        Site { router: behind_gate(router, gate_state), closing, metrics }
    }

    /// Of mounts alone.
    pub(crate) fn of_mounts(gate_state: Gate, mounts: &[Mount], closing_handle: &Closing) -> Site {
        let router = mount::all(Router::new(), mounts, closing_handle, &Budget::new());
        Site { router: behind_gate(router, gate_state), closing: closing_handle.begun(), metrics: None }
    }
}

/// Nothing of it is reached but through the gate.
fn behind_gate(router: Router, gate_state: Gate) -> Router {
    router
        .fallback(gate::not_found)
        .method_not_allowed_fallback(gate::wrong_method)
        .layer(from_fn_with_state(gate_state, gate::gate))
}

fn route(operation: &'static Operation) -> MethodRouter<Shared> {
    let method = match operation.method {
        "POST" => MethodFilter::POST,
        "DELETE" => MethodFilter::DELETE,
        _ => MethodFilter::GET,
    };
    match &operation.does {
        Does::Command(mapped) => {
            on(method, move |state: State<Shared>, path: PathParams, request: Request| {
                resource::serve(mapped, state, path, request)
            })
        }
        Does::Own(what, _) => match what {
            Own::Metrics => on(method, metrics::serve),
            Own::Health => on(method, async || builtin::health()),
            Own::Document => on(method, async || resource::json_body(document())),
            Own::Page => on(method, async || -> Response { docs_page::page() }),
            Own::Line => on(method, builtin::raw_command),
            Own::Shutdown => on(method, builtin::shutdown),
            Own::Socket => on(method, websocket::serve),
            Own::Events => on(method, move |state: State<Shared>, request: Request| {
                sse::serve(operation, state, request)
            }),
            Own::AgentStatus | Own::AgentMessages | Own::AgentMessage | Own::AgentEvents => {
                on(method, move |state: State<Shared>, path: PathParams, request: Request| {
                    agentapi::serve(operation, *what, state, path, request)
                })
            }
            Own::Recordings => on(method, move |state: State<Shared>, request: Request| {
                builtin::recordings(operation, state, request)
            }),
        },
    }
}

#[cfg(test)]
impl Shared {
    /// With an engine that keeps its files below `folder`.
    fn of_test(folder: &Path) -> Shared {
        use nerve_core::engine::{Engine, EngineConfig};
        use nerve_core::node::factory::FactoryConfig;

        let nodes = FactoryConfig {
            server: "test".to_string(),
            history_dir: Some(folder.join("history")),
            profile_dir: None,
            hook_relay: None,
            hosting: None,
            panes: Default::default(),
            proxies: Default::default(),
        };
        let engine = Engine::new(EngineConfig { nodes, ..EngineConfig::default() });
        Shared {
            state: Arc::new(ServerState::new(engine)),
            recordings: folder.into(),
            recordings_lock: Arc::new(Semaphore::new(1)),
            budget: Budget::new(),
        }
    }
}
