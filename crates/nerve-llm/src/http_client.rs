//! The HTTP client for model APIs, webhooks and trace exports.

use std::error::Error;
use std::sync::OnceLock;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// Time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The client for `http://` and `https://` with public root certificates. It follows no redirects, which could leak keys.
/// Callers set timeouts. `nerve-proxy` has a client of its own: it streams request bodies, speaks HTTP/2 and takes other root
/// certificates.
pub type HttpClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Formats an error with its causes; hyper's own message is only `client error (Connect)`.
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// Sends a request and reads at most `limit` bytes of the response; more is an error. Callers set timeouts.
///
/// # Errors
/// Reason for a missing response, for people.
pub async fn send(request: Request<Bytes>, limit: usize) -> Result<Response<Bytes>, String> {
    let response = client().request(request.map(Full::new)).await.map_err(|error| error_chain(&error))?;
    let (head, body) = response.into_parts();
    let body = Limited::new(body, limit).collect().await.map_err(|error| error.to_string())?;
    Ok(Response::from_parts(head, body.to_bytes()))
}

/// Returns the shared client, which reuses connections.
pub fn client() -> HttpClient {
    static CLIENT: OnceLock<HttpClient> = OnceLock::new();
    CLIENT
        .get_or_init(|| {
            let https = HttpsConnectorBuilder::new()
                .with_webpki_roots()
                .https_or_http()
                .enable_http1()
                .wrap_connector(connector());
            Client::builder(TokioExecutor::new()).build(https)
        })
        .clone()
}

/// Creates the connector of all clients.
pub fn connector() -> HttpConnector {
    let mut http = HttpConnector::new();
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    http.set_nodelay(true);
    http.enforce_http(false);
    http
}
