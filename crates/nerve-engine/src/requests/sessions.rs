//! Sessions: create, describe, stop, delete.

use nerve_api::DEFAULT_SESSION;
use nerve_api::reply::{Done, NodeFailure, NodesChanged, SessionInfo, SessionList};
use nerve_api::request::{CreateSession, DeleteSession, GetSession, ListSessions, StopSession};
use nerve_graph::session::entry::ProcessEnd;
use nerve_graph::session::stop_all;
use nerve_node::error::{EngineError, ErrorKind};

use super::budgets;
use super::context::RequestContext;
use crate::engine::Engine;
use crate::page::paginate;

impl Engine {
    /// Creates a session.
    ///
    /// # Errors
    /// AlreadyExists, InvalidRequest (name), Process (it cannot be stored).
    pub async fn create_session(
        &self,
        request: CreateSession,
        _: RequestContext,
    ) -> Result<SessionInfo, EngineError> {
        let CreateSession { name, description, tags, budget } = request;
        budgets::check(budget.as_ref())?;
        let session = self.inner.sessions.create(&name, description, tags)?;
        session.ledger().set_limits(budget);
        if let Err(message) = self.inner.persister.save_now().await {
            self.inner.sessions.forget(session.name());
            self.inner.persister.save();
            return Err(EngineError::process(format!("session '{name}' not created: {message}")));
        }
        Ok(session.info())
    }

    /// Describes a session.
    ///
    /// # Errors
    /// NotFound.
    pub async fn get_session(
        &self,
        request: GetSession,
        _: RequestContext,
    ) -> Result<SessionInfo, EngineError> {
        let name = request.session().unwrap_or(DEFAULT_SESSION);
        Ok(self.inner.sessions.get(Some(name))?.info())
    }

    /// Lists all sessions.
    ///
    /// # Errors
    /// InvalidRequest (page).
    pub async fn list_sessions(
        &self,
        request: ListSessions,
        _: RequestContext,
    ) -> Result<SessionList, EngineError> {
        let sessions = self.inner.sessions.list();
        let sessions = sessions.iter().map(|session| session.info()).collect();
        paginate(&request.page, SessionList { sessions, next: None })
    }

    /// Stops the nodes of a session and deletes it.
    ///
    /// # Errors
    /// NotFound, InvalidRequest (the default session).
    pub async fn delete_session(
        &self,
        request: DeleteSession,
        context: RequestContext,
    ) -> Result<Done, EngineError> {
        let name = request.session().unwrap_or(DEFAULT_SESSION);
        let session = self.inner.sessions.get(Some(name))?;
        let nodes = session.info().nodes;
        self.inner.sessions.close(name).await?;
        nodes.iter().for_each(|node| self.publish_removal(&session, node));
        self.persist(&context.warnings).await;
        Ok(Done {})
    }

    /// Stops the nodes of a session. Their definitions stay, so that they can be started again. Nodes that were lost earlier count as
    /// stopped by this request, too, so that they are not restored.
    ///
    /// # Errors
    /// NotFound.
    pub async fn stop_session(
        &self,
        request: StopSession,
        context: RequestContext,
    ) -> Result<NodesChanged, EngineError> {
        let session = self.inner.sessions.get(Some(request.session().unwrap_or(DEFAULT_SESSION)))?;
        let running: Vec<_> = session.nodes().into_iter().filter(|(_, node)| !node.is_graph()).collect();
        let nodes = running.iter().filter_map(|(_, node)| node.node().cloned()).collect();
        running.iter().for_each(|(name, node)| session.request_stop(name, node));
        stop_all(nodes, "its session was stopped").await;
        let reason = "its session was stopped";
        running.iter().for_each(|(name, node)| self.retire(&session, name, node, reason));
        let end = || ProcessEnd::requested(self.inner.clock.now(), reason);
        session.stopped().iter().for_each(|(name, _)| session.set_end(name, end()));
        self.persist(&context.warnings).await;
        let failed = session.starting().into_iter();
        let failed = failed.map(|node_id| NodeFailure {
            node_id,
            error: "it is starting".to_string(),
            error_type: ErrorKind::Busy,
            hint: None,
        });
        let nodes = running.into_iter().map(|(name, _)| name).collect();
        Ok(NodesChanged { nodes, failed: failed.collect() })
    }
}
