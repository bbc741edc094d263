//! Services of other crates behind this server's HTTP gate, each at its own path.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::any;
use http_body_util::Full;
use hyper::body::Bytes;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::body::{self, ReceivedBody};
use super::budget::Budget;
use super::problem::Problem;
use crate::web::role;

/// A request with its complete body, within the limits of size and time.
pub type BufferedRequest = http::Request<Full<Bytes>>;

type ResponseFuture = Pin<Box<dyn Future<Output = Response> + Send>>;
type Service = Arc<dyn Fn(BufferedRequest) -> ResponseFuture + Send + Sync>;

/// A service at a path. Its requests are authenticated and checked: host, origin, token, size of head and body.
#[derive(Clone)]
pub struct Mount {
    path: &'static str,
    make: Arc<dyn Fn(ShutdownSignal) -> Service + Send + Sync>,
}

/// The shutdown of a server, as its services see it.
#[derive(Debug, Clone)]
pub struct ShutdownSignal {
    begun: CancellationToken,
    waited_for: TaskTracker,
}

impl ShutdownSignal {
    pub(crate) fn new(begun: CancellationToken, waited_for: TaskTracker) -> ShutdownSignal {
        ShutdownSignal { begun, waited_for }
    }

    /// Returns a token that is cancelled when the server closes: streaming responses must end then.
    pub fn begun(&self) -> CancellationToken {
        self.begun.clone()
    }

    /// Makes the shutdown wait for `last`, no longer than for clients. Tasks of a service can finish before the runtime ends.
    pub fn wait_for(&self, last: impl Future<Output = ()> + Send + 'static) {
        self.waited_for.spawn(last);
    }
}

impl fmt::Debug for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mount").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Mount {
    /// Mounts a service at `path`, which begins with `/`, for all methods. `make` is called once per server,
    /// within its runtime, with a handle to the server's shutdown.
    pub fn new<S, F, B>(
        path: &'static str,
        make: impl Fn(ShutdownSignal) -> S + Send + Sync + 'static,
    ) -> Mount
    where
        S: Fn(BufferedRequest) -> F + Send + Sync + 'static,
        F: Future<Output = http::Response<B>> + Send + 'static,
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let make = move |closing| {
            let service = make(closing);
            let answer = move |request| -> ResponseFuture {
                let answering = service(request);
                Box::pin(async move { answering.await.map(Body::new) })
            };
            Arc::new(answer) as Service
        };
        Mount { path, make: Arc::new(make) }
    }
}

/// Adds the mounts to a router.
pub(super) fn all(mut router: Router, mounts: &[Mount], closing: &ShutdownSignal, budget: &Budget) -> Router {
    for mount in mounts {
        let service = (mount.make)(closing.clone());
        let budget = budget.clone();
        let answer = move |request: Request| {
            let (service, budget) = (service.clone(), budget.clone());
            async move { serve(&service, request, &budget).await }
        };
        router = router.route(mount.path, any(answer));
    }
    router
}

async fn serve(service: &Service, request: Request, budget: &Budget) -> Result<Response, Problem> {
    if role::current_role().is_some() {
        return Err(Problem::forbidden("this path needs the token, not a web session"));
    }
    let (parts, body) = request.into_parts();
    let ReceivedBody { bytes: whole, memory: _memory } = body::read(body, budget).await?;
    Ok(service(http::Request::from_parts(parts, Full::from(whole))).await)
}
