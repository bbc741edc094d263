//! Validates a graph before it runs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use nerve_node::NodeHandle;

use super::Graph;
use super::executable::{Executable, Target};
use super::plan::{Dependencies, Plan};
use super::step::Step;

/// Maximum length of a step id, in bytes.
const MAX_ID_BYTES: usize = 200;

/// Characters that separate the parts of a step path: `outer/inner`, `each[3]`, `loop#2`.
const RESERVED_CHARS: [char; 4] = ['/', '[', ']', '#'];

/// Finds a node or a graph by its name.
type Lookup<'a> = dyn Fn(&str) -> Option<Executable> + 'a;

impl Graph {
    /// Returns the plan of a valid graph, otherwise its problems. `lookup` finds the nodes that steps name.
    pub(super) fn check(&self, lookup: &Lookup<'_>) -> Result<Arc<Plan>, Vec<String>> {
        let plan = match self.plan.get() {
            Some(plan) => plan,
            None => {
                let plan = Arc::new(self.check_itself()?);
                self.plan.get_or_init(|| plan)
            }
        };
        let problems = self.find_shared_nodes(plan, lookup);
        if problems.is_empty() { Ok(Arc::clone(plan)) } else { Err(problems) }
    }

    /// Runs the checks that do not depend on the nodes that steps name.
    fn check_itself(&self) -> Result<Plan, Vec<String>> {
        let mut problems = Vec::new();
        let mut deps = Dependencies::with_capacity(self.steps.len());
        for step in self.steps.iter() {
            let id = &step.id;
            problems.extend(id_problem(id, quoted));
            if step.depends_on.contains(id) {
                problems.push(format!("Step '{id}' depends on itself"));
            }
            if step.input.is_some() && step.input_fn.is_some() {
                problems.push(format!("Step '{id}': input and input_fn are mutually exclusive"));
            }
            for dep in &step.depends_on {
                match self.names.get(dep) {
                    Some(place) => deps.add(*place),
                    None => problems.push(format!("Step '{id}' depends on unknown step '{dep}'")),
                }
            }
            deps.end_step();
            let rounds =
                step.flow.as_ref().and_then(|flow| flow.until.as_ref()).map(|until| until.max_rounds);
            if rounds == Some(0) {
                problems.push(format!("Step '{id}': until needs max_rounds of at least 1"));
            }
            let policy = step.error_policy.iter().flat_map(|policy| policy.problems());
            let budget = step.sub_budget.iter().flat_map(|budget| budget.problems());
            problems.extend(policy.chain(budget).map(|problem| format!("Step '{id}': {problem}")));
        }
        if self.until.as_ref().is_some_and(|until| until.max_rounds == 0) {
            problems.push("until needs max_rounds of at least 1".to_string());
        }
        problems.extend(self.budget.iter().flat_map(|budget| budget.problems()));
        if !problems.is_empty() {
            return Err(problems);
        }
        let plan = Plan::from_dependencies(&deps);
        match plan.order() {
            Ok(_) => Ok(plan),
            Err(cycle) => {
                let ids: Vec<&str> = cycle.iter().map(|step| &*self.steps[*step as usize].id).collect();
                Err(vec![format!("Cycle detected: {}", ids.join(" → "))])
            }
        }
    }

    /// Finds steps that could use a stateful node at the same time. Such a node runs one turn at a time.
    fn find_shared_nodes(&self, plan: &Plan, lookup: &Lookup<'_>) -> Vec<String> {
        let mut problems = Vec::new();
        let mut users: HashMap<*const (), (String, HashSet<u32>)> = HashMap::new();
        for (place, step) in self.steps.iter().enumerate() {
            if is_stateless(step) {
                continue;
            }
            for node in stateful_nodes(step, lookup) {
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
        let order = if shared.is_empty() { Vec::new() } else { plan.order().unwrap_or_default() };
        for (node, steps) in shared {
            let mut uses = vec![false; self.steps.len()];
            for step in steps {
                uses[step as usize] = true;
            }
            if let Some((one, other)) = plan.find_unordered(&order, &uses) {
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
}

/// Returns why an id of a step is invalid. `quote` formats it for the message.
pub(crate) fn id_problem(id: &str, quote: impl Fn(&str) -> String) -> Option<String> {
    if is_plain_id(id) {
        // The common case.
        None
    } else if id.trim().is_empty() {
        Some("Empty step_id not allowed".to_string())
    } else if id.len() > MAX_ID_BYTES {
        let (shown, bytes) = (quote(id), id.len());
        Some(format!("Step {shown}: an id has at most {MAX_ID_BYTES} bytes, this one {bytes}"))
    } else if id.contains(RESERVED_CHARS) || id.chars().any(char::is_control) {
        Some(format!("Step {}: an id cannot have / [ ] # or control characters", quote(id)))
    } else {
        None
    }
}

/// Quotes an id, which may be long if it is invalid.
fn quoted(id: &str) -> String {
    const SHOWN: usize = 60;
    let begin: String = id.chars().take(SHOWN).collect();
    let rest = if begin.len() < id.len() { "…" } else { "" };
    format!("'{}{rest}'", begin.escape_debug())
}

/// Returns true if an id is certainly valid.
fn is_plain_id(id: &str) -> bool {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !RESERVED_CHARS.contains(&char::from(*byte));
    !id.is_empty() && id.len() <= MAX_ID_BYTES && id.as_bytes().iter().all(plain)
}

/// Returns true if the step uses only a stateless node, which needs no further check.
fn is_stateless(step: &Step) -> bool {
    let Target::Executable(target) = &step.target else { return false };
    step.error_policy.is_none() && !target.is_persistent() && !target.is_graph()
}

/// Returns the stateful nodes of a step: its own, its fallback, and those of nested graphs; also by name.
fn stateful_nodes(step: &Step, lookup: &Lookup<'_>) -> Vec<NodeHandle> {
    let mut nodes = Vec::new();
    let mut graphs: Vec<Graph> = Vec::new();
    // Graphs that refer to each other by name can form a cycle.
    let mut seen: HashSet<*const Vec<Step>> = HashSet::new();
    let mut visit = |step: &Step, graphs: &mut Vec<Graph>| {
        for target in step.targets() {
            let resolved;
            let executable = match target {
                Target::Executable(executable) => executable,
                Target::Name(name) => match lookup(name) {
                    Some(executable) => {
                        resolved = executable;
                        &resolved
                    }
                    None => continue,
                },
            };
            match executable {
                Executable::Graph(graph) => graphs.push(Graph::clone(graph)),
                Executable::Node(node) if node.is_persistent() => nodes.push(Arc::clone(node)),
                _ => {}
            }
        }
    };
    visit(step, &mut graphs);
    while let Some(graph) = graphs.pop() {
        if seen.insert(Arc::as_ptr(&graph.steps)) {
            graph.steps.iter().for_each(|step| visit(step, &mut graphs));
        }
    }
    nodes
}
