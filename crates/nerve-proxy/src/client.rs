//! Requests to the upstream.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use hyper::body::{Bytes, Incoming};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;

use crate::api_error::Fault;
use crate::body::{self, AnyBody};
use crate::connection_limit;
use crate::error::ProxyError;
use crate::pool::{self, Lanes};
use crate::request_body::Arriving;
use crate::root_certs::Authorities;
use crate::upstream::Upstream;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(30);
/// HTTP/2: how often an upstream is asked whether it is there while it owes an answer, and how long it may take to say so.
const ALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));
/// HTTP/2: what an upstream may send of one answer before its client has taken it, in bytes.
const WINDOW: u32 = 256 << 10;
/// HTTP/2: the longest head of a reply, in bytes.
const HEAD: u32 = 64 << 10;
/// HTTP/2: how often a request is sent that the upstream refuses to look at.
const TRIES: usize = 3;

/// Why there is no reply.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) fault: Fault,
    /// The upstream may have had the request, and may take money for it.
    pub(crate) was_sent: bool,
}

type Lane = legacy::Client<HttpsConnector<HttpConnector>, AnyBody>;

/// Sends requests and keeps connections: HTTP/2 where an upstream with TLS speaks it, HTTP/1.1 else. Follows no redirect: a request with
/// a key in it goes where it was sent.
#[derive(Debug)]
pub(crate) struct Client {
    lanes: Lanes<Lane>,
    patience: Duration,
}

impl Client {
    /// With `authorities` an upstream is believed by their word alone, else by that of the usual ones.
    pub(crate) fn new(patience: Duration, authorities: Option<&Authorities>) -> Result<Client, ProxyError> {
        let mut http = HttpConnector::new();
        http.set_connect_timeout(Some(CONNECT));
        http.set_nodelay(true);
        http.enforce_http(false);
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls(authorities)?)
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(http);
        let lanes = Lanes::new(connection_limit::MOST, || lane(https.clone()));
        Ok(Client { lanes, patience })
    }

    /// Sends a request; gives the head of the reply. Dropping this gives the request up.
    ///
    /// # Errors
    /// 502 if the upstream cannot be reached or breaks off, 504 if it says nothing.
    pub(crate) async fn send(
        &self,
        request: Request<Bytes>,
        upstream: &Upstream,
    ) -> Result<Response<Arriving>, Failed> {
        let base = upstream.as_str();
        let (lane, ticket) = self.lanes.take();
        match tokio::time::timeout(self.patience, insist(lane, request)).await {
            Ok(Ok(reply)) => Ok(Arriving::reply(reply, ticket)),
            Ok(Err(error)) => {
                let was_refused = is_refused(&error);
                let what = match error.is_connect() {
                    true => "cannot be reached",
                    false if was_refused => "refused the request",
                    false => "broke off",
                };
                let fault = Fault::bad_gateway(format!("the upstream {base} {what}: {}", in_words(&error)));
                Err(Failed { fault, was_sent: !error.is_connect() && !was_refused })
            }
            Err(_) => {
                let seconds = self.patience.as_secs();
                let message = format!("the upstream {base} said nothing for {seconds} s");
                Err(Failed { fault: Fault::new(StatusCode::GATEWAY_TIMEOUT, message), was_sent: true })
            }
        }
    }
}

fn tls(authorities: Option<&Authorities>) -> Result<ClientConfig, ProxyError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| ProxyError::Setting("this build of nerve has no TLS that its rustls takes for safe"))?;
    let builder = match authorities {
        Some(authorities) => builder.with_root_certificates(authorities.roots()),
        None => builder.with_webpki_roots(),
    };
    Ok(builder.with_no_client_auth())
}

fn lane(https: HttpsConnector<HttpConnector>) -> Lane {
    // The window of a connection has room for those of all its streams: a client that does not read keeps no other one waiting.
    const ALL: u32 = WINDOW * pool::EACH as u32;
    legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .http2_initial_stream_window_size(WINDOW)
        .http2_initial_connection_window_size(ALL)
        .http2_max_header_list_size(HEAD)
        .http2_keep_alive_interval(ALIVE.0)
        .http2_keep_alive_timeout(ALIVE.1)
        .build(https)
}

/// Sends a request again that was refused before it was looked at: the upstream has too many, or is about to go down (RFC 9113 §8.7).
async fn insist(lane: &Lane, request: Request<Bytes>) -> Result<Response<Incoming>, legacy::Error> {
    for _ in 1..TRIES {
        match lane.request(request.clone().map(body::full)).await {
            Err(error) if is_refused(&error) => {
                tracing::debug!("the upstream refused a stream: its request is sent again");
            }
            done => return done,
        }
    }
    lane.request(request.map(body::full)).await
}

/// Whether the upstream did not look at the request, by its own word.
fn is_refused(error: &(dyn Error + 'static)) -> bool {
    let mut behind = Some(error);
    while let Some(error) = behind {
        if let Some(told) = error.downcast_ref::<h2::Error>() {
            return told.is_remote() && told.is_reset() && told.reason() == Some(h2::Reason::REFUSED_STREAM);
        }
        behind = error.source();
    }
    false
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
