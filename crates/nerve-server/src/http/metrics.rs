//! The metrics page for Prometheus.

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use nerve_api::reply::{NodeInfo, SessionInfo};
use nerve_api::request::ListSessions;
use nerve_engine::RequestContext;

use super::SiteState;
use super::problem::Problem;
use crate::metrics::CONTENT_TYPE;

/// Returns all metrics.
pub(crate) async fn serve(State(site): State<SiteState>) -> Result<Response, Problem> {
    let state = &site.state;
    let nodes = nodes(&site).await?;
    state.hub.publish_pending();
    let page = state.hub.metrics.render(&state.engine, &nodes);
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE))];
    Ok((kind, Body::from(page)).into_response())
}

/// Returns the nodes of all sessions.
async fn nodes(site: &SiteState) -> Result<Vec<NodeInfo>, Problem> {
    let engine = &site.state.engine;
    let sessions = engine.list_sessions(ListSessions::default(), RequestContext::default()).await;
    let sessions = sessions
        .map_err(|_| Problem::internal("the nodes cannot be counted: this is a bug in nerve"))?
        .sessions;
    // A session that is gone by now has no nodes.
    let of = |session: SessionInfo| engine.nodes(Some(&session.name)).unwrap_or_default();
    Ok(sessions.into_iter().flat_map(of).collect())
}
