//! What is wrong with a graph, in the words of the first nerve (facts: agent capabilities).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Graph;
use super::plan::Plan;
use super::step::Target;
use crate::node::NodeHandle;
use crate::session::Session;

/// Ids are part of paths: `outer/inner`, `each[3]`, `loop#2`.
const NOT_IN_IDS: [char; 4] = ['/', '[', ']', '#'];

impl Graph {
    /// The plan of a graph that is valid, else what is wrong with it.
    pub(super) fn check(&self, session: Option<&Session>) -> Result<Plan, Vec<String>> {
        let mut problems = Vec::new();
        let mut deps: Vec<Vec<u32>> = Vec::with_capacity(self.steps.len());
        for step in self.steps.iter() {
            let id = &step.id;
            if id.trim().is_empty() {
                problems.push("Empty step_id not allowed".to_string());
            } else if id.contains(NOT_IN_IDS) || id.chars().any(char::is_control) {
                problems.push(format!(
                    "Step '{}': an id cannot have / [ ] # or control characters",
                    id.escape_debug()
                ));
            }
            if step.depends_on.contains(id) {
                problems.push(format!("Step '{id}' depends on itself"));
            }
            if step.input.is_some() && step.input_fn.is_some() {
                problems.push(format!("Step '{id}': input and input_fn are mutually exclusive"));
            }
            let mut known = Vec::with_capacity(step.depends_on.len());
            for dep in &step.depends_on {
                match self.names.get(dep) {
                    Some(place) if !known.contains(place) => known.push(*place),
                    Some(_) => {}
                    None => problems.push(format!("Step '{id}' depends on unknown step '{dep}'")),
                }
            }
            deps.push(known);
            let policy = step.error_policy.iter().flat_map(|policy| policy.problems());
            let budget = step.sub_budget.iter().flat_map(|budget| budget.problems());
            problems.extend(policy.chain(budget).map(|problem| format!("Step '{id}': {problem}")));
        }
        problems.extend(self.budget.iter().flat_map(|budget| budget.problems()));
        let plan = Plan::new(&deps);
        if problems.is_empty() {
            match plan.order() {
                Ok(order) => problems.extend(self.shared_nodes(&plan, &order, session)),
                Err(cycle) => {
                    let ids: Vec<&str> = cycle.iter().map(|step| &*self.steps[*step as usize].id).collect();
                    problems.push(format!("Cycle detected: {}", ids.join(" → ")));
                }
            }
        }
        if problems.is_empty() { Ok(plan) } else { Err(problems) }
    }

    /// A persistent node does one thing at a time: steps on it that nothing keeps apart would get in each other's way.
    fn shared_nodes(&self, plan: &Plan, order: &[u32], session: Option<&Session>) -> Vec<String> {
        let mut problems = Vec::new();
        let mut users: HashMap<*const (), (String, HashSet<u32>)> = HashMap::new();
        for (place, step) in self.steps.iter().enumerate() {
            for node in self.persistent_of(&step.target, session) {
                let many = step.flow.as_ref().and_then(|flow| flow.foreach.as_ref());
                if many.is_some_and(|foreach| foreach.parallel > 1) {
                    problems.push(format!(
                        "Step '{}': foreach cannot run in parallel on '{}', which does one thing at a time",
                        step.id,
                        node.id()
                    ));
                }
                let of_node = users.entry(Arc::as_ptr(&node).cast()).or_default();
                of_node.0 = node.id().to_string();
                of_node.1.insert(place as u32);
            }
        }
        if self.max_parallel < 2 {
            return problems;
        }
        let mut shared: Vec<(String, HashSet<u32>)> =
            users.into_values().filter(|(_, steps)| steps.len() > 1).collect();
        shared.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (node, steps) in shared {
            let mut uses = vec![false; self.steps.len()];
            for step in steps {
                uses[step as usize] = true;
            }
            if let Some((one, other)) = plan.unordered(order, &uses) {
                let id = |step: u32| &self.steps[step as usize].id;
                problems.push(format!(
                    "Steps '{}' and '{}' could run at the same time on node '{node}': make one depend on the other",
                    id(one),
                    id(other)
                ));
            }
        }
        problems
    }

    fn persistent_of(&self, target: &Target, session: Option<&Session>) -> Vec<NodeHandle> {
        let node = match target {
            Target::Node(node) => Arc::clone(node),
            Target::Name(name) => match session.and_then(|session| session.get(name)) {
                Some(node) => node,
                None => return Vec::new(),
            },
        };
        match node.as_graph() {
            Some(graph) => graph.collect_persistent_nodes(),
            None if node.persistent() => vec![node],
            None => Vec::new(),
        }
    }
}
