//! The paths of the web console: the page, login, logout and the session of the browser.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use http::{HeaderValue, StatusCode, header};
use nerve_api::ErrorKind;
use serde::Deserialize;
use serde_json::json;

use super::cookie::is_json;
use super::role::Role;
use super::session::SessionShare;
use super::{LOGIN, LOGOUT, PATH, PUSH, Web, assets, is_page_load};
use crate::access::Authenticator;
use crate::http::{ConnectionAuth, Problem, json_body, not_found, read_small};
use nerve_web_push::subscription::{PushSubscription, SubscriptionRequest};

/// Hint for a login that failed.
const NEW_LINK: &str = "'nerve web' on the server's machine prints a new link";

/// Maximum size of the body of a login in bytes.
const MAX_LOGIN_BYTES: usize = 1024;
/// Maximum size of the body of a push subscription in bytes.
const MAX_SUBSCRIPTION_BYTES: usize = 4096;
/// Time that a body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// State shared by the handlers.
#[derive(Debug, Clone)]
struct WebState {
    web: Arc<Web>,
    authenticator: Arc<Authenticator>,
    has_machines: bool,
}

/// Returns the routes of the web console. `has_machines`: the page may use the nodes of other machines.
pub(crate) fn router(web: Arc<Web>, authenticator: Arc<Authenticator>, has_machines: bool) -> Router {
    Router::new()
        .route("/", get(root))
        .route("/web", get(async || Redirect::to(PATH)))
        .route(PATH, get(async || assets::index()))
        .route("/web/session", get(session))
        .route(LOGIN, post(log_in))
        .route(LOGOUT, post(log_out))
        .route(PUSH, post(subscribe).delete(unsubscribe))
        .route("/web/service_worker.js", get(async || assets::service_worker()))
        .route("/web/{version}/{*name}", get(asset))
        .with_state(WebState { web, authenticator, has_machines })
}

/// Redirects browsers to the page.
async fn root(request: Request) -> Response {
    match is_page_load(request.headers()) {
        true => Redirect::to(PATH).into_response(),
        false => not_found(request).await.into_response(),
    }
}

async fn asset(Path((version, name)): Path<(String, String)>, request: Request) -> Response {
    match assets::file(&version, &name, request.headers()) {
        Some(response) => response,
        None => not_found(request).await.into_response(),
    }
}

/// Returns the role of the web session; null without one.
async fn session(State(state): State<WebState>, request: Request) -> Result<Response, Problem> {
    let Some(secret) = state.web.cookie(request.headers()) else {
        return Ok(json_body(json!({ "role": null }).to_string()));
    };
    let from = peer(&request)?;
    let authentication = state.authenticator.authenticate_session(state.web.sessions(), secret, from);
    match authentication.await {
        Ok(credential) => {
            let session = json!({
                "role": credential.role(),
                "share": credential.share(),
                "server_name": state.web.server,
                "version": env!("CARGO_PKG_VERSION"),
                "has_machines": state.has_machines,
                "push_key": state.web.push_key.as_ref().map(|key| key.public_key()),
            });
            Ok(json_body(session.to_string()))
        }
        Err(error) if error.kind == ErrorKind::Authentication => {
            Ok(json_body(json!({ "role": null }).to_string()))
        }
        // The session may still be valid: the browser tries again.
        Err(error) => Err(Problem::unauthenticated(&error)),
    }
}

/// Body of a login.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LoginRequest {
    /// A one-time code.
    Code(String),
    /// The secret of a share.
    Share(String),
}

/// Exchanges a code or the secret of a share for a session.
async fn log_in(State(state): State<WebState>, request: Request) -> Result<Response, Problem> {
    let from = peer(&request)?;
    let (parts, body) = request.into_parts();
    if !is_json(&parts.headers) {
        return Err(Problem::invalid("a login needs 'Content-Type: application/json'"));
    }
    let body = read_small(body, MAX_LOGIN_BYTES, BODY_TIMEOUT).await?;
    let Ok(login) = serde_json::from_slice(&body) else {
        return Err(Problem::invalid("expected {\"code\": …} or {\"share\": …}"));
    };
    let (role, share) = redeem(&state, login, from).await?;
    let token = state.authenticator.read_token().map_err(|error| Problem::unauthenticated(&error))?;
    let node = share.as_ref().map(|share| share.node.clone());
    // A share permits less than a login: the login stays.
    if node.is_some()
        && let Some(secret) = state.web.cookie(&parts.headers)
        && let Ok(Some(current)) = state.web.sessions().find(secret, &token)
        && current.share.is_none()
    {
        return Ok(json_body(json!({ "role": current.role, "share": node }).to_string()));
    }
    // A browser has one session: the new one replaces the old one.
    if let Some(old) = state.web.cookie(&parts.headers) {
        state.web.sessions().end(old);
    }
    let user_agent = parts.headers.get(header::USER_AGENT).map(HeaderValue::as_bytes).unwrap_or_default();
    let begun = state.web.sessions().begin(role, share, &String::from_utf8_lossy(user_agent), &token);
    let secret = begun.map_err(|error| {
        tracing::error!(%error, "a web session cannot be stored");
        Problem::internal("the session cannot be stored").hint("see the server's log")
    })?;
    tracing::info!(%from, %role, "a browser has logged in");
    let session = json_body(json!({ "role": role, "share": node }).to_string());
    Ok((state.web.cookie.set(&secret, &parts.headers, from), session).into_response())
}

/// Uses a code or a share. Returns the permissions of the session that it begins.
async fn redeem(
    state: &WebState,
    login: LoginRequest,
    from: IpAddr,
) -> Result<(Role, Option<SessionShare>), Problem> {
    let logins = &state.web.logins;
    let (problem, hint) = match login {
        LoginRequest::Code(code) => match logins.codes.redeem(&code) {
            Ok(role) => return Ok((role, None)),
            Err(error) => (error.to_string(), NEW_LINK),
        },
        LoginRequest::Share(secret) => match logins.shares.find(&secret) {
            Some((digest, share)) => {
                return Ok((Role::View, Some(SessionShare { digest, node: share.node })));
            }
            None => ("the share has ended".to_string(), "ask for a new link: 'nerve share NODE' prints one"),
        },
    };
    let error = state.authenticator.reject(&problem, from).await;
    Err(Problem::unauthenticated(&error.hint(hint)))
}

/// Ends the session of the request.
async fn log_out(State(state): State<WebState>, request: Request) -> Response {
    let headers = request.headers();
    if let Some(secret) = state.web.cookie(headers) {
        state.web.sessions().end(secret);
    }
    (StatusCode::NO_CONTENT, state.web.cookie.clear(headers)).into_response()
}

/// Subscribes the session's browser to notifications, also while its page is closed.
async fn subscribe(State(state): State<WebState>, request: Request) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let Some(cookie) = state.web.cookie(&parts.headers) else {
        return Err(Problem::invalid("only a browser with a web session can subscribe to notifications"));
    };
    let body = read_small(body, MAX_SUBSCRIPTION_BYTES, BODY_TIMEOUT).await?;
    let request: SubscriptionRequest =
        serde_json::from_slice(&body).map_err(|error| Problem::invalid(error.to_string()))?;
    let subscription = PushSubscription::new(request).map_err(Problem::invalid)?;
    state.web.sessions().subscribe(cookie, &subscription).map_err(|error| {
        tracing::error!(%error, "a push subscription cannot be stored");
        Problem::internal("the subscription cannot be stored").hint("see the server's log")
    })?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Ends the notifications of the session's browser.
async fn unsubscribe(State(state): State<WebState>, request: Request) -> Response {
    if let Some(cookie) = state.web.cookie(request.headers()) {
        state.web.sessions().unsubscribe(cookie);
    }
    StatusCode::NO_CONTENT.into_response()
}

fn peer(request: &Request) -> Result<IpAddr, Problem> {
    let auth = request.extensions().get::<ConnectionAuth>();
    auth.map(|auth| auth.peer)
        .ok_or_else(|| Problem::internal("request without a connection: this is a bug in nerve"))
}
