//! Requests to the upstream.

use std::error::Error;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::body::AnyBody;
use crate::fault::Fault;
use crate::upstream::Upstream;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(30);

/// Why there is no reply.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) fault: Fault,
    /// The upstream may have had the request, and may take money for it.
    pub(crate) was_sent: bool,
}

/// Sends requests and keeps connections. Follows no redirect: a request with a key in it goes where it was sent.
#[derive(Debug)]
pub(crate) struct Client {
    client: legacy::Client<HttpsConnector<HttpConnector>, AnyBody>,
    patience: Duration,
}

impl Client {
    pub(crate) fn new(patience: Duration) -> Client {
        let mut http = HttpConnector::new();
        http.set_connect_timeout(Some(CONNECT));
        http.set_nodelay(true);
        http.enforce_http(false);
        let https = HttpsConnectorBuilder::new()
            .with_webpki_roots()
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(https);
        Client { client, patience }
    }

    /// Sends a request; gives the head of the reply. Dropping this gives the request up.
    ///
    /// # Errors
    /// 502 if the upstream cannot be reached or breaks off, 504 if it says nothing.
    pub(crate) async fn send(
        &self,
        request: Request<AnyBody>,
        upstream: &Upstream,
    ) -> Result<Response<Incoming>, Failed> {
        let base = upstream.as_str();
        match tokio::time::timeout(self.patience, self.client.request(request)).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => {
                let what = if error.is_connect() { "cannot be reached" } else { "broke off" };
                let fault = Fault::bad_gateway(format!("the upstream {base} {what}: {}", in_words(&error)));
                Err(Failed { fault, was_sent: !error.is_connect() })
            }
            Err(_) => {
                let seconds = self.patience.as_secs();
                let message = format!("the upstream {base} said nothing for {seconds} s");
                Err(Failed { fault: Fault::new(StatusCode::GATEWAY_TIMEOUT, message), was_sent: true })
            }
        }
    }
}

/// An error with what lies behind it: alone they say `client error (Connect)`.
pub(crate) fn in_words(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut behind = error.source();
    while let Some(cause) = behind {
        let cause_words = cause.to_string();
        if !words.ends_with(&cause_words) {
            words = format!("{words}: {cause_words}");
        }
        behind = cause.source();
    }
    words
}
