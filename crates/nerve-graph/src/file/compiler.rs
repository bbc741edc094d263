//! Compiles a checked graph file into a runnable graph.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use nerve_node::budget::RunBudget;
use nerve_node::error::EngineError;
use nerve_types::name::MAX_NAME_CHARS;
use serde_json::{Value, json};

use super::inputs::complete;
use super::problem::GraphFileError;
use super::secrets;
use super::source_map::{Path, Report};
use super::templates::references::TemplateError;
use super::templates::{Expression, Templates};
use super::types::{
    BudgetDefinition, GateDefinition, GraphFile, NodeDefinition, PolicyDefinition, StepDefinition,
};
use crate::Graph;
use crate::executable::{Executable, Target};
use crate::function::FunctionNode;
use crate::gate::Gate;
use crate::journal;
use crate::policy::{ErrorPolicy, OnLimit};
use crate::step::Step;
use crate::template::TemplateNode;

/// A compiled graph and the nodes it defines.
#[derive(Debug, Clone)]
pub struct CompiledGraph {
    /// The graph. Its steps refer by name to the nodes below, and to others that the session must have.
    pub graph: Graph,
    /// Nodes to create in the session, including those of nested graphs, by the names that the steps use. If graphs use the same
    /// name, the outer one keeps it and the node of the inner one becomes `graph-node`.
    pub nodes: Vec<(String, NodeDefinition)>,
}

impl GraphFile {
    /// Returns the ids of the steps in a valid order of execution, or in that of the file if the graph is invalid.
    pub fn step_order(&self) -> Vec<String> {
        let order = self.compile().ok().and_then(|compiled| compiled.graph.execution_order().ok());
        order.unwrap_or_else(|| self.steps.iter().map(|step| step.id.clone()).collect())
    }

    /// Compiles the graph.
    ///
    /// # Errors
    /// All problems of the graph.
    pub fn compile(&self) -> Result<CompiledGraph, GraphFileError> {
        self.check()?;
        let mut compiler = Compiler::default();
        match compiler.graph(self, &Names::new(), &Digests::new(), "") {
            Ok(graph) => Ok(CompiledGraph { graph, nodes: compiler.nodes }),
            Err(message) => {
                // Unreachable without a bug: the file has been checked.
                let mut report = Report::new(&self.source_map);
                report.error(Path::Root, format!("compilation failed: {message}"));
                report.problems.finish(None)
            }
        }
    }
}

impl From<BudgetDefinition> for RunBudget {
    fn from(budget: BudgetDefinition) -> RunBudget {
        RunBudget {
            max_tokens: budget.max_tokens,
            max_time_ms: budget.max_time_ms,
            max_steps: budget.max_steps,
            max_api_calls: budget.max_api_calls,
            max_cost_usd: budget.max_cost_usd,
            asks_at_limit: budget.at_limit == Some(OnLimit::Ask),
        }
    }
}

/// Nodes, templates and nested graphs by the name that steps use.
type Names = HashMap<String, Target>;
/// Digests of node definitions by node name.
type Digests = HashMap<String, u64>;

#[derive(Default)]
struct Compiler {
    nodes: Vec<(String, NodeDefinition)>,
    taken: HashSet<String>,
}

impl Compiler {
    /// Compiles a graph. `outer` and `outer_digests`: nodes of the enclosing graph. `prefix`: the graph's name there.
    fn graph(
        &mut self,
        file: &GraphFile,
        outer: &Names,
        outer_digests: &Digests,
        prefix: &str,
    ) -> Result<Graph, String> {
        let digests = digests(file, outer_digests);
        let mut names = self.visible_nodes(file, outer, prefix)?;
        // Nested graphs see the nodes of this graph but not its graphs, so they cannot run themselves.
        let visible = names.clone();
        for (name, definition) in &file.nodes {
            let NodeDefinition::Graph(node) = definition else { continue };
            let Some(inner) = node.graph.as_deref() else {
                return Err(format!("node '{name}' has no graph"));
            };
            let inner = self.graph(inner, &visible, &digests, name)?;
            names.insert(name.clone(), Target::Executable(Arc::new(inner).into()));
        }
        let mut graph = Graph::new(&file.graph);
        graph.set_max_parallel(file.max_parallel as usize);
        graph.set_on_failure(file.on_failure);
        if file.budget != BudgetDefinition::default() {
            graph.set_budget(file.budget.into());
        }
        if let Some(inputs) = file.inputs.clone() {
            let id = file.graph.clone();
            graph.set_input(move |given| complete(&id, &inputs, given));
        }
        let mut templates = Templates::default();
        for definition in &file.steps {
            let step = step(definition, &names, &mut templates)
                .map_err(|TemplateError { message, .. }| format!("step '{}': {message}", definition.id))?
                .definition(digest(definition, &digests));
            add(&mut graph, definition, step, &names).map_err(|error| error.to_string())?;
        }
        templates.finish().map_err(|TemplateError { message, .. }| message)?;
        Ok(graph)
    }

    /// Returns the nodes visible in a file, except its nested graphs.
    fn visible_nodes(&mut self, file: &GraphFile, outer: &Names, prefix: &str) -> Result<Names, String> {
        let first = self.nodes.len();
        let mut names: Names = outer
            .iter()
            .filter(|(_, node)| !matches!(node, Target::Executable(Executable::Graph(_))))
            .map(|(name, node)| (name.clone(), node.clone()))
            .collect();
        for (name, definition) in &file.nodes {
            let resolved = match definition {
                NodeDefinition::Graph(_) => {
                    names.remove(name);
                    continue;
                }
                NodeDefinition::Template(node) => {
                    let node = TemplateNode::new(name, &node.template).map_err(|error| error.to_string())?;
                    Target::Executable(Arc::new(node).into())
                }
                _ => {
                    let unique = self.unique_name(name, prefix);
                    self.nodes.push((unique.clone(), definition.clone()));
                    Target::Name(unique.into())
                }
            };
            names.insert(name.clone(), resolved);
        }
        self.name_tools(first, &names);
        Ok(names)
    }

    /// Replaces the tool names of chat nodes by the names of these nodes in the session.
    fn name_tools(&mut self, first: usize, names: &Names) {
        let session = |name: &mut String| {
            if let Some(Target::Name(unique)) = names.get(name.as_str()) {
                *name = unique.to_string();
            }
        };
        for (_, definition) in &mut self.nodes[first..] {
            if let NodeDefinition::Chat(chat) = definition {
                let is_tool = |choice: &&mut String| chat.tools.contains(*choice);
                chat.tool_choice.as_mut().filter(is_tool).map(session);
                chat.tools.iter_mut().for_each(session);
            }
        }
    }

    /// Returns a free name: `name`, `prefix-name`, `prefix-name-2` …
    fn unique_name(&mut self, name: &str, prefix: &str) -> String {
        let mut unique = name.to_string();
        let mut number = 1;
        while !self.taken.insert(unique.clone()) {
            let ending = if number == 1 { String::new() } else { format!("-{number}") };
            let long = format!("{prefix}-{name}");
            // Names are ASCII, as checked before.
            let long = long.get(..(MAX_NAME_CHARS - ending.len()).min(long.len())).unwrap_or(&long);
            unique = format!("{}{ending}", long.trim_matches('-'));
            number += 1;
        }
        unique
    }
}

fn add(graph: &mut Graph, definition: &StepDefinition, step: Step, names: &Names) -> Result<(), EngineError> {
    let target = match (&definition.value, &definition.gate) {
        (Some(value), _) => Target::Executable(Arc::new(constant(&definition.id, value.clone())).into()),
        (None, Some(gate)) => Target::Executable(Arc::new(compile_gate(&definition.id, gate)).into()),
        (None, None) => target(names, definition.node.as_deref().unwrap_or_default()),
    };
    match target {
        Target::Executable(executable) => graph.add_step(executable, step)?,
        Target::Name(name) => graph.add_step_ref(&name, step)?,
    };
    Ok(())
}

/// Creates the node of a step with a fixed result.
fn constant(id: &str, value: Value) -> FunctionNode {
    FunctionNode::new(id, move |_| Ok(value.clone()))
}

/// Returns the target of a node's name, which the session has if the file does not define it.
fn target(names: &Names, node: &str) -> Target {
    names.get(node).cloned().unwrap_or_else(|| Target::Name(node.into()))
}

fn step(
    definition: &StepDefinition,
    names: &Names,
    templates: &mut Templates,
) -> Result<Step, TemplateError> {
    let mut step = Step::new(definition.id.as_str())
        .depends_on(definition.depends_on.iter().map(String::as_str))
        .on_dialog(definition.on_dialog)
        .on_resume(definition.on_resume);
    if let Some(parser) = definition.parser {
        step = step.parser(parser);
    }
    if let Some(policy) = &definition.error_policy {
        step = step.error_policy(error_policy(policy, names));
    }
    if definition.budget != BudgetDefinition::default() {
        step = step.sub_budget(definition.budget.into());
    }
    if let Some(when) = &definition.when {
        let when = Expression::compile(when)?;
        step = step.when(move |scope| when.holds(scope));
    }
    if let Some(foreach) = &definition.foreach {
        let foreach = Expression::compile(foreach)?;
        step = step.foreach(move |scope| foreach.list(scope), definition.parallel.unwrap_or(1) as usize);
    }
    if let Some(until) = &definition.until {
        let condition = Expression::compile(&until.condition)?;
        step = step.until(move |scope| condition.holds(scope), until.max_rounds);
    }
    with_input(step, definition, templates)
}

fn with_input(
    step: Step,
    definition: &StepDefinition,
    templates: &mut Templates,
) -> Result<Step, TemplateError> {
    if let Some(gate) = &definition.gate {
        let question = templates.add(&Value::String(gate.question.clone()))?;
        // A constant question is stored in the gate itself.
        return Ok(if question.fixed().is_some() {
            step
        } else {
            step.input_from(move |scope| question.render(scope))
        });
    }
    let input = templates.add(&definition.input)?;
    Ok(match input.fixed() {
        Some(Value::Null) => step,
        Some(fixed) => step.input(fixed.clone()),
        None => step.input_from(move |scope| input.render(scope)),
    })
}

fn compile_gate(id: &str, gate: &GateDefinition) -> Gate {
    let mut node = Gate::new(id, gate.question.as_str()).choices(gate.choices.iter().map(String::as_str));
    if let Some(default) = &gate.default {
        node = node.default_choice(default.as_str());
    }
    if let Some(timeout) = gate.timeout_seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    {
        node = node.timeout(timeout);
    }
    node
}

fn error_policy(policy: &PolicyDefinition, names: &Names) -> ErrorPolicy {
    ErrorPolicy {
        on_error: policy.on_error,
        retry_count: policy.retry_count,
        retry_delay: Duration::from_millis(policy.retry_delay_ms),
        retry_backoff: policy.retry_backoff,
        timeout: policy.timeout_ms.map(Duration::from_millis),
        fallback_value: policy.fallback_value.clone(),
        fallback_node: policy.fallback_node.as_deref().map(|node| target(names, node)),
    }
}

/// Returns a digest of a step's definition: its node, parser, gate, list and condition, without its input and dependencies.
fn digest(step: &StepDefinition, nodes: &Digests) -> u64 {
    let node = step.node.as_deref().map(|name| match nodes.get(name) {
        Some(digest) => Value::from(*digest),
        None => Value::from(name),
    });
    let mut definition = json!({
        "node": node,
        "parser": step.parser,
        "gate": step.gate,
        "foreach": step.foreach,
        "until": step.until,
    });
    // Absent otherwise, because journals have the digests of earlier versions.
    if let Some(value) = &step.value {
        definition["value"] = value.clone();
    }
    journal::key(0, None, &definition)
}

/// Returns the digests of all nodes that steps of a file can use, except nested graphs: their steps have their own digests.
fn digests(file: &GraphFile, outer_digests: &Digests) -> Digests {
    let mut digests = outer_digests.clone();
    for (name, definition) in &file.nodes {
        if matches!(definition, NodeDefinition::Graph(_)) {
            digests.remove(name);
            continue;
        }
        // A definition always has a JSON form.
        let mut definition = serde_json::to_value(definition).unwrap_or_default();
        // Journals do not store secrets: with them, no digest would match after a resume.
        secrets::redact_node(&mut definition);
        digests.insert(name.clone(), journal::key(0, None, &definition));
    }
    digests
}

#[cfg(test)]
mod tests {
    use super::{Executable, GraphFile, NodeDefinition, Target};

    /// Returns the digests of the steps of a file.
    fn digests(yaml: &str) -> Vec<u64> {
        let graph = GraphFile::from_yaml(yaml, "g").unwrap().compile().unwrap().graph;
        graph.list_steps().iter().map(|id| graph.get_step(id).unwrap().definition).collect()
    }

    #[test]
    fn inner_step_digest_covers_the_outer_node() {
        let base = "graph: g\nnodes:\n  c: {type: pty, command: cat, env: {API_KEY: x, PLAIN: y}}\n  in:\n    type: graph\n    graph: {graph: in, steps: [{id: a, node: c}]}\nsteps:\n  - {id: s, node: in}\n";
        let inner = |yaml: &str| {
            let graph = GraphFile::from_yaml(yaml, "g").unwrap().compile().unwrap().graph;
            match graph.get_step("s").unwrap().target() {
                Target::Executable(Executable::Graph(inner)) => inner.get_step("a").unwrap().definition,
                other => panic!("{other:?}"),
            }
        };
        let before = inner(base);
        assert_ne!(inner(&base.replace("command: cat", "command: tac")), before);
        assert_ne!(inner(&base.replace("PLAIN: y", "PLAIN: z")), before);
        // A secret is not stored, so it does not count.
        assert_eq!(inner(&base.replace("API_KEY: x, ", "")), before);
    }

    #[test]
    fn tools_get_their_session_names() {
        let chat = "{type: chat, model: m, tools: [sh], tool_choice: sh}";
        let yaml = format!(
            "graph: g\nnodes:\n  c: {chat}\n  sh: {{type: bash}}\n  in:\n    type: graph\n    graph: {{graph: in, nodes: {{c: {chat}, sh: {{type: pty}}}}, steps: []}}\nsteps: []\n"
        );
        let compiled = GraphFile::from_yaml(&yaml, "g").unwrap().compile().unwrap();
        let tools: Vec<(&str, &str, &str)> = compiled
            .nodes
            .iter()
            .filter_map(|(name, node)| match node {
                NodeDefinition::Chat(chat) => {
                    Some((name.as_str(), chat.tools[0].as_str(), chat.tool_choice.as_deref().unwrap()))
                }
                _ => None,
            })
            .collect();
        assert_eq!(tools, [("c", "sh", "sh"), ("in-c", "in-sh", "in-sh")]);
    }

    #[test]
    fn step_digest_covers_how_it_is_done() {
        let base = "graph: g\nnodes:\n  c: {type: pty, command: cat}\nsteps:\n  - {id: a, node: c, input: x}\n  - {id: b, node: c, depends_on: a}\n  - {id: g, gate: {question: q}}\n";
        let before = digests(base);
        // Input, dependencies and id do not count.
        for same in [
            base.replace("input: x", "input: y"),
            base.replace(", depends_on: a", ""),
            base.replace("id: a, node", "id: z, node").replace("on: a", "on: z"),
        ] {
            assert_eq!(digests(&same), before, "{same}");
        }
        assert_eq!(before[0], before[1]);
        for (other, changed) in [
            (base.replace("command: cat", "command: tac"), vec![0, 1]),
            (base.replace("input: x", "input: x, parser: none"), vec![0]),
            (base.replace("question: q", "question: r"), vec![2]),
            (base.replace("depends_on: a", "depends_on: a, foreach: '[1]'"), vec![1]),
            (
                base.replace("depends_on: a", "depends_on: a, until: {condition: 'true', max_rounds: 2}"),
                vec![1],
            ),
            (base.replace("node: c, depends_on", "node: d, depends_on"), vec![1]),
        ] {
            let after = digests(&other);
            let differ: Vec<usize> = (0..3).filter(|place| before[*place] != after[*place]).collect();
            assert_eq!(differ, changed, "{other}");
        }
    }
}
