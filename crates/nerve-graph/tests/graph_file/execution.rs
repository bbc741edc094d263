//! Execution of files: templates, conditions, lists, loops, gates and nested graphs.

use std::sync::Arc;

use nerve_graph::GraphRun;
use nerve_graph::context::RunContext;
use nerve_graph::file::{CompiledGraph, GraphFile};
use nerve_graph::function::FunctionNode;
use nerve_graph::session::Session;
use nerve_node::context::TurnContext;
use serde_json::{Value, json};

/// Runs a file with nodes that return their input (`echo`), a response (`agent`), or an error (`bad`).
async fn run(yaml: &str, input: Value) -> GraphRun {
    let file = GraphFile::from_yaml(yaml, "g.yaml").unwrap();
    let input = file.input(input).unwrap();
    let session = Session::new("test");
    let echo = FunctionNode::new("echo", |context: &TurnContext| Ok(context.input.clone()));
    let agent = FunctionNode::new("agent", |context: &TurnContext| {
        let text = context.input.as_str().unwrap_or_default();
        Ok(json!({"raw": text, "text": text, "sections": [], "success": true, "output": {"n": text.len()}}))
    });
    session.register(Arc::new(echo), None).unwrap();
    session.register(Arc::new(agent), None).unwrap();
    let context = RunContext::new(&session).with_input(input);
    file.compile().unwrap().graph.run(&context).await
}

async fn results(yaml: &str, input: Value) -> Value {
    let run = run(yaml, input).await;
    assert!(run.error.is_none(), "{}", run.error.unwrap());
    Value::Object(run.results)
}

async fn error(yaml: &str, input: Value) -> String {
    run(yaml, input).await.error.unwrap().to_string()
}

#[tokio::test]
async fn texts_in_inputs_are_rendered() {
    let yaml = "
graph: g
inputs: {task: {}, words: {default: [a b, c]}}
steps:
  - {id: ask, node: agent, input: 'Do {{ input.task }}!'}
  - id: all
    node: echo
    depends_on: [ask]
    input:
      prints: '{{ steps.ask }} = {{ steps.ask.text }} = {{ upstream.ask }}'
      deep: [1, true, null, {n: '{{ steps.ask.output.n + 1 }}'}]
      shell: 'grep {{ steps.ask | sh }} {{ input.words | sh }}'
      json: '{{ input | json }}'
      tag: '{{ steps.ask.text | tojson }} <b> & ''q'''
      lines: \"a\\n{{ input.task }}\\n\"
";
    assert_eq!(
        results(yaml, json!({"task": "it's \"5\" <now>"})).await["all"],
        json!({
            "prints": "Do it's \"5\" <now>! = Do it's \"5\" <now>! = Do it's \"5\" <now>!",
            "deep": [1, true, null, {"n": "19"}],
            "shell": "grep 'Do it'\\''s \"5\" <now>!' 'a b' c",
            "json": "{\"task\":\"it's \\\"5\\\" <now>\",\"words\":[\"a b\",\"c\"]}",
            "tag": "\"Do it's \\\"5\\\" <now>!\" <b> & 'q'",
            "lines": "a\nit's \"5\" <now>\n",
        })
    );
}

#[tokio::test]
async fn conditions_lists_and_loops_work() {
    let yaml = "
graph: g
steps:
  - {id: list, node: agent, input: \"one\\ntwo\"}
  - {id: no, node: echo, when: \"'three' in steps.list.text\", depends_on: list, input: x}
  - {id: yes, node: echo, when: steps.no is none, depends_on: [list, no], input: x}
  - {id: each, node: echo, foreach: steps.list.text | lines, depends_on: list, input: '{{ index }}:{{ item }}', parallel: 2}
  - {id: plain, node: echo, foreach: input.items, input: {got: '{{ item.n }}'}}
  - {id: parsed, node: echo, foreach: \"input.json | fromjson\", input: '{{ item }}'}
  - id: loop
    node: agent
    until: {condition: \"result.text == 'rrr'\", max_rounds: 5}
    input: \"{{ result.text if round > 1 else '' }}r\"
";
    let input = json!({"items": [{"n": 1}, {"n": 2}], "json": "[1, \"x\"]"});
    let results = results(yaml, input).await;
    assert_eq!(results["no"], json!(null));
    assert_eq!(results["yes"], json!("x"));
    assert_eq!(results["each"], json!(["0:one", "1:two"]));
    assert_eq!(results["plain"], json!([{"got": "1"}, {"got": "2"}]));
    assert_eq!(results["parsed"], json!(["1", "x"]));
    assert_eq!(results["loop"]["text"], json!("rrr"));
}

#[tokio::test]
async fn undefined_values_are_reported() {
    let step = |fields: &str| {
        format!(
            "graph: g\nsteps:\n  - {{id: a, node: echo}}\n  - {{id: x, node: echo, depends_on: a, {fields}}}\n"
        )
    };
    for (fields, expected) in [
        ("input: 'a {{ input.nope }}'", "`input.nope` has no value"),
        ("input: 'a {{ steps.a.text.deep }}'", "has no value"),
        ("when: input.nope", "when: the expression has no value"),
        ("when: input.nope > 1", "has no value"),
        (
            "foreach: input.text",
            "foreach: expected a list, found the text \"hi\" (these filters turn a text into a list: lines, split, fromjson)",
        ),
        ("foreach: input", "foreach: expected a list, found a mapping"),
        ("input: '{{ input.text | fromjson }}'", "invalid JSON"),
        (
            "input: '{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}'",
            "the template takes too long",
        ),
    ] {
        let message = error(&step(fields), json!({"text": "hi"})).await;
        assert!(message.contains(expected), "{fields}: {message}");
    }
}

/// Each form would take gigabytes, minutes or the whole stack without limits.
#[tokio::test]
async fn oversized_templates_are_rejected_with_their_position() {
    for template in [
        "{{ '%1000000000000s'|format(1)|length }}",
        "{{ '%.900000000f'|format(1) }}",
        "{{ '%*s'|format(2000000000, 'x') }}",
        "{{ input|indent(1000000000, true) }}",
        "{{ input|indent(width=1000000000, first=true) }}",
        "{% set b = input * 10000 %}{{ b|replace('t', b) }}",
        "{{ [1]|batch(1000000000, 0) }}",
        "{{ [1]|slice(1000000000) }}",
        "{{ range(100000)|join('-' * 1000) }}",
        "{{ range(100000)|map('string')|length }}{% for i in range(100000) %}{{ input * 10000 }}{% endfor %}",
        "{% set n = namespace(x=input) %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}",
        "{% set n = namespace(x=input) %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
        "{% set n = namespace(x=[input]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
        "{% set n = namespace(x=[]) %}{% for i in range(100000) %}{% set n.x = [n.x] %}{% endfor %}",
        "{% set n = namespace(x={}) %}{% for i in range(100000) %}{% set n.x = n.x|chain({i: 1}) %}{% endfor %}",
        "{% set x %}{% for i in range(100000) %}{{ range(100000)|list }}{% endfor %}{% endset %}{{ x }}",
        "{{ input * 100000000 }}",
        "{{ [input] * 100000000 }}",
        "{{ (input, 1) * 100000000 }}",
        "{{ range(1000000000)|list }}",
        "{% for i in range(100000) %}{% for j in range(100000) %}{{ (input * 1000000)[0] }}{% endfor %}{% endfor %}",
        "{{ (input * 1000000)|list }}",
    ] {
        let yaml =
            json!({"graph": "g", "nodes": {}, "steps": [{"id": "x", "node": "echo", "input": template}]});
        let message = error(&yaml.to_string(), json!("text")).await;
        let is_limit = ["limit exceeded", "takes too long", "range has too many"]
            .iter()
            .any(|limit| message.contains(limit));
        assert!(is_limit, "{template}: {message}");
        assert!(
            message.contains("range has") || message.contains("(line 1, column "),
            "{template}: {message}"
        );
    }
}

#[tokio::test]
async fn namespaces_are_used_by_attribute_only() {
    let step = |input: &str| {
        json!({"graph": "g", "steps": [{"id": "x", "node": "echo", "input": input}]}).to_string()
    };
    for cycle in ["{% set n.n = n %}", "{{ n }}", "{{ n ~ '' }}", "{{ [n] }}", "{{ n|json }}", "{{ n == n }}"]
    {
        let message = error(&step(&format!("{{% set n = namespace(a=1) %}}{cycle}")), json!(1)).await;
        assert!(message.contains("namespace"), "{cycle}: {message}");
    }
    let sum = "{% set n = namespace(a=0) %}{% for i in range(4) %}{% set n.a = n.a + i if i else n.a * 2 %}{% endfor %}{{ n.a }}";
    assert_eq!(results(&step(sum), json!(1)).await, json!({"x": "6"}));
}

#[test]
fn oversized_constants_are_rejected_when_loading() {
    for input in [
        "{{ 'x' * 90000000 }}",
        "{{ [1] * 90000000 }}",
        "{{ (1, 2) * 90000000 }}",
        "{{ ('x' * 900000) ~ ('x' * 900000) }}",
    ] {
        let yaml = json!({"graph": "g", "steps": [{"id": "x", "node": "echo", "input": input}]}).to_string();
        let message = GraphFile::from_yaml(&yaml, "g.yaml").unwrap_err().to_string();
        assert!(message.contains("constant expressions exceed"), "{input}: {message}");
    }
}

#[tokio::test]
async fn nested_graph_gets_its_defaults() {
    let yaml = "
graph: outer
nodes:
  words: {type: template, template: '<{{ input }}>'}
  sub:
    type: graph
    graph:
      graph: inner
      inputs: {task: {}, how: {default: well}}
      steps:
        - {id: do, node: words, input: '{{ input.task }} {{ input.how }}'}
steps:
  - {id: one, node: sub, input: {task: '{{ input }}'}}
  - {id: two, node: words, input: '{{ steps.one.do }}', depends_on: one}
";
    assert_eq!(results(yaml, json!("it")).await, json!({"one": {"do": "<it well>"}, "two": "<<it well>>"}));
}

#[test]
fn nested_nodes_get_unique_names() {
    let yaml = "
graph: outer
nodes:
  sh: {type: bash}
  one: {type: graph, graph: {graph: a, nodes: {sh: {type: bash, timeout: 1}, c: {type: claude}}, steps: [{id: x, node: sh}, {id: y, node: c}]}}
  two: {type: graph, graph: {graph: b, nodes: {sh: {type: pty}}, steps: [{id: x, node: sh}, {id: y, node: other}]}}
steps:
  - {id: s, node: sh}
";
    let CompiledGraph { nodes, .. } = GraphFile::from_yaml(yaml, "g").unwrap().compile().unwrap();
    let names: Vec<String> =
        nodes.iter().map(|(name, node)| format!("{name}: {}", node.type_name())).collect();
    assert_eq!(names, ["sh: bash", "c: claude", "one-sh: bash", "two-sh: pty"]);
}

#[test]
fn missing_or_unknown_input_is_rejected() {
    let file = GraphFile::from_yaml(
        "graph: g\ninputs: {task: {description: what to do}, more: {default: null}}\nsteps: []\n",
        "g",
    )
    .unwrap();
    assert_eq!(file.input(json!({"task": 1})).unwrap(), json!({"task": 1, "more": null}));
    for (given, expected) in [
        (json!({}), "graph 'g' requires the input 'task' (what to do)"),
        (json!(null), "graph 'g' requires the input 'task' (what to do)"),
        (json!({"task": 1, "mor": 2}), "graph 'g' has no input \"mor\" (did you mean 'more'?)"),
        (json!("x"), "graph 'g' expects a mapping as its input, found the text \"x\" (inputs: more, task)"),
    ] {
        assert_eq!(file.input(given).unwrap_err().to_string(), expected);
    }
    let open = GraphFile::from_yaml("graph: g\nsteps: []\n", "g").unwrap();
    assert_eq!(open.input(json!(5)).unwrap(), json!(5));
}
