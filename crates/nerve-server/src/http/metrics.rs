//! The metrics page for Prometheus.

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use nerve_core::command::{Command, NodeInfo, Reply};

use super::Shared;
use super::problem::Problem;
use crate::metrics::CONTENT_TYPE;

/// Returns all metrics.
pub(crate) async fn serve(State(shared): State<Shared>) -> Result<Response, Problem> {
    let state = &shared.state;
    let nodes = nodes(&shared).await?;
    state.hub.forward();
    let page = state.hub.metrics.page(&state.engine, &nodes);
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE))];
    Ok((kind, Body::from(page)).into_response())
}

/// Returns the nodes of all sessions.
async fn nodes(shared: &Shared) -> Result<Vec<NodeInfo>, Problem> {
    let engine = &shared.state.engine;
    let unknown = || Problem::internal("the nodes cannot be counted: this is a bug in nerve");
    let Ok(Reply::Sessions(sessions)) = engine.execute(Command::ListSessions).await else {
        return Err(unknown());
    };
    let mut all = Vec::new();
    for session in sessions {
        // A session that was closed in the meantime has none.
        let of = engine.execute(Command::ListNodes { session: Some(session.name) }).await;
        if let Ok(Reply::Nodes(nodes)) = of {
            all.extend(nodes);
        }
    }
    Ok(all)
}
