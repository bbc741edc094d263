//! Sends requests to the upstream.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use hyper::body::{Bytes, Incoming};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use nerve_llm::http_client::{connector, error_chain};
use rustls::ClientConfig;

use crate::api_error::ApiError;
use crate::body::{self, DynBody};
use crate::connection;
use crate::error::ProxyError;
use crate::network_body::NetworkBody;
use crate::pool::{self, ConnectionPool};
use crate::root_certs::RootCerts;
use crate::upstream::Upstream;

/// Idle connections are closed after this time.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// HTTP/2: ping interval while an answer is pending, and time limit for the reply to a ping.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));
/// HTTP/2: flow-control window of one stream, in bytes.
const STREAM_WINDOW: u32 = 256 << 10;
/// HTTP/2: maximum size of a response head, in bytes.
const MAX_HEAD: u32 = 64 << 10;
/// HTTP/2: attempts to send a request that the upstream refuses without processing it.
const MAX_ATTEMPTS: usize = 3;

/// Reason why a request got no response.
#[derive(Debug)]
pub(crate) struct SendError {
    pub(crate) error: ApiError,
    /// The upstream may have received the request, and may charge for it.
    pub(crate) was_sent: bool,
}

/// Unlike [`nerve_llm::http_client::HttpClient`], it streams request bodies, speaks HTTP/2 and takes other root certificates.
type HttpClient = legacy::Client<HttpsConnector<HttpConnector>, DynBody>;

/// Sends requests and keeps connections open: HTTP/2 if a TLS upstream supports it, otherwise HTTP/1.1. Never follows
/// redirects, because requests contain a key.
#[derive(Debug)]
pub(crate) struct Client {
    pool: ConnectionPool<HttpClient>,
    timeout: Duration,
}

impl Client {
    /// Creates a client. `root_certs` replaces the built-in root certificates.
    pub(crate) fn new(timeout: Duration, root_certs: Option<&RootCerts>) -> Result<Client, ProxyError> {
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls(root_certs)?)
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(connector());
        let pool = ConnectionPool::new(connection::MAX_ACTIVE, || client(https.clone()));
        Ok(Client { pool, timeout })
    }

    /// Sends a request and returns the head of its response. Dropping the future cancels the request.
    ///
    /// # Errors
    /// 502 if the upstream cannot be reached or closes the connection, 504 if it does not answer in time.
    pub(crate) async fn send(
        &self,
        request: Request<Bytes>,
        upstream: &Upstream,
    ) -> Result<Response<NetworkBody>, SendError> {
        let base = upstream.as_str();
        let (client, permit) = self.pool.acquire();
        match tokio::time::timeout(self.timeout, send_with_retries(client, request)).await {
            // The proxy requests no upgrade, and could relay nothing after it.
            Ok(Ok(response)) if response.status().is_informational() => {
                let message =
                    format!("the upstream {base} sent the status {} without a request", response.status());
                Err(SendError { error: ApiError::bad_gateway(message), was_sent: true })
            }
            Ok(Ok(response)) => Ok(NetworkBody::from_response(response, permit)),
            Ok(Err(error)) => {
                let was_refused = is_refused(&error);
                let what = match error.is_connect() {
                    true => "cannot be reached",
                    false if was_refused => "refused the request",
                    false => "closed the connection",
                };
                let message = format!("the upstream {base} {what}: {}", error_chain(&error));
                let was_sent = !error.is_connect() && !was_refused;
                Err(SendError { error: ApiError::bad_gateway(message), was_sent })
            }
            Err(_) => {
                let seconds = self.timeout.as_secs();
                let message = format!("the upstream {base} sent no answer within {seconds} s");
                Err(SendError { error: ApiError::new(StatusCode::GATEWAY_TIMEOUT, message), was_sent: true })
            }
        }
    }
}

fn tls(root_certs: Option<&RootCerts>) -> Result<ClientConfig, ProxyError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| ProxyError::Setting("rustls supports no safe TLS version in this build"))?;
    let builder = match root_certs {
        Some(root_certs) => builder.with_root_certificates(root_certs.roots()),
        None => builder.with_webpki_roots(),
    };
    Ok(builder.with_no_client_auth())
}

fn client(https: HttpsConnector<HttpConnector>) -> HttpClient {
    // The connection's window has room for the windows of all its streams: a client that does not read never blocks
    // another.
    const CONNECTION_WINDOW: u32 = STREAM_WINDOW * pool::STREAMS_PER_CONNECTION as u32;
    legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_max_header_list_size(MAX_HEAD)
        .http2_keep_alive_interval(KEEP_ALIVE.0)
        .http2_keep_alive_timeout(KEEP_ALIVE.1)
        .build(https)
}

/// Sends a request, and sends it again if the upstream refused it unprocessed because of too many streams or a shutdown
/// (RFC 9113 §8.7).
async fn send_with_retries(
    client: &HttpClient,
    request: Request<Bytes>,
) -> Result<Response<Incoming>, legacy::Error> {
    for _ in 1..MAX_ATTEMPTS {
        match client.request(request.clone().map(body::full)).await {
            Err(error) if is_refused(&error) => {
                tracing::debug!("retrying a request that the upstream refused");
            }
            done => return done,
        }
    }
    client.request(request.map(body::full)).await
}

/// Returns true if the upstream reports that it did not process the request.
fn is_refused(error: &(dyn Error + 'static)) -> bool {
    let mut source = Some(error);
    while let Some(error) = source {
        if let Some(reset) = error.downcast_ref::<h2::Error>() {
            return reset.is_remote()
                && reset.is_reset()
                && reset.reason() == Some(h2::Reason::REFUSED_STREAM);
        }
        source = error.source();
    }
    false
}
