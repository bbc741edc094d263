//! CREATE_GRAPH, GET_GRAPH, LIST_GRAPHS and DELETE_GRAPH: the graphs that are registered in a session.

use std::sync::Arc;

use nerve_api::reply::{Done, GraphInfo, GraphList};
use nerve_api::request::{CreateGraph, DeleteGraph, GetGraph, ListGraphs};
use nerve_graph::Graph;
use nerve_graph::executable::Executable;
use nerve_graph::file::GraphFile;
use nerve_graph::session::Session;
use nerve_node::error::EngineError;
use serde_json::Value;

use super::context::RequestContext;
use crate::engine::Engine;
use crate::page::paginate;

impl Engine {
    /// Registers a graph in a session, under its own id.
    ///
    /// # Errors
    /// InvalidRequest (the definition), AlreadyExists, NotFound (session).
    pub async fn create_graph(
        &self,
        request: CreateGraph,
        _: RequestContext,
    ) -> Result<GraphInfo, EngineError> {
        let session = self.inner.sessions.get(request.session_id.as_deref())?;
        let file = GraphFile::from_value(Value::Object(request.definition))?;
        let graph = file.compile()?.graph.with_definition(file.to_value());
        let info = graph_info(&graph, &session);
        if session.definition(graph.id()).is_some() {
            let message = format!("node '{}' exists already in session '{}'", graph.id(), session.name());
            return Err(EngineError::already_exists(message).hint("delete it first, or choose another name"));
        }
        session.register(Arc::new(graph), None)?;
        self.inner.persister.save();
        Ok(info)
    }

    /// Returns a registered graph with its definition.
    ///
    /// # Errors
    /// NotFound.
    pub async fn get_graph(&self, request: GetGraph, _: RequestContext) -> Result<GraphInfo, EngineError> {
        let GetGraph { graph_id, session_id } = request;
        let session = self.inner.sessions.get(session_id.as_deref())?;
        let graph = find_graph(&session, &graph_id)?;
        Ok(graph_info(&graph, &session))
    }

    /// Lists the graphs of a session without their definitions, sorted by id.
    ///
    /// # Errors
    /// NotFound (session), InvalidRequest (page).
    pub async fn list_graphs(
        &self,
        request: ListGraphs,
        _: RequestContext,
    ) -> Result<GraphList, EngineError> {
        let session = self.inner.sessions.get(request.session_id.as_deref())?;
        let nodes = session.nodes();
        let graphs: Vec<GraphInfo> = nodes
            .iter()
            .filter_map(|(_, node)| {
                Some(GraphInfo { definition: Value::Null, ..graph_info(node.graph()?, &session) })
            })
            .collect();
        let ids = graphs.iter().map(|graph| graph.graph_id.clone()).collect();
        paginate(&request.page, GraphList { graphs: ids, graphs_info: graphs, next: None })
    }

    /// Deletes a graph. Its runs continue.
    ///
    /// # Errors
    /// NotFound.
    pub async fn delete_graph(&self, request: DeleteGraph, _: RequestContext) -> Result<Done, EngineError> {
        let DeleteGraph { graph_id, session_id } = request;
        let session = self.inner.sessions.get(session_id.as_deref())?;
        find_graph(&session, &graph_id)?;
        session.unregister(&graph_id);
        self.inner.persister.save();
        Ok(Done {})
    }
}

fn graph_info(graph: &Graph, session: &Session) -> GraphInfo {
    GraphInfo {
        graph_id: graph.id().to_string(),
        session_id: session.name().to_string(),
        steps: graph.execution_order().unwrap_or_else(|_| graph.list_steps()),
        definition: graph.definition().cloned().unwrap_or_default(),
    }
}

pub(super) fn find_graph(session: &Session, id: &str) -> Result<Arc<Graph>, EngineError> {
    match session.get(id) {
        Some(Executable::Graph(graph)) => Ok(graph),
        _ => Err(no_graph_error(id, session)),
    }
}

/// Returns the error of a request for an unknown graph. The hint lists the known ones.
pub(super) fn no_graph_error(id: &str, session: &Session) -> EngineError {
    let graphs = session.info().graphs;
    let hint = match graphs.is_empty() {
        true => "it has no graphs".to_string(),
        false => format!("it has: {}", graphs.join(", ")),
    };
    EngineError::not_found(format!("no graph '{id}' in session '{}'", session.name())).hint(hint)
}
