//! A run as users see it.

use nerve_cluster::journal::{Attempt, AttemptState, RunOutcome, StepState};
use nerve_cluster::placement::{MachineInfo, NoMachine, place};
use nerve_cluster::{RunId, RunState};
use nerve_member::MemberList;
use serde_json::{Map, Value, json};

/// A run, and the members that have its steps.
pub(crate) struct RunView<'a> {
    pub(crate) id: &'a RunId,
    pub(crate) state: &'a RunState,
    pub(crate) members: &'a MemberList,
}

/// A step of a run.
pub(crate) struct StepView {
    pub(crate) id: String,
    /// `pending`, `waiting`, `offered`, `running`, `in_doubt`, `completed` or `failed`.
    pub(crate) state: &'static str,
    /// Number of the attempt; 0 before the first.
    pub(crate) attempt: u32,
    /// Name of the machine, or its id if it is not present.
    pub(crate) machine: Option<String>,
    /// Reason for the choice of the machine.
    pub(crate) reason: Option<String>,
    /// Node on the machine, with the session.
    pub(crate) node: Option<String>,
    /// Reason why the step waits, or its error.
    pub(crate) problem: Option<String>,
    /// Number of attempts that reported a result too late.
    pub(crate) late_results: usize,
}

impl RunView<'_> {
    /// Returns the id of the graph.
    pub(crate) fn graph(&self) -> &str {
        self.state.work["graph"]["graph"].as_str().unwrap_or_default()
    }

    /// Returns `new`, `running`, `in_doubt`, `cancelling`, `completed`, `failed` or `cancelled`.
    pub(crate) fn status(&self) -> &'static str {
        let is_in_doubt = |step: &StepState| {
            matches!(step.current(), Some((_, Attempt { state: AttemptState::InDoubt { .. }, .. })))
        };
        match self.state.outcome {
            Some(RunOutcome::Completed) => "completed",
            Some(RunOutcome::Failed) => "failed",
            Some(RunOutcome::Cancelled) => "cancelled",
            None if self.state.is_cancelled => "cancelling",
            None if self.state.owner.is_none() => "new",
            None if self.state.steps.values().any(is_in_doubt) => "in_doubt",
            None => "running",
        }
    }

    /// Returns the name of the machine that owns the run.
    pub(crate) fn owner(&self) -> Option<String> {
        self.state.owner.map(|owner| self.machine(owner.machine))
    }

    /// Returns the numbers of completed and of all steps.
    pub(crate) fn progress(&self) -> (usize, usize) {
        let steps = self.state.steps.values();
        (steps.filter(|step| step.has_succeeded()).count(), self.state.steps.len())
    }

    /// Returns the steps in the order of the graph.
    pub(crate) fn steps(&self) -> Vec<StepView> {
        let machines = self.members.machines([self.state]);
        self.ordered().map(|step| self.step(step, &machines)).collect()
    }

    /// Returns the results of the steps that completed, by id, in the order of the graph.
    pub(crate) fn results(&self) -> Map<String, Value> {
        let result = |step: &StepState| match &step.current()?.1.state {
            AttemptState::Finished { result, .. } if result.is_success => {
                let value =
                    serde_json::from_str(&result.value).unwrap_or_else(|_| result.value.clone().into());
                Some((step.spec.id.to_string(), value))
            }
            _ => None,
        };
        self.ordered().filter_map(result).collect()
    }

    /// Returns the run for `--json`.
    pub(crate) fn to_json(&self) -> Value {
        let (done, total) = self.progress();
        json!({
            "run_id": self.id, "graph_id": self.graph(), "state": self.status(), "owner_name": self.owner(),
            "done_steps": done, "total_steps": total,
        })
    }

    fn ordered(&self) -> impl Iterator<Item = &StepState> {
        let ids = self.state.work["graph"]["steps"].as_array().into_iter().flatten();
        let position = move |step: &StepState| {
            let id = step.spec.id.to_string();
            ids.clone().position(|defined| defined["id"].as_str() == Some(id.as_str()))
        };
        let mut steps: Vec<&StepState> = self.state.steps.values().collect();
        steps.sort_by_key(|step| position(step));
        steps.into_iter()
    }

    fn step(&self, step: &StepState, machines: &[MachineInfo]) -> StepView {
        let late_results = step.attempts.iter().filter(|attempt| attempt.late.is_some()).count();
        let Some((number, attempt)) = step.current() else {
            let problem = self.waits_for(step, machines);
            return StepView {
                id: step.spec.id.to_string(),
                state: if problem.is_some() { "waiting" } else { "pending" },
                attempt: 0,
                machine: None,
                reason: None,
                node: None,
                problem,
                late_results,
            };
        };
        let (state, problem) = attempt_state(attempt);
        StepView {
            id: step.spec.id.to_string(),
            state,
            attempt: number,
            machine: Some(self.machine(attempt.machine)),
            reason: serde_json::to_value(attempt.reason)
                .ok()
                .and_then(|reason| Some(reason.as_str()?.into())),
            node: attempt.location.as_ref().map(|location| location.node.clone()),
            problem,
            late_results,
        }
    }

    /// Returns why a step that could begin is not offered to a machine.
    fn waits_for(&self, step: &StepState, machines: &[MachineInfo]) -> Option<String> {
        let is_due =
            self.state.outcome.is_none() && !self.state.is_stopping() && self.state.is_ready(&step.spec);
        match place(&step.spec.requirement, machines) {
            Err(NoMachine::NoMatch) if is_due => Some("no member has the name or the labels".to_string()),
            Err(NoMachine::NoFreeSlot) if is_due => {
                Some("no member that matches has a free slot".to_string())
            }
            Err(NoMachine::NoneAccepts) if is_due => {
                Some("each member that matches is drained or has no slots".to_string())
            }
            _ => None,
        }
    }

    fn machine(&self, id: nerve_cluster::MachineId) -> String {
        let member = self.members.members.iter().find(|member| member.machine_id == id);
        member
            .map(|member| member.machine_name.clone())
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| id.to_string())
    }
}

impl StepView {
    /// Returns the step for `--json`.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "step_id": self.id, "state": self.state, "attempt": self.attempt, "machine_name": self.machine,
            "reason": self.reason, "node_id": self.node, "problem": self.problem, "late_results": self.late_results,
        })
    }
}

/// Returns the state of an attempt, and its problem.
fn attempt_state(attempt: &Attempt) -> (&'static str, Option<String>) {
    match &attempt.state {
        AttemptState::Offered => ("offered", None),
        AttemptState::Started { .. } => ("running", None),
        AttemptState::InDoubt { .. } => ("in_doubt", Some("its machine was lost while it ran".to_string())),
        AttemptState::Finished { result, .. } if result.is_success => ("completed", None),
        AttemptState::Finished { result, .. } => ("failed", Some(result.value.clone())),
        AttemptState::Failed { .. } | AttemptState::Superseded { .. } => {
            ("failed", Some("its machine was lost while it ran".to_string()))
        }
    }
}
