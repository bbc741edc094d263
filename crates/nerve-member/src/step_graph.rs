//! The graph of one attempt: the step, with the results of the steps before it as fixed values.

use std::collections::BTreeSet;
use std::path::Path;

use nerve_cluster::journal::AttemptState;
use nerve_cluster::{AttemptId, RunState, StepId};
use nerve_graph::file::{GraphFile, NodeDefinition, OnHostLost, OnRestart, StepDefinition};
use nerve_graph::journal;
use serde_json::{Map, Value, json};

use crate::run_plan::Work;

/// The graph of an attempt, for the engine of the machine that executes it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StepGraph {
    pub(crate) definition: Map<String, Value>,
    pub(crate) input: Value,
    /// The node of the step, for the journal.
    pub(crate) node: String,
}

impl StepGraph {
    /// Creates the graph. `home`: working directory of nodes that have none.
    ///
    /// # Errors
    /// The run has no such step, or this version cannot read it.
    pub(crate) fn new(state: &RunState, attempt: &AttemptId, home: &Path) -> Result<StepGraph, String> {
        let work: Work = serde_json::from_value(state.work.clone()).map_err(|error| error.to_string())?;
        let mut file = GraphFile::from_value(Value::Object(work.graph)).map_err(|error| error.to_string())?;
        let id = attempt.step.to_string();
        let step = file.steps.iter().find(|step| step.id == id);
        let step = step.ok_or_else(|| format!("the graph has no step '{id}'"))?.clone();
        let before = ancestors(&file, &step);
        let fixed = file.steps.iter().filter(|other| before.contains(&other.id));
        let mut steps = fixed.map(|other| fix(other, state)).collect::<Result<Vec<_>, String>>()?;
        if let Some(used) = used_nodes(&file, &step) {
            file.nodes.retain(|name, _| used.contains(name));
        }
        let node = step.node.clone().unwrap_or_else(|| id.clone());
        steps.push(StepDefinition { on: None, on_host_lost: OnHostLost::default(), ..step });
        file.steps = steps;
        // The policy for a lost machine decides what happens after a restart.
        file.on_restart = OnRestart::Wait;
        set_cwd(&mut file, home);
        let Value::Object(definition) = file.to_value() else { return Err("a graph is an object".into()) };
        Ok(StepGraph { definition, input: work.input, node })
    }

    /// Returns the id of the attempt's run on its machine. The same for every process, so that no attempt runs twice.
    pub(crate) fn run_id(attempt: &AttemptId) -> String {
        let AttemptId { run, step, attempt } = attempt;
        format!("step-{:016x}", journal::key(0, None, &json!([run, step, attempt])))
    }
}

/// Returns the steps that must be done before a step.
fn ancestors(file: &GraphFile, step: &StepDefinition) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&String> = step.depends_on.iter().collect();
    while let Some(id) = open.pop() {
        if found.insert(id.clone()) {
            open.extend(file.steps.iter().filter(|step| step.id == *id).flat_map(|step| &step.depends_on));
        }
    }
    found
}

/// Replaces a step by its result.
fn fix(step: &StepDefinition, state: &RunState) -> Result<StepDefinition, String> {
    let value = StepId::new(step.id.as_str()).ok().and_then(|id| result_value(state, &id));
    let value = value.ok_or_else(|| format!("step '{}' has no result", step.id))?;
    let (id, depends_on) = (step.id.clone(), step.depends_on.clone());
    Ok(StepDefinition { id, depends_on, value: Some(value), ..StepDefinition::default() })
}

/// Returns the value of a step that succeeded; `None` also if this version cannot read it.
pub(crate) fn result_value(state: &RunState, step: &StepId) -> Option<Value> {
    match &state.steps.get(step)?.current()?.1.state {
        AttemptState::Finished { result, .. } if result.is_success => {
            serde_json::from_str(&result.value).ok()
        }
        _ => None,
    }
}

/// Returns the nodes of the graph that a step uses; `None` for all, as a nested graph may use each of them.
fn used_nodes(file: &GraphFile, step: &StepDefinition) -> Option<BTreeSet<String>> {
    let fallback = step.error_policy.as_ref().and_then(|policy| policy.fallback_node.as_ref());
    let mut used: BTreeSet<String> = step.node.iter().chain(fallback).cloned().collect();
    for name in used.clone() {
        match file.nodes.get(&name) {
            Some(NodeDefinition::Graph(_)) => return None,
            Some(NodeDefinition::Chat(chat)) => used.extend(chat.tools.iter().cloned()),
            _ => {}
        }
    }
    Some(used)
}

/// Makes the working directories of the nodes absolute.
fn set_cwd(file: &mut GraphFile, home: &Path) {
    for node in file.nodes.values_mut() {
        if let Some(cwd) = node.cwd_mut() {
            let folder = cwd.as_deref().map_or_else(|| home.to_path_buf(), |cwd| home.join(cwd));
            *cwd = folder.to_str().map(str::to_string);
        }
        if let NodeDefinition::Graph(nested) = node
            && let Some(graph) = &mut nested.graph
        {
            set_cwd(graph, home);
        }
    }
}

#[cfg(test)]
mod tests {
    use nerve_cluster::journal::{Epoch, StepResult};
    use nerve_cluster::placement::Reason;
    use nerve_cluster::{Instance, MachineId, Record, RecordKind, RunId, Sequence};

    use super::*;
    use crate::run_plan::RunPlan;

    const ME: Instance = Instance { machine: MachineId(1), boot: 1, nonce: 1 };

    fn attempt(step: &str, attempt: u32) -> AttemptId {
        AttemptId { run: RunId::new("r").unwrap(), step: StepId::new(step).unwrap(), attempt }
    }

    /// Returns a run whose step `a` has this result.
    fn state(result: &str) -> RunState {
        let yaml = "graph: g\non_restart: resume\nnodes:\n  sh: {type: bash}\n  other: {type: claude}\n  c: {type: bash, cwd: work}\nsteps:\n\
            \x20 - {id: a, node: other, input: hi}\n  - {id: b, node: c, input: 'echo {{ steps.a }}', depends_on: [a], on: x}\n\
            \x20 - {id: c, node: sh, input: 'echo {{ steps.a }}', depends_on: [b]}\n";
        let RunPlan { steps, work } =
            RunPlan::new(&GraphFile::from_yaml(yaml, "g").unwrap(), json!("in")).unwrap();
        let (step, by) = (StepId::new("a").unwrap(), ME);
        let machine = ME.machine;
        let kinds = [
            RecordKind::Planned { steps, work },
            RecordKind::Offered { step: step.clone(), attempt: 1, machine, reason: Reason::Named },
            RecordKind::Started { step: step.clone(), attempt: 1, by, node: "me".into(), offset: 0 },
            RecordKind::Finished {
                step,
                attempt: 1,
                by,
                result: StepResult { is_success: true, value: result.into() },
            },
        ];
        let mut state = RunState::default();
        for (sequence, kind) in (1..).zip(kinds) {
            assert!(state.apply(Sequence(sequence), &Record { epoch: Epoch::default(), kind }));
        }
        state
    }

    #[test]
    fn earlier_results_become_values() {
        let graph =
            StepGraph::new(&state(r#"{"text":"x"}"#), &attempt("b", 1), Path::new("/home/me")).unwrap();
        let steps = &graph.definition["steps"];
        assert_eq!(steps[0], json!({ "id": "a", "value": { "text": "x" } }));
        assert_eq!((steps[1]["id"].as_str(), steps[1].get("on")), (Some("b"), None));
        assert_eq!(steps.as_array().unwrap().len(), 2);
        let nodes = graph.definition["nodes"].as_object().unwrap();
        assert_eq!((nodes.len(), &nodes["c"]["cwd"]), (1, &json!("/home/me/work")));
        assert_eq!(graph.definition.get("on_restart"), None);
        assert_eq!((graph.input, graph.node.as_str()), (json!("in"), "c"));
        assert!(GraphFile::from_value(Value::Object(graph.definition)).unwrap().compile().is_ok());
    }

    #[test]
    fn step_without_results_before_it_has_no_graph() {
        let home = Path::new("/");
        assert!(StepGraph::new(&state("not JSON"), &attempt("b", 1), home).is_err());
        assert!(StepGraph::new(&state("1"), &attempt("c", 1), home).is_err(), "b has not run");
        assert!(StepGraph::new(&state("1"), &attempt("z", 1), home).is_err());
        assert!(StepGraph::new(&RunState::default(), &attempt("a", 1), home).is_err());
    }

    #[test]
    fn each_attempt_has_its_own_run() {
        let ids: BTreeSet<String> =
            [attempt("a", 1), attempt("a", 2), attempt("b", 1)].iter().map(StepGraph::run_id).collect();
        assert_eq!(ids.len(), 3);
        assert!(ids.iter().all(|id| nerve_types::name::check("run", id).is_ok()), "{ids:?}");
        assert_eq!(StepGraph::run_id(&attempt("a", 1)), StepGraph::run_id(&attempt("a", 1)));
    }
}
