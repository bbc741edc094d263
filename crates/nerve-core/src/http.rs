//! Requests over HTTP: the only way out of this crate. Model APIs of chat nodes, webhooks, and what others send through it.

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

/// Sends a request and reads its answer, `most` bytes of it: a longer one is an error. Limits of time are the caller's.
///
/// # Errors
/// What keeps us from the answer, for people.
pub async fn send(request: Request<Bytes>, most: usize) -> Result<Response<Bytes>, String> {
    let answer = client().request(request.map(Full::new)).await.map_err(|error| in_words(&error))?;
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, most).collect().await.map_err(|error| error.to_string())?;
    Ok(Response::from_parts(head, body.to_bytes()))
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
