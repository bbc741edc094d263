//! Budgets of nodes and sessions.

use nerve_api::reply::BudgetStatus;
use nerve_api::request::{SetBudget, UsageLimits};
use nerve_api::value::BackendKind;
use nerve_node::error::EngineError;
use nerve_node::factory::check_command_budget;

use super::context::RequestContext;
use crate::engine::Engine;

impl Engine {
    /// Replaces the budget of a node or a session. A node that the old budget blocked accepts prompts again if the new budget
    /// permits it.
    ///
    /// # Errors
    /// NotFound, InvalidRequest (invalid limits, or limits that this kind of node cannot have), Busy (the node is starting).
    pub async fn set_budget(
        &self,
        request: SetBudget,
        context: RequestContext,
    ) -> Result<BudgetStatus, EngineError> {
        let SetBudget { node_id, session_id, budget } = request;
        check(budget.as_ref())?;
        let session = self.inner.sessions.get(session_id.as_deref())?;
        let ledger = match &node_id {
            None => session.ledger().clone(),
            Some(id) => {
                let definition = session.definition(id);
                if definition.as_ref().is_some_and(|spec| spec.backend == BackendKind::Bash) {
                    check_command_budget(id, budget.as_ref())?;
                }
                if session.get(id).is_none() && definition.is_some() {
                    let status = session.set_stopped_budget(id, budget);
                    self.persist(&context.warnings).await;
                    return status;
                }
                session.find(id)?.ledger().cloned().ok_or_else(|| no_ledger_error(id))?
            }
        };
        ledger.set_limits(budget);
        self.persist(&context.warnings).await;
        Ok(ledger.status())
    }
}

/// Checks the limits of a budget.
///
/// # Errors
/// InvalidRequest.
pub(super) fn check(budget: Option<&UsageLimits>) -> Result<(), EngineError> {
    let invalid = |problem| EngineError::invalid_request(format!("params.budget: {problem}"));
    budget.map_or(Ok(()), UsageLimits::check).map_err(invalid)
}

fn no_ledger_error(node: &str) -> EngineError {
    EngineError::invalid_request(format!("node '{node}' cannot have a budget"))
        .hint("nodes, sessions and graphs can have budgets")
}
