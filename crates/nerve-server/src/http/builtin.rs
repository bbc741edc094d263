//! Operations that are not a single command of the protocol: raw commands, shutdown, health.

use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use nerve_api::RequestName;
use serde_json::json;

use super::problem::Problem;
use super::resource::{ReplyLine, execute, execute_line, guarded_body, json_body};
use super::{SiteState, body};

/// Answers that the server is alive, without authentication.
pub(crate) fn health() -> Response {
    json_body(json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") }).to_string())
}

/// Executes any command of the protocol.
pub(crate) async fn raw_command(
    State(site): State<SiteState>,
    request: Request,
) -> Result<Response, Problem> {
    let body = body::read(request.into_body(), &site.budget).await?;
    let ReplyLine { bytes: mut answer, memory } = execute_line(body, &site).await?;
    answer.truncate(answer.trim_ascii_end().len());
    // A failed command is a valid response; a request that is no command is not.
    let is_valid = !answer.starts_with(b"{\"type\":\"error\"");
    let mut response = json_body(guarded_body(answer, memory));
    if !is_valid {
        *response.status_mut() = StatusCode::BAD_REQUEST;
    }
    Ok(response)
}

/// Shuts the server down.
pub(crate) async fn shutdown(State(site): State<SiteState>, request: Request) -> Result<Response, Problem> {
    let body = body::read(request.into_body(), &site.budget).await?;
    execute(RequestName::Shutdown, body, &site).await
}
