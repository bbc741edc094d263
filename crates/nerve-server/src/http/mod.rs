//! HTTP: the wire's commands as resources, events as SSE and over a WebSocket.
//!
//! | module | what it is |
//! |---|---|
//! | `operation`, `operations` | all that can be asked for, as a table |
//! | `gate` | who may come in: Host, Origin, token; what all answers have |
//! | `hosts` | under which names the server may be called |
//! | `resource` | commands of the wire as resources |
//! | `own` | what is no single command |
//! | `metrics` | numbers for Prometheus |
//! | `agentapi` | a node as agentapi shows an agent |
//! | [`mount`] | what other crates serve behind the same gate |
//! | `query`, `body`, `page` | parts of requests and answers, within bounds |
//! | `budget`, `holding` | the memory that bodies take, and how long they do |
//! | `sse`, `socket` | events, and whole connections |
//! | `connection` | one client: HTTP/1.1 or HTTP/2, the end of both |
//! | `stream` | its bytes, before a protocol is chosen for them and after it |
//! | `plain` | HTTP in the clear where TLS is spoken |
//! | `patience`, `activity` | how long a connection may keep silent |
//! | `problem`, `request_id` | errors, and how a request is called |
//! | `document`, `readable` | the table as OpenAPI, and as a page |

mod activity;
mod agentapi;
mod body;
mod budget;
mod connection;
mod document;
mod gate;
mod holding;
mod hosts;
mod metrics;
pub(crate) mod mount;
mod operation;
mod operations;
mod own;
mod page;
mod patience;
pub(crate) mod plain;
mod problem;
mod query;
mod readable;
mod request_id;
mod resource;
mod socket;
mod sse;
mod stream;

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
pub(crate) use self::gate::Gatekeeper;
pub(crate) use self::mount::{Closing, Mount};
use self::operation::{Does, Operation, Own};
use self::operations::OPERATIONS;
use self::resource::PathParams;
use crate::access::Door;
use crate::metrics::Metrics;
use crate::server::Clients;
use crate::serving::Serving;

/// What is spoken inside TLS.
pub(crate) const PROTOCOLS: &[&[u8]] = &[b"h2", b"http/1.1"];

/// What HTTP needs to know beside what all connections share.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
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
    serving: Arc<Serving>,
    recordings: Arc<Path>,
    /// Who looks through the recordings.
    shelf: Arc<Semaphore>,
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
        serving: Arc<Serving>,
        clients: Clients,
        door: Arc<Door>,
        address: SocketAddr,
        setup: &Setup,
    ) -> Site {
        let (closing, metrics) = (serving.closing.clone(), Some(serving.hub.metrics.clone()));
        let end = Closing::new(closing.clone(), clients.tracker.clone());
        let keeper = Gatekeeper::new(clients, door, &setup.names, address.ip());
        let recordings = setup.recordings.as_path().into();
        let budget = Budget::new();
        let shared =
            Shared { serving, recordings, shelf: Arc::new(Semaphore::new(1)), budget: budget.clone() };
        let mut router = Router::new();
        for operation in OPERATIONS {
            router = router.route(operation.path, route(operation));
        }
        let router = mount::all(router.with_state(shared), &setup.mounts, &end, &budget);
        Site { router: guarded(router, keeper), closing, metrics }
    }

    /// Of mounts alone.
    pub(crate) fn of_mounts(keeper: Gatekeeper, mounts: &[Mount], end: &Closing) -> Site {
        let router = mount::all(Router::new(), mounts, end, &Budget::new());
        Site { router: guarded(router, keeper), closing: end.begun(), metrics: None }
    }
}

/// Nothing of it is reached but through the gate.
fn guarded(router: Router, keeper: Gatekeeper) -> Router {
    router
        .fallback(gate::not_found)
        .method_not_allowed_fallback(gate::wrong_method)
        .layer(from_fn_with_state(keeper, gate::gate))
}

fn route(operation: &'static Operation) -> MethodRouter<Shared> {
    let method = match operation.method {
        "POST" => MethodFilter::POST,
        "DELETE" => MethodFilter::DELETE,
        _ => MethodFilter::GET,
    };
    match &operation.does {
        Does::Request(mapped) => {
            on(method, move |state: State<Shared>, path: PathParams, request: Request| {
                resource::serve(mapped, state, path, request)
            })
        }
        Does::Own(what, _) => match what {
            Own::Metrics => on(method, metrics::serve),
            Own::Health => on(method, async || own::health()),
            Own::Document => on(method, async || resource::json_body(document())),
            Own::Page => on(method, async || -> Response { readable::page() }),
            Own::Line => on(method, own::any),
            Own::Shutdown => on(method, own::shutdown),
            Own::Socket => on(method, socket::serve),
            Own::Events => on(method, move |state: State<Shared>, request: Request| {
                sse::serve(operation, state, request)
            }),
            Own::AgentStatus | Own::AgentMessages | Own::AgentMessage | Own::AgentEvents => {
                on(method, move |state: State<Shared>, path: PathParams, request: Request| {
                    agentapi::serve(operation, *what, state, path, request)
                })
            }
            Own::Recordings => on(method, move |state: State<Shared>, request: Request| {
                own::recordings(operation, state, request)
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
            serving: Arc::new(Serving::new(engine)),
            recordings: folder.into(),
            shelf: Arc::new(Semaphore::new(1)),
            budget: Budget::new(),
        }
    }
}
