//! Requests over HTTP: the only way out of this crate. Model APIs of chat nodes, and webhooks.

use std::error::Error;
use std::sync::OnceLock;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);

/// Sends requests: `http://` and, with the public certificates, `https://`. Follows no redirect: a request with a key in it goes where
/// it was sent. Limits of time are the caller's.
pub(crate) type HttpClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

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

/// The client that all requests go through: it keeps connections.
pub(crate) fn client() -> HttpClient {
    static CLIENT: OnceLock<HttpClient> = OnceLock::new();
    CLIENT
        .get_or_init(|| {
            let mut http = HttpConnector::new();
            http.set_connect_timeout(Some(CONNECT));
            http.enforce_http(false);
            let https = HttpsConnectorBuilder::new()
                .with_webpki_roots()
                .https_or_http()
                .enable_http1()
                .wrap_connector(http);
            Client::builder(TokioExecutor::new()).build(https)
        })
        .clone()
}
