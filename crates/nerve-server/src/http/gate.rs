//! The middleware in front of all routes: checks Host, Origin, and token or session before the body is read.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::stream::once;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use nerve_api::ErrorKind;
use nerve_llm::request_host::{self, AllowedHosts};

use super::connection_auth::ConnectionAuth;
use super::openai;
use super::operations;
use super::problem::Problem;
use super::request_id::{self, RequestId};
use crate::access::{Authenticator, Credential};
use crate::client_origin;
use crate::clients::Clients;
use crate::web::{self, CacheForever, Web, role};

/// Maximum size of path, query and headers together in bytes. hyper rejects heads that are even longer.
const MAX_HEAD_BYTES: usize = 32 * 1024;
/// Maximum number of headers.
pub(super) const MAX_HEADERS: usize = 64;
/// The WebSocket subprotocol of the server.
const PROTOCOL: &str = "nerve";
/// Prefix of the WebSocket subprotocol that carries the token: browsers cannot set headers on a WebSocket.
const TOKEN_PROTOCOL: &str = "nerve.token.";

/// The state of the middleware.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    pub(super) clients: Clients,
    pub(super) authenticator: Arc<Authenticator>,
    pub(super) hosts: Arc<AllowedHosts>,
    pub(super) ids: Arc<request_id::IdGenerator>,
    /// The web console, whose sessions are accepted too.
    web: Option<Arc<Web>>,
}

impl Gate {
    /// Creates the gate. `names`: host names of the server at `address`, in addition to those of loopback.
    pub(crate) fn new(
        clients: Clients,
        authenticator: Arc<Authenticator>,
        names: &[String],
        address: IpAddr,
    ) -> Gate {
        let hosts = Arc::new(AllowedHosts::new(names, address));
        Gate { clients, authenticator, hosts, ids: Arc::new(request_id::IdGenerator::new()), web: None }
    }

    /// Accepts the sessions of a web console too.
    pub(crate) fn with_web(self, web: Arc<Web>) -> Gate {
        Gate { web: Some(web), ..self }
    }
}

/// Checks a request, runs it, and sets the common headers of the response.
pub(crate) async fn gate(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let id = gate.ids.assign(&parts.headers);
    let (method, path, version) = (parts.method.clone(), parts.uri.path().to_string(), parts.version);
    let auth = parts.extensions.get::<ConnectionAuth>().cloned();
    let admitted = match &auth {
        Some(auth) => admit(&gate, auth, &parts).await,
        None => Err(Problem::internal("request without a connection: this is a bug in nerve")),
    };
    let (response, credential) = match admitted {
        Ok(credential) => {
            parts.extensions.insert(credential.clone());
            let role = credential.as_ref().and_then(Credential::role);
            let origin = client_origin::in_session(credential.as_ref().and_then(Credential::session_id));
            let served = role::with_role(role, next.run(Request::from_parts(parts, body)));
            (client_origin::scope(origin, served).await, credential)
        }
        Err(problem) => (problem.into_response(), None),
    };
    let is_head = method == Method::HEAD;
    let mut response = finish_response(response, &id, &path, is_head);
    if let Some(auth) = &auth
        && let Some(credential) = credential
    {
        response = end_when_revoked(response, credential, auth.clone());
    }
    if version >= Version::HTTP_2 {
        // HTTP/2 has no Connection header.
        response.headers_mut().remove(header::CONNECTION);
        // HTTP/2 allows many requests at a time. A client that guesses tokens has to reconnect for each batch.
        let refused = matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS);
        if let (true, Some(auth)) = (refused, auth) {
            auth.close();
        }
    }
    tracing::debug!(%id, %method, path, status = response.status().as_u16(), "answered");
    response
}

/// Ends an event stream, and then its connection, when the credential is revoked.
fn end_when_revoked(response: Response, credential: Credential, auth: ConnectionAuth) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) {
        return response;
    }
    response.map(|body| {
        let reason = Arc::new(OnceLock::new());
        let (ended, revoked) = (reason.clone(), credential.wait_for_revocation());
        let stream = body.into_data_stream().take_until(async move {
            let _ = ended.set(revoked.await);
            auth.close();
        });
        let error_event = async move {
            let error = reason.get()?;
            let message =
                serde_json::json!({ "type": "error", "error": error, "error_type": ErrorKind::Authentication, "request_id": null });
            Some(Ok(Bytes::from(format!("event: error\ndata: {message}\n\n"))))
        };
        let notice = once(error_event).filter_map(std::future::ready);
        axum::body::Body::from_stream(stream.chain(notice))
    })
}

/// Checks a request. Returns its credential; `None` if it needs none.
async fn admit(gate: &Gate, auth: &ConnectionAuth, request: &Parts) -> Result<Option<Credential>, Problem> {
    let lines = request.headers.iter().map(|(name, value)| name.as_str().len() + value.len());
    let path_bytes = request.uri.path_and_query().map_or(0, |path| path.as_str().len());
    if lines.sum::<usize>() + path_bytes > MAX_HEAD_BYTES {
        let detail = format!("path and headers hold at most {MAX_HEAD_BYTES} bytes");
        return Err(Problem::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, ErrorKind::TooLarge, detail));
    }
    if request.headers.len() > MAX_HEADERS {
        let detail = format!("a request has at most {MAX_HEADERS} headers");
        return Err(Problem::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, ErrorKind::TooLarge, detail));
    }
    let host = request_host::requested_host(request).map_err(Problem::invalid)?;
    if !gate.hosts.allows(&host) {
        return Err(Problem::forbidden(format!(
            "{:?} is not a name of this server",
            super::query::short(host.as_str())
        ))
        .hint("use localhost or an IP address, or start the server with --http-name"));
    }
    let mut origins = request.headers.get_all(header::ORIGIN).iter();
    if !origins.all(|origin| request_host::is_same_origin(origin.as_bytes(), &host)) {
        return Err(Problem::forbidden("cross-origin requests are rejected"));
    }
    let is_open_page = gate.web.is_some() && web::is_open(request);
    if is_open_page || operations::is_open(&request.method, request.uri.path()) {
        return Ok(None);
    }
    let credential = authenticate(gate, auth, request).await?;
    auth.set_authenticated(&gate.clients)?;
    auth.set_credential(&credential);
    Ok(Some(credential))
}

/// Authenticates a request by its token, otherwise by the cookie of a web session.
async fn authenticate(gate: &Gate, auth: &ConnectionAuth, request: &Parts) -> Result<Credential, Problem> {
    let is_websocket =
        operations::is_socket(&request.method, request.uri.path()) && is_websocket_upgrade(&request.headers);
    let token_bytes = extract_token(&request.headers, is_websocket);
    let web = gate.web.as_deref().filter(|_| token_bytes.is_none());
    let credential = match web.and_then(|web| Some((web, web.cookie(&request.headers)?))) {
        Some((web, secret)) => {
            web::check_request(&request.method, &request.headers, is_websocket)
                .map_err(Problem::forbidden)?;
            let credential = gate.authenticator.authenticate_session(web.sessions(), secret, auth.peer).await;
            if let Ok(Some(node)) = credential.as_ref().map(Credential::share)
                && !web::can_send(node, request)
            {
                let problem = format!("this session can only read node '{}'", node.node_id);
                return Err(Problem::forbidden(problem));
            }
            credential
        }
        None => gate.authenticator.authenticate(token_bytes.as_deref(), auth.peer).await,
    };
    credential.map_err(|error| Problem::unauthenticated(&error))
}

/// Extracts the token: from exactly one Authorization header, or from the subprotocol of a WebSocket upgrade.
fn extract_token(headers: &HeaderMap, is_websocket: bool) -> Option<Vec<u8>> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => {
            let (scheme, token) = value.as_bytes().split_at_checked("Bearer ".len())?;
            scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii().to_vec())
        }
        (None, _) if is_websocket && is_websocket_upgrade(headers) => offered_protocols(headers)
            .find_map(|protocol| protocol.strip_prefix(TOKEN_PROTOCOL))
            .map(|token| token.into()),
        _ => None,
    }
}

/// Returns true if the request is an upgrade to a WebSocket.
pub(super) fn is_websocket_upgrade(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::UPGRADE).iter();
    values.any(|protocol| protocol.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// Returns the subprotocols that a WebSocket client offers.
fn offered_protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(',')).map(str::trim)
}

/// Returns the subprotocol to accept: browsers fail if they offered some and none is accepted. The one with
/// the token is never echoed, since a proxy might log it.
pub(crate) fn accepted_protocol(headers: &HeaderMap) -> Option<&'static str> {
    offered_protocols(headers).any(|protocol| protocol == PROTOCOL).then_some(PROTOCOL)
}

/// Renders a problem, and sets the common headers of the response.
fn finish_response(mut response: Response, id: &RequestId, path: &str, is_head: bool) -> Response {
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let allow = response.headers_mut().remove(header::ALLOW);
        response = problem.render(id);
        if openai::is_path(path) {
            openai::adapt(problem, &mut response);
        }
        if let Some(allow) = allow {
            response.headers_mut().insert(header::ALLOW, allow);
        }
        if is_head {
            *response.body_mut() = axum::body::Body::empty();
        }
    }
    let is_immutable = response.extensions().get::<CacheForever>().is_some();
    let headers = response.headers_mut();
    if let Some(id) = id.header() {
        headers.insert(request_id::HEADER, id);
    }
    let cache = if is_immutable { "public, max-age=31536000, immutable" } else { "no-store" };
    let fixed = [
        (header::CACHE_CONTROL, cache),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Handles an unknown path.
pub(crate) async fn not_found(request: Request) -> Problem {
    let path = super::query::short(request.uri().path());
    Problem::new(StatusCode::NOT_FOUND, ErrorKind::NotFound, format!("no path {path}")).hint("see /docs")
}

/// Handles a known path with the wrong method.
pub(crate) async fn wrong_method(request: Request) -> Problem {
    let detail = format!("{} is not for this path", request.method());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, ErrorKind::InvalidRequest, detail).hint("see /docs")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(HeaderName, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn token_comes_from_header_or_websocket_protocol() {
        let bearer = headers(&[(header::AUTHORIZATION, "bearer abc")]);
        assert_eq!(extract_token(&bearer, false).unwrap(), b"abc");
        for none in ["Basic abc", "Bearer", "abc", ""] {
            assert_eq!(extract_token(&headers(&[(header::AUTHORIZATION, none)]), false), None, "{none:?}");
        }
        let protocols = (header::SEC_WEBSOCKET_PROTOCOL, "nerve.token.abc, nerve");
        let socket = headers(&[(header::UPGRADE, "websocket"), protocols.clone()]);
        assert_eq!(extract_token(&socket, true).unwrap(), b"abc");
        assert_eq!(extract_token(&socket, false), None);
        assert_eq!(accepted_protocol(&socket), Some("nerve"));
        assert_eq!(extract_token(&headers(std::slice::from_ref(&protocols)), true), None);
        assert_eq!(extract_token(&headers(&[(header::UPGRADE, "h2c"), protocols]), true), None);
        assert_eq!(accepted_protocol(&headers(&[(header::SEC_WEBSOCKET_PROTOCOL, "nerve.token.abc")])), None);
        let mut two = headers(&[(header::AUTHORIZATION, "Bearer abc")]);
        two.append(header::AUTHORIZATION, HeaderValue::from_static("Bearer def"));
        assert_eq!(extract_token(&two, true), None);
    }
}
