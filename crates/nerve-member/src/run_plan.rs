//! The plan of a run over machines, from a graph file.

use std::collections::BTreeMap;

use nerve_cluster::StepId;
use nerve_cluster::journal::{OnMachineLost, StepSpec};
use nerve_cluster::placement::Requirement;
use nerve_graph::file::{
    BudgetDefinition, GraphFile, NodeDefinition, OnFailure, OnHostLost, Placement, StepDefinition,
    without_secrets,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::MemberError;

/// The plan of a run: its steps for the core, and what they do for the executors.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPlan {
    pub(crate) steps: Vec<StepSpec>,
    pub(crate) work: Value,
}

/// What the steps of a run do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Work {
    /// The graph, as in a graph file.
    pub(crate) graph: Map<String, Value>,
    /// The input of the run.
    #[serde(default)]
    pub(crate) input: Value,
}

impl RunPlan {
    /// Creates the plan of a graph that compiles.
    ///
    /// # Errors
    /// [`MemberError::Graph`] names the first part that cannot run on several machines.
    pub fn new(file: &GraphFile, input: Value) -> Result<RunPlan, MemberError> {
        check_graph(file)?;
        let Value::Object(graph) = file.to_value() else {
            return Err(MemberError::Graph("it is not a mapping".to_string()));
        };
        let steps = file.steps.iter().map(spec).collect::<Result<Vec<StepSpec>, MemberError>>()?;
        let work = serde_json::to_value(Work { graph, input });
        let work = work.map_err(|error| MemberError::Graph(error.to_string()))?;
        Ok(RunPlan { steps, work })
    }
}

/// Converts a step for the core.
fn spec(step: &StepDefinition) -> Result<StepSpec, MemberError> {
    let id = |id: &String| {
        StepId::new(id.as_str()).map_err(|error| MemberError::Graph(format!("in a cluster, {error}")))
    };
    let requirement = match step.on.clone().unwrap_or_default() {
        Placement::Any => Requirement::default(),
        Placement::Machine(name) => Requirement { machine: Some(name), ..Requirement::default() },
        Placement::Labels(labels) => Requirement { labels, ..Requirement::default() },
    };
    Ok(StepSpec {
        id: id(&step.id)?,
        after: step.depends_on.iter().map(id).collect::<Result<_, _>>()?,
        is_safe: false,
        on_machine_lost: match step.on_host_lost {
            OnHostLost::Wait => OnMachineLost::Wait,
            OnHostLost::Retry => OnMachineLost::Retry,
            OnHostLost::Fail => OnMachineLost::Fail,
        },
        requirement,
    })
}

/// Checks that the graph has nothing that only one server can do.
fn check_graph(file: &GraphFile) -> Result<(), MemberError> {
    let error = |problem: String| Err(MemberError::Graph(problem));
    if file.steps.is_empty() {
        return error("it has no steps".to_string());
    }
    if file.budget != BudgetDefinition::default() {
        return error("it has a budget: give the steps budgets instead".to_string());
    }
    if file.on_failure != OnFailure::default() {
        return error("`on_failure` must be `stop`".to_string());
    }
    if let Some(step) = file.steps.iter().find(|step| step.gate.is_some()) {
        return error(format!("step '{}' is a gate", step.id));
    }
    if let Some(step) = file.nested_graphs().find_map(GraphFile::placed_step) {
        return error(format!("step '{step}' of a nested graph has `on`: only steps of the outer graph can"));
    }
    if let Some(node) = shared_node(file) {
        return error(format!(
            "several steps use node '{node}', which keeps its state: each step gets a node of its own in a \
             cluster; create the node on a machine with 'nerve new', and remove it from the graph"
        ));
    }
    let definition = file.to_value();
    if without_secrets(definition.clone()) != definition {
        let problem = "a node has a secret in its `env`: set the variable in the environment of the members' servers \
                       instead";
        return error(problem.to_string());
    }
    Ok(())
}

/// Returns a node of the graph that keeps its state between the steps that use it.
fn shared_node(file: &GraphFile) -> Option<&str> {
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for node in file.steps.iter().filter_map(|step| step.node.as_deref()) {
        *uses.entry(node).or_default() += 1;
    }
    let is_shared = |node: &&str| {
        uses.get(node).is_some_and(|count| *count > 1)
            && file.nodes.get(*node).is_some_and(NodeDefinition::is_persistent)
    };
    uses.keys().find(|node| is_shared(node)).copied()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plan(yaml: &str) -> Result<RunPlan, MemberError> {
        RunPlan::new(&GraphFile::from_yaml(yaml, "g.yaml").unwrap(), json!({ "x": 1 }))
    }

    #[test]
    fn placements_become_requirements() {
        let yaml = "graph: g\nnodes: {sh: {type: bash}}\nsteps:\n\
            \x20 - {id: a, node: sh, input: echo, on: build, on_host_lost: retry}\n\
            \x20 - {id: b, node: sh, input: echo, on: {labels: [gpu]}, depends_on: [a], on_host_lost: fail}\n\
            \x20 - {id: c, node: me, input: hi, on: any}\n";
        let plan = plan(yaml).unwrap();
        let [a, b, c] = plan.steps.as_slice() else { panic!("{:?}", plan.steps) };
        assert_eq!(
            (a.requirement.machine.as_deref(), a.on_machine_lost),
            (Some("build"), OnMachineLost::Retry)
        );
        assert_eq!((b.requirement.labels.len(), b.on_machine_lost), (1, OnMachineLost::Fail));
        assert_eq!(b.after.first(), Some(&a.id));
        assert_eq!((&c.requirement, c.on_machine_lost), (&Requirement::default(), OnMachineLost::Wait));
        assert!(plan.steps.iter().all(|step| !step.is_safe));
        let work: Work = serde_json::from_value(plan.work).unwrap();
        assert_eq!((work.input, work.graph["graph"].as_str()), (json!({ "x": 1 }), Some("g")));
    }

    #[test]
    fn graph_that_needs_one_server_is_refused() {
        let steps = "steps: [{id: a, node: n, input: x}]\n";
        let claude =
            "nodes: {n: {type: claude}}\nsteps: [{id: a, node: n, input: x}, {id: b, node: n, input: y}]\n";
        for yaml in [
            "graph: g\nsteps: []\n",
            "graph: g\nsteps: [{id: My step, node: n}]\n",
            "graph: g\nsteps: [{id: a, gate: {question: ok}}]\n",
            &format!("graph: g\nbudget: {{max_steps: 3}}\n{steps}"),
            &format!("graph: g\non_failure: finish\n{steps}"),
            &format!("graph: g\nnodes: {{n: {{type: bash, env: {{API_KEY: s3cret}}}}}}\n{steps}"),
            &format!("graph: g\n{claude}"),
            "graph: g\nnodes: {n: {type: graph, graph: {graph: i, steps: [{id: b, node: m, on: x}]}}}\nsteps: [{id: a, node: n}]\n",
        ] {
            assert!(matches!(plan(yaml), Err(MemberError::Graph(_))), "{yaml}");
        }
        assert!(plan(&format!("graph: g\n{}", claude.replace("claude", "bash"))).is_ok());
    }
}
