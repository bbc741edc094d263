//! From a file that is checked to a graph that runs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use nerve_record::name::MAX_NAME_CHARS;
use serde_json::{Value, json};

use super::inputs::complete;
use super::source_map::{Path, Report};
use super::problem::GraphFileError;
use super::secrets;
use super::templates::references::Malformed;
use super::templates::{Expression, Templates};
use super::types::{
    BudgetDefinition, GateDefinition, GraphFile, NodeDefinition, OnErrorName, OnFailure, OnResume,
    ParserName, PolicyDefinition, StepDefinition,
};
use crate::budget::Budget;
use crate::error::EngineError;
use crate::graph::journal;
use crate::graph::step::{self, Step, Target};
use crate::graph::{self, Graph};
use crate::node::NodeHandle;
use crate::node::gate::GateNode;
use crate::node::template::TemplateNode;
use crate::policy::{ErrorPolicy, OnError};

/// A graph, and the nodes it brings along.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The graph. Its steps name the nodes below, and others that the session must have.
    pub graph: Graph,
    /// Terminals and bash nodes under the names that steps have for them, those of graphs in it too. A name that two graphs use is
    /// given to the outer one; the other's node is `graph-node` then.
    pub nodes: Vec<(String, NodeDefinition)>,
}

impl GraphFile {
    /// The graph it says.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn compile(&self) -> Result<Compiled, GraphFileError> {
        self.check()?;
        let mut compiler = Compiler::default();
        match compiler.graph(self, &Names::new(), &Digests::new(), "") {
            Ok(graph) => Ok(Compiled { graph, nodes: compiler.nodes }),
            Err(message) => {
                // Checked above: only a bug comes here.
                let mut report = Report::new(&self.origin);
                report.say(Path::Root, format!("it cannot be compiled: {message}"));
                report.problems.finish(None)
            }
        }
    }
}

impl From<ParserName> for nerve_term::parse::ParserKind {
    fn from(name: ParserName) -> nerve_term::parse::ParserKind {
        name.kind()
    }
}

impl From<BudgetDefinition> for Budget {
    fn from(budget: BudgetDefinition) -> Budget {
        Budget {
            max_tokens: budget.max_tokens,
            max_time_seconds: budget.max_time_seconds,
            max_steps: budget.max_steps,
            max_api_calls: budget.max_api_calls,
            max_cost_dollars: budget.max_cost_dollars,
        }
    }
}

/// Who a name stands for.
#[derive(Clone)]
enum Named {
    /// A node of the session.
    Session(Arc<str>),
    /// A text with the input in it.
    Template(NodeHandle),
    /// A graph.
    Graph(NodeHandle),
}

type Names = HashMap<String, Named>;
/// How nodes are defined, by the names that steps have for them.
type Digests = HashMap<String, u64>;

#[derive(Default)]
struct Compiler {
    nodes: Vec<(String, NodeDefinition)>,
    taken: HashSet<String>,
}

impl Compiler {
    /// `outer` and `around`: what is named around it. `prefix`: what it is called there.
    fn graph(
        &mut self,
        file: &GraphFile,
        outer: &Names,
        around: &Digests,
        prefix: &str,
    ) -> Result<Graph, String> {
        let digests = digests(file, around);
        let mut names = self.own_nodes(file, outer, prefix)?;
        // Graphs in it see its nodes, but no graphs: they could run themselves.
        let seen = names.clone();
        for (name, definition) in &file.nodes {
            let NodeDefinition::Graph(node) = definition else { continue };
            let Some(inner) = node.graph.as_deref() else {
                return Err(format!("node '{name}' has no graph"));
            };
            let handle: NodeHandle = Arc::new(self.graph(inner, &seen, &digests, name)?);
            names.insert(name.clone(), Named::Graph(handle));
        }
        let mut graph = Graph::new(&file.graph);
        graph.set_max_parallel(file.max_parallel as usize);
        graph.set_on_failure(match file.on_failure {
            OnFailure::Stop => graph::OnFailure::Stop,
            OnFailure::Finish => graph::OnFailure::Finish,
        });
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
                .map_err(|Malformed { message, .. }| format!("step '{}': {message}", definition.id))?
                .definition(digest(definition, &digests));
            add(&mut graph, definition, step, &names).map_err(|error| error.to_string())?;
        }
        templates.finish().map_err(|Malformed { message, .. }| message)?;
        Ok(graph)
    }

    /// The nodes of a file that are no graphs, and what is seen of those around it.
    fn own_nodes(&mut self, file: &GraphFile, outer: &Names, prefix: &str) -> Result<Names, String> {
        let first = self.nodes.len();
        let mut names: Names = outer
            .iter()
            .filter(|(_, named)| !matches!(named, Named::Graph(..)))
            .map(|(name, named)| (name.clone(), named.clone()))
            .collect();
        for (name, definition) in &file.nodes {
            let named = match definition {
                NodeDefinition::Graph(_) => {
                    names.remove(name);
                    continue;
                }
                NodeDefinition::Template(node) => {
                    let node = TemplateNode::new(name, &node.template).map_err(|error| error.to_string())?;
                    Named::Template(Arc::new(node))
                }
                _ => {
                    let unique = self.unique(name, prefix);
                    self.nodes.push((unique.clone(), definition.clone()));
                    Named::Session(unique.into())
                }
            };
            names.insert(name.clone(), named);
        }
        self.name_tools(first, &names);
        Ok(names)
    }

    /// Models know the nodes they use by the names that those have in the session.
    fn name_tools(&mut self, first: usize, names: &Names) {
        let session = |name: &mut String| {
            if let Some(Named::Session(unique)) = names.get(name.as_str()) {
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

    /// A name that no other node has: `name`, `prefix-name`, `prefix-name-2` …
    fn unique(&mut self, name: &str, prefix: &str) -> String {
        let mut unique = name.to_string();
        let mut number = 1;
        while !self.taken.insert(unique.clone()) {
            let ending = if number == 1 { String::new() } else { format!("-{number}") };
            let long = format!("{prefix}-{name}");
            // Names are ASCII: checked.
            let long = long.get(..(MAX_NAME_CHARS - ending.len()).min(long.len())).unwrap_or(&long);
            unique = format!("{}{ending}", long.trim_matches('-'));
            number += 1;
        }
        unique
    }
}

fn add(graph: &mut Graph, definition: &StepDefinition, step: Step, names: &Names) -> Result<(), EngineError> {
    match (&definition.gate, definition.node.as_deref()) {
        (Some(gate), _) => graph.add_step(Arc::new(gate_node(&definition.id, gate)), step)?,
        (None, node) => match names.get(node.unwrap_or_default()) {
            Some(Named::Session(name)) => graph.add_step_ref(name, step)?,
            Some(Named::Template(node) | Named::Graph(node)) => graph.add_step(Arc::clone(node), step)?,
            None => graph.add_step_ref(node.unwrap_or_default(), step)?,
        },
    };
    Ok(())
}

fn step(definition: &StepDefinition, names: &Names, templates: &mut Templates) -> Result<Step, Malformed> {
    let mut step = Step::new(definition.id.as_str())
        .depends_on(definition.depends_on.iter().map(String::as_str))
        .on_resume(match definition.on_resume {
            OnResume::Ask => step::OnResume::Ask,
            OnResume::Rerun => step::OnResume::Rerun,
        });
    if let Some(parser) = definition.parser {
        step = step.parser(parser.kind());
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

fn with_input(step: Step, definition: &StepDefinition, templates: &mut Templates) -> Result<Step, Malformed> {
    if let Some(gate) = &definition.gate {
        let question = templates.add(&Value::String(gate.question.clone()))?;
        // A question without templates is the gate's own.
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

fn gate_node(id: &str, gate: &GateDefinition) -> GateNode {
    let mut node = GateNode::new(id, gate.question.as_str()).choices(gate.choices.iter().map(String::as_str));
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
        on_error: match policy.on_error {
            OnErrorName::Fail => OnError::Fail,
            OnErrorName::Retry => OnError::Retry,
            OnErrorName::Skip => OnError::Skip,
            OnErrorName::Fallback => OnError::Fallback,
        },
        retry_count: policy.retry_count,
        retry_delay: Duration::from_millis(policy.retry_delay_ms),
        retry_backoff: policy.retry_backoff,
        timeout: policy.timeout_ms.map(Duration::from_millis),
        fallback_value: policy.fallback_value.clone(),
        fallback_node: policy.fallback_node.as_deref().map(|node| match names.get(node) {
            Some(Named::Session(name)) => Target::Name(Arc::clone(name)),
            Some(Named::Template(node) | Named::Graph(node)) => Target::Node(Arc::clone(node)),
            None => Target::Name(node.into()),
        }),
    }
}

/// Changes when a step is to be done in another way: by another node, with another parser, another gate, list or condition. What it is
/// given and what it waits for are no part of it.
fn digest(step: &StepDefinition, nodes: &Digests) -> u64 {
    let node = step.node.as_deref().map(|name| match nodes.get(name) {
        Some(digest) => Value::from(*digest),
        None => Value::from(name),
    });
    let definition = json!({
        "node": node,
        "parser": step.parser,
        "gate": step.gate,
        "foreach": step.foreach,
        "until": step.until,
    });
    journal::key(0, None, &definition)
}

/// The nodes that the steps of a file can name, those around it too. Graphs are none of them: their steps have digests of their own.
fn digests(file: &GraphFile, around: &Digests) -> Digests {
    let mut digests = around.clone();
    for (name, definition) in &file.nodes {
        if matches!(definition, NodeDefinition::Graph(_)) {
            digests.remove(name);
            continue;
        }
        // A definition always has JSON.
        let mut definition = serde_json::to_value(definition).unwrap_or_default();
        // A journal does not keep them: with them, no step would be known again.
        secrets::forget(&mut definition);
        digests.insert(name.clone(), journal::key(0, None, &definition));
    }
    digests
}

#[cfg(test)]
mod tests {
    use super::{GraphFile, NodeDefinition};

    /// The digests of the steps of a file.
    fn digests(yaml: &str) -> Vec<u64> {
        let graph = GraphFile::from_yaml(yaml, "g").unwrap().compile().unwrap().graph;
        graph.list_steps().iter().map(|id| graph.get_step(id).unwrap().definition).collect()
    }

    #[test]
    fn a_step_in_a_graph_in_it_is_done_by_the_node_around_it() {
        let base = "graph: g\nnodes:\n  c: {type: pty, command: cat, env: {API_KEY: x, PLAIN: y}}\n  in:\n    type: graph\n    graph: {graph: in, steps: [{id: a, node: c}]}\nsteps:\n  - {id: s, node: in}\n";
        let inner = |yaml: &str| {
            let graph = GraphFile::from_yaml(yaml, "g").unwrap().compile().unwrap().graph;
            match graph.get_step("s").unwrap().target() {
                crate::graph::step::Target::Node(node) => {
                    node.as_graph().unwrap().get_step("a").unwrap().definition
                }
                other => panic!("{other:?}"),
            }
        };
        let before = inner(base);
        assert_ne!(inner(&base.replace("command: cat", "command: tac")), before);
        assert_ne!(inner(&base.replace("PLAIN: y", "PLAIN: z")), before);
        // It is not kept, so it cannot count.
        assert_eq!(inner(&base.replace("API_KEY: x, ", "")), before);
    }

    #[test]
    fn a_models_tools_have_the_names_of_the_session() {
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
    fn a_steps_digest_is_of_how_it_is_done() {
        let base = "graph: g\nnodes:\n  c: {type: pty, command: cat}\nsteps:\n  - {id: a, node: c, input: x}\n  - {id: b, node: c, depends_on: a}\n  - {id: g, gate: {question: q}}\n";
        let before = digests(base);
        // What it is given, what it waits for, and what it is called are no part of it.
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
