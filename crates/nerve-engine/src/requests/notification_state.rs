//! The state from which notifications of dropped events are found.

use nerve_api::request::{ExplainNode, ListResults, ListRuns};

use super::context::RequestContext;
use crate::engine::Engine;
use nerve_notifications::NotificationState;

impl Engine {
    /// Returns the nodes, runs and results, without those that cannot be read.
    pub async fn notification_state(&self) -> NotificationState {
        let mut state = NotificationState::default();
        for session in self.inner.sessions.list() {
            // A session that was deleted meanwhile has no nodes.
            let (nodes, stopped) =
                (self.nodes(Some(session.name())), self.stopped_nodes(Some(session.name())));
            state.nodes.extend(nodes.into_iter().chain(stopped).flatten());
        }
        for (session, node) in state.blocked_nodes() {
            let request = ExplainNode { node_id: node.clone(), session_id: Some(session.clone()) };
            // The dialog may have closed meanwhile.
            if let Ok(explanation) = self.explain_node(request, RequestContext::default()).await {
                state.choices.insert((session, node), explanation.choices);
            }
        }
        match self.list_runs(ListRuns::default(), RequestContext::default()).await {
            Ok(list) => state.runs = list.runs,
            Err(error) => {
                let problem = "cannot list the runs: those that ended among dropped events are not notified";
                tracing::warn!(%error, "{problem}");
            }
        }
        match self.list_results(ListResults::default(), RequestContext::default()).await {
            Ok(list) => state.results = list.results,
            Err(error) => {
                let problem =
                    "cannot list the results: those that ended among dropped events are not notified";
                tracing::warn!(%error, "{problem}");
            }
        }
        state
    }
}
