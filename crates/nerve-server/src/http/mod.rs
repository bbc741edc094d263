//! HTTP: the wire's commands as resources, events as SSE and over a WebSocket.
//!
//! | module | what it is |
//! |---|---|
//! | `operation`, `operations` | all that can be asked for, as a table |
//! | `gate` | who may come in: Host, Origin, token; what all answers have |
//! | `hosts` | under which names the server may be called |
//! | `resource` | commands of the wire as resources |
//! | `own` | what is no single command |
//! | `agentapi` | a node as agentapi shows an agent |
//! | `query`, `body`, `page` | parts of requests and answers, within bounds |
//! | `sse`, `socket` | events, and whole connections |
//! | `patience` | how long a connection may keep silent |
//! | `problem`, `request_id` | errors, and how a request is called |
//! | `document`, `readable` | the table as OpenAPI, and as a page |

mod agentapi;
mod body;
mod document;
mod gate;
mod hosts;
mod operation;
mod operations;
mod own;
mod page;
mod patience;
mod problem;
mod query;
mod readable;
mod request_id;
mod resource;
mod socket;
mod sse;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::sync::Semaphore;

pub(crate) use self::document::document;
use self::gate::Guest;
use self::hosts::Hosts;
use self::operation::{Does, Operation, Own};
use self::operations::OPERATIONS;
use self::patience::Patience;
use self::resource::PathParams;
use crate::access::Door;
use crate::connection::Link;
use crate::server::Clients;
use crate::serving::Serving;
use crate::tcp::Visitor;

/// The longest head, in bytes.
const HEAD: usize = 64 * 1024;
/// The most headers.
const HEADERS: usize = 64;
/// How long the rest of an answer may take when the server goes down.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// What HTTP needs to know beside what all connections share.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    /// Names by which clients may call the server, beside those of loopback.
    pub(crate) names: Vec<String>,
    /// The folder of the recordings.
    pub(crate) recordings: PathBuf,
}

/// What all requests share.
#[derive(Debug, Clone)]
struct Shared {
    serving: Arc<Serving>,
    clients: Clients,
    door: Arc<Door>,
    hosts: Arc<Hosts>,
    ids: Arc<request_id::Ids>,
    recordings: Arc<Path>,
    /// Who looks through the recordings.
    shelf: Arc<Semaphore>,
}

/// Everything that is served over HTTP.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    router: Router,
    serving: Arc<Serving>,
}

impl Site {
    pub(crate) fn new(
        serving: Arc<Serving>,
        clients: Clients,
        door: Arc<Door>,
        address: SocketAddr,
        setup: &Setup,
    ) -> Site {
        let shared = Shared {
            serving: serving.clone(),
            clients,
            door,
            hosts: Arc::new(Hosts::new(&setup.names, address.ip())),
            ids: Arc::new(request_id::Ids::new()),
            recordings: setup.recordings.as_path().into(),
            shelf: Arc::new(Semaphore::new(1)),
        };
        Site { router: router(shared), serving }
    }
}

/// Serves one connection until it is closed, or until the server closes.
pub(crate) async fn serve(visitor: Visitor, site: Site) {
    let Visitor { link, peer, stranger } = visitor;
    let closing = site.serving.closing.clone();
    let guest = Guest::new(peer.ip(), stranger);
    let Link { read, write, hung_up } = link;
    let io = TokioIo::new(tokio::io::join(read, write));
    let connection = {
        let (guest, patience) = (guest.clone(), Patience::new(guest.clone()));
        let router = TowerToHyperService::new(site.router);
        let service = service_fn(move |mut request: http::Request<Incoming>| {
            request.extensions_mut().insert(guest.clone());
            router.call(request)
        });
        http1::Builder::new()
            .timer(patience)
            .header_read_timeout(patience::STRANGERS)
            // Who sends no more may still wait for the answer: curl does not, `nc -N` and many a library do.
            .half_close(true)
            .max_buf_size(HEAD)
            .max_headers(HEADERS)
            .serve_connection(io, service)
            .with_upgrades()
    };
    {
        tokio::pin!(connection);
        let served = tokio::select! {
            biased;
            served = connection.as_mut() => served,
            // Nobody is there to be answered.
            () = hung_up => Ok(()),
            () = closing.cancelled() => {
                connection.as_mut().graceful_shutdown();
                tokio::time::timeout(LAST_PATIENCE, connection).await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = served {
            tracing::debug!(%peer, %error, "a connection broke");
        }
    }
    guest.sockets.close();
    guest.sockets.wait().await;
}

fn router(shared: Shared) -> Router {
    let mut router = Router::new();
    for operation in OPERATIONS {
        router = router.route(operation.path, route(operation));
    }
    router
        .fallback(gate::not_found)
        .method_not_allowed_fallback(gate::wrong_method)
        .layer(from_fn_with_state(shared.clone(), gate::gate))
        .with_state(shared)
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
