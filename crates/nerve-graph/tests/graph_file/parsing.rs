//! Parsing: fields, types, aliases and syntax errors.

use nerve_agent::parse::ParserKind;
use nerve_api::request::{CommandLine, NodeRef};
use nerve_api::value::BackendKind;
use nerve_graph::file::{
    AcpDefinition, BashDefinition, BudgetDefinition, ChatDefinition, GateDefinition, GraphFile,
    InputDefinition, NestedDefinition, NodeDefinition, OnDialog, OnError, OnFailure, OnHostLost, OnLimit,
    OnRestart, OnResume, Placement, PolicyDefinition, StepDefinition, TemplateDefinition, TerminalDefinition,
    UntilDefinition,
};
use nerve_node::proxy::{Provider, ProxyBudget, ProxyPrices, ProxySettings};
use serde_json::{Value, json};

use crate::check;

/// Sets every field of every type to a non-default value: a field that the decoder omits would not round-trip.
fn full_graph() -> GraphFile {
    let terminal = TerminalDefinition {
        command: Some(CommandLine::Argv(vec!["claude".into(), "--model".into(), "x".into()])),
        cwd: Some("/tmp".into()),
        env: [("A".to_string(), "b".to_string())].into(),
        profile: Some("claude".into()),
        parser: Some(ParserKind::Codex),
        cols: Some(100),
        rows: Some(30),
        history: false,
        record: false,
        proxy: Some(ProxySettings {
            kind: Provider::Openai,
            base_url: Some("https://h".into()),
            upstream_ca: Some("/ca.pem".into()),
            model: Some("m".into()),
            api_key_env: Some("KEY".into()),
            prices: Some(ProxyPrices { input: 3.0, output: 15.5 }),
            budget: ProxyBudget { max_tokens: Some(1), max_requests: Some(2), max_cost_usd: Some(0.5) },
            max_output: Some(9),
            reasoning: true,
            log: false,
            log_bodies: false,
        }),
        ready_timeout: Some(60.0),
        response_timeout: Some(1800.5),
        keep: true,
        ..TerminalDefinition::default()
    };
    let budget = BudgetDefinition {
        max_tokens: Some(1),
        max_time_ms: Some(2500),
        max_steps: Some(3),
        max_api_calls: Some(4),
        max_cost_usd: Some(5.5),
        at_limit: Some(OnLimit::Ask),
    };
    let inner = GraphFile::new("inner");
    let mut file = GraphFile::new("full");
    file.description = "all of it".into();
    file.inputs = Some(
        [("task".to_string(), InputDefinition { description: "what".into(), default: Some(Value::Null) })]
            .into(),
    );
    file.max_parallel = 2;
    file.on_failure = OnFailure::Finish;
    file.on_restart = OnRestart::Resume;
    file.budget = budget;
    file.nodes = [
        ("coder".to_string(), NodeDefinition::Claude(terminal.clone())),
        (
            "shell".to_string(),
            NodeDefinition::Pty(TerminalDefinition {
                command: Some(CommandLine::Text("bash -l".into())),
                ..terminal
            }),
        ),
        (
            "seen".to_string(),
            NodeDefinition::Tmux(TerminalDefinition {
                tmux_session: Some("work".into()),
                socket: Some("mine".into()),
                ..TerminalDefinition::default()
            }),
        ),
        (
            "there".to_string(),
            NodeDefinition::ClaudeWezterm(TerminalDefinition {
                pane: Some("7".into()),
                ..TerminalDefinition::default()
            }),
        ),
        (
            "model".to_string(),
            NodeDefinition::Chat(ChatDefinition {
                provider: Provider::Openai,
                model: "small".into(),
                base_url: Some("https://host/v1".into()),
                api_key_env: Some("KEY".into()),
                system: Some("terse".into()),
                max_tokens: Some(7),
                temperature: Some(0.5),
                tools: vec!["check".into()],
                tool_choice: Some("check".into()),
                parallel_tool_calls: false,
                max_tool_rounds: Some(3),
                retries: Some(0),
                env: [("X".to_string(), "y".to_string())].into(),
                history: false,
                response_timeout: Some(60.5),
                keep: true,
            }),
        ),
        (
            "speaker".to_string(),
            NodeDefinition::Acp(AcpDefinition {
                command: CommandLine::Text("opencode acp".into()),
                cwd: Some("/shop".into()),
                env: [("X".to_string(), "y".to_string())].into(),
                history: false,
                ready_timeout: Some(5.0),
                response_timeout: Some(60.5),
                keep: true,
            }),
        ),
        (
            "check".to_string(),
            NodeDefinition::Bash(BashDefinition {
                cwd: Some("/".into()),
                env: [("X".to_string(), String::new())].into(),
                timeout: Some(30.0),
            }),
        ),
        (
            "words".to_string(),
            NodeDefinition::Template(TemplateDefinition { template: "Hello {{ input }}".into() }),
        ),
        (
            "sub".to_string(),
            NodeDefinition::Graph(NestedDefinition { file: None, graph: Some(Box::new(inner)) }),
        ),
    ]
    .into();
    file.steps = vec![
        StepDefinition {
            id: "ask".into(),
            node: Some("check".into()),
            input: json!({"a": [1, "{{ input.task }}"]}),
            depends_on: Vec::new(),
            parser: Some(ParserKind::None),
            error_policy: Some(PolicyDefinition {
                on_error: OnError::Fallback,
                retry_count: 2,
                retry_delay_ms: 10,
                retry_backoff: 1.5,
                timeout_ms: Some(5),
                fallback_value: json!("x"),
                fallback_node: Some("words".into()),
            }),
            budget: BudgetDefinition { at_limit: None, ..budget },
            when: Some("true".into()),
            foreach: Some("[1, 2]".into()),
            parallel: Some(4),
            until: Some(UntilDefinition { condition: "round > 1".into(), max_rounds: 5 }),
            gate: None,
            on_dialog: OnDialog::Wait,
            on_resume: OnResume::Rerun,
            value: None,
            on: Some(Placement::Labels(["gpu".to_string()].into())),
            on_host_lost: OnHostLost::Fail,
        },
        StepDefinition { id: "known".into(), value: Some(json!(null)), ..StepDefinition::default() },
        StepDefinition {
            id: "approve".into(),
            gate: Some(GateDefinition {
                question: "Ship {{ steps.ask }}?".into(),
                choices: vec!["yes".into(), "no".into()],
                default: Some("no".into()),
                timeout_seconds: Some(3600.0),
            }),
            depends_on: vec!["ask".into()],
            ..StepDefinition::default()
        },
    ];
    file
}

#[test]
fn all_fields_round_trip_through_json() {
    let file = full_graph();
    let value = serde_json::to_value(&file).unwrap();
    assert_eq!(GraphFile::from_value(value.clone()).unwrap(), file);
    assert_eq!(serde_json::from_value::<GraphFile>(value.clone()).unwrap(), file);
    let text = serde_json::to_string_pretty(&value).unwrap();
    assert_eq!(GraphFile::from_json(&text, "g.json").unwrap(), file);
    assert_eq!(GraphFile::from_yaml(&text, "g.yaml").unwrap(), file);
}

#[test]
fn defaults_are_omitted() {
    let file = GraphFile::from_yaml("graph: a\nsteps:\n  - {id: x, node: n}\n", "g.yaml").unwrap();
    assert_eq!(
        serde_json::to_value(&file).unwrap(),
        json!({"graph": "a", "steps": [{"id": "x", "node": "n"}]})
    );
}

#[test]
fn aliases_are_accepted() {
    let long = "graph_id: a\nsteps:\n  - step_id: x\n    node_id: n\n    text: hi\n";
    let short = "graph: a\nsteps:\n  - id: x\n    node: n\n    input: hi\n";
    assert_eq!(GraphFile::from_yaml(long, "g").unwrap(), GraphFile::from_yaml(short, "g").unwrap());
    check(
        "graph: a\nsteps:\n  - id: x\n    step_id: x\n    node: n\n",
        "g.yaml:4:5: id and step_id are the same field: keep one",
    );
}

#[test]
fn scalars_are_accepted_as_texts() {
    let yaml = "
graph: a
nodes:
  sh: {type: pty, command: [sleep, 5], env: {PORT: 8080, DEBUG: true}}
steps:
  - id: go
    node: sh
    depends_on: ask
    when: true
  - id: ask
    gate: {question: ok?, choices: [yes, no, 3], default: no}
";
    let file = GraphFile::from_yaml(yaml, "g").unwrap();
    let gate = file.steps[1].gate.as_ref().unwrap();
    assert_eq!((gate.choices.join(","), gate.default.as_deref()), ("yes,no,3".to_string(), Some("no")));
    assert_eq!(file.steps[0].depends_on, ["ask"]);
    assert_eq!(file.steps[0].when.as_deref(), Some("true"));
    let NodeDefinition::Pty(node) = &file.nodes["sh"] else { panic!("{:?}", file.nodes) };
    assert_eq!(node.env["PORT"], "8080");
    assert_eq!(node.command, Some(CommandLine::Argv(vec!["sleep".into(), "5".into()])));
}

#[test]
fn unknown_field_has_suggestion() {
    check(
        "graph: a\nmax_paralel: 2\nsteps:\n  - id: x\n    node: n\n    depend_on: [y]\n",
        "g.yaml:2:1: a graph has no field \"max_paralel\" (did you mean `max_parallel`?)\n\
         g.yaml:6:5: a step has no field \"depend_on\" (did you mean `depends_on`?)",
    );
    check(
        "graph: a\nnodes:\n  b: {type: bash, rows: 3}\nsteps: []\n",
        "g.yaml:3:19: a node has no field \"rows\" (known fields: type, cwd, env, timeout)",
    );
    check(
        "graph: a\nsteps:\n  - id: x\n    node: n\n    error_policy:\n      retries: 3\n",
        "g.yaml:6:7: an error policy has no field \"retries\" (known fields: on_error, retry_count, retry_delay_ms, retry_backoff, \
         timeout_ms, fallback_value, fallback_node)",
    );
}

#[test]
fn wrong_types_are_described() {
    for (step, expected) in [
        ("parallel: many", "g.yaml:5:15: expected a non-negative integer, found the text \"many\""),
        ("parallel: -1", "g.yaml:5:15: expected a non-negative integer, found the number -1"),
        ("parallel: 1.5", "g.yaml:5:15: expected a non-negative integer, found the number 1.5"),
        ("parallel: 5000000000", "g.yaml:5:15: 5000000000 is too large"),
        ("parallel: [1]", "g.yaml:5:15: expected a non-negative integer, found a list"),
        ("depends_on: [1]", "g.yaml:5:18: expected a text, found the number 1 (put it in quotes: \"1\")"),
        ("depends_on: {a: b}", "g.yaml:5:17: expected a list, found a mapping"),
        (
            "error_policy: retry",
            "g.yaml:5:19: expected an error policy (a mapping), found the text \"retry\"",
        ),
        (
            "error_policy: {on_error: retri}",
            "g.yaml:5:30: expected fail, retry, skip or fallback, found the text \"retri\" (did you mean `retry`?)",
        ),
        ("error_policy: {retry_backoff: x}", "g.yaml:5:35: expected a number, found the text \"x\""),
        (
            "parser: gpt",
            "g.yaml:5:13: expected claude, codex, gemini, opencode, pi, qwen, copilot, kimi or none, found the text \"gpt\"",
        ),
        ("when: {{ input.x }}", "g.yaml:5:12: a key must be a text (put texts with {{ … }} in quotes)"),
        ("when: [1]", "g.yaml:5:11: expected an expression, found a list (put it in quotes: when: '[1]')"),
        ("on_resume: 3", "g.yaml:5:16: expected ask or rerun, found the number 3"),
        ("until: {condition: x}", "g.yaml:5:12: until needs `max_rounds`"),
        (
            "budget: {max_tokens: 1e3, max_steps: -2}",
            "g.yaml:5:42: expected a non-negative integer, found the number -2",
        ),
        ("node_id: n", "g.yaml:5:5: node and node_id are the same field: keep one"),
    ] {
        check(&format!("graph: a\nsteps:\n  - id: x\n    node: n\n    {step}\n"), expected);
    }
    check(
        "graph: a\nnodes:\n  n: {type: pty, cols: 70000, keep: perhaps}\nsteps: []\n",
        "g.yaml:3:24: 70000 is too large\n\
         g.yaml:3:37: expected true or false, found the text \"perhaps\"",
    );
    check("graph: 1\nsteps: []", "g.yaml:1:8: expected a text, found the number 1 (put it in quotes: \"1\")");
    check("[1]", "g.yaml:1:1: expected a graph (a mapping), found a list");
    check("hello", "g.yaml:1:1: expected a graph (a mapping), found the text \"hello\"");
    check("", "g.yaml:1:1: the file is empty (a graph needs `graph: ID` and `steps:`)");
    check("graph: a", "g.yaml:1:1: a graph needs `steps`");
    check("steps:\n  - node: n\n", "g.yaml:1:1: a graph needs `graph`\ng.yaml:2:5: a step needs `id`");
    check("graph: a\nsteps:\n  x: {node: n}\n", "g.yaml:3:3: expected a list, found a mapping");
}

const TYPES: &str =
    "claude, pty, claude-tmux, tmux, claude-wezterm, wezterm, bash, chat, acp, template or graph";

#[test]
fn unknown_node_types_are_reported() {
    check(
        "graph: a\nnodes:\n  a: {type: tmx}\n  b:\n    type: bsh\n  c: {cwd: .}\n  d: {type: x}\nsteps: []\n",
        &format!(
            "g.yaml:3:13: unknown node type \"tmx\" (did you mean `tmux`?)\n\
             g.yaml:5:11: unknown node type \"bsh\" (did you mean `bash`?)\n\
             g.yaml:6:6: a node needs `type` (one of {})\n\
             g.yaml:7:13: unknown node type \"x\" (use {TYPES})",
            TYPES.replace(" or", ",")
        ),
    );
}

#[test]
fn acp_node_has_its_fields() {
    let text = "graph: g\nnodes:\n  a: {type: acp, command: opencode acp, cwd: /shop, env: {A: 1}, history: false, ready_timeout: 5, keep: true}\nsteps: []\n";
    let file = GraphFile::from_yaml(text, "g.yaml").unwrap();
    let node = &file.nodes["a"];
    assert!(node.is_persistent() && node.is_kept());
    let spec = node.spec(NodeRef { session: None, node: "a".into() }).unwrap();
    assert_eq!(
        (spec.backend, spec.command),
        (BackendKind::Acp, Some(CommandLine::Text("opencode acp".into())))
    );
    assert_eq!((spec.cwd, spec.env["A"].as_str(), spec.history), (Some("/shop".into()), "1", false));
    assert_eq!(spec.ready_timeout.duration().as_secs(), 5);
    assert_eq!(GraphFile::from_value(file.to_value()).unwrap(), file);
    check(
        "graph: a\nnodes:\n  a: {type: acp}\n  b: {type: acp, command: ''}\n  c: {type: acp, command: x, profile: codex}\nsteps: []\n",
        "g.yaml:3:6: a node needs `command`\n\
         g.yaml:4:27: the command is empty\n\
         g.yaml:5:30: a node has no field \"profile\" (known fields: type, command, cwd, env, history, ready_timeout, response_timeout, \
         keep)",
    );
}

#[test]
fn panes_have_their_fields() {
    let text = "graph: g\nnodes:\n  a: {type: tmux, command: bash, tmux_session: work, socket: mine}\n  b: {type: claude-tmux, pane: '%3'}\n  \
        c: {type: wezterm, pane: 7}\n  d: {type: claude-wezterm, socket: /tmp/w.sock}\nsteps: []\n";
    let file = GraphFile::from_yaml(text, "g.yaml").unwrap();
    let pane = |name: &str| file.nodes[name].terminal().unwrap().pane.clone();
    assert_eq!((pane("a"), pane("b"), pane("c")), (None, Some("%3".into()), Some("7".into())));
    let types: Vec<&str> = file.nodes.values().map(NodeDefinition::type_name).collect();
    assert_eq!(types, ["tmux", "claude-tmux", "wezterm", "claude-wezterm"]);
    assert!(file.nodes.values().all(NodeDefinition::is_persistent));
    assert_eq!(GraphFile::from_value(file.to_value()).unwrap(), file);
    // Fields of other backends.
    check(
        "graph: a\nnodes:\n  a: {type: pty, pane: '%3'}\n  b: {type: wezterm, tmux_session: x}\nsteps: []\n",
        "g.yaml:3:18: a node has no field \"pane\" (known fields: type, command, cwd, env, profile, parser, cols, rows, history, record, \
         ready_timeout, response_timeout, keep, proxy)\n\
         g.yaml:4:22: a node has no field \"tmux_session\" (known fields: type, command, cwd, env, profile, parser, cols, rows, history, record, \
         ready_timeout, response_timeout, keep, proxy, pane, socket)",
    );
}

#[test]
fn proxy_is_kind_or_settings() {
    let text = "graph: g\nnodes:\n  a: {type: claude, proxy: openai}\n  b:\n    type: claude\n    proxy:\n      kind: anthropic\n      \
        base_url: http://127.0.0.1:1\n      prices: {input: 3, output: 15}\n      budget: {max_cost_usd: 2}\n      log: false\nsteps: []\n";
    let file = GraphFile::from_yaml(text, "g.yaml").unwrap();
    let proxy = |name: &str| file.nodes[name].terminal().unwrap().proxy.clone().unwrap();
    assert_eq!(proxy("a"), ProxySettings::new(Provider::Openai));
    assert_eq!((proxy("b").budget.max_cost_usd, proxy("b").log), (Some(2.0), false));
    assert_eq!(GraphFile::from_value(file.to_value()).unwrap(), file);
    check(
        "graph: a\nnodes:\n  a: {type: claude, proxy: gemini}\n  b: {type: claude, proxy: {kind: openai, base: x}}\n  \
         e: {type: bash, proxy: openai}\nsteps: []\n",
        "g.yaml:3:28: expected anthropic or openai, found the text \"gemini\"\n\
         g.yaml:4:43: a proxy has no field \"base\" (known fields: kind, base_url, upstream_ca, model, api_key_env, prices, budget, max_output, \
         reasoning, log, log_bodies)\n\
         g.yaml:5:19: a node has no field \"proxy\" (known fields: type, cwd, env, timeout)",
    );
    let text = "graph: a\nnodes:\n  c: {type: claude, proxy: {kind: anthropic, base_url: 'http://far.example'}}\n  \
                d: {type: tmux, pane: '%1', proxy: openai}\nsteps: []\n";
    let message = GraphFile::from_yaml(text, "g.yaml").unwrap_err().to_string();
    assert!(message.contains("g.yaml:3:") && message.contains("unencrypted"), "{message}");
    assert!(message.contains("g.yaml:4:") && message.contains("`proxy` applies to new panes"), "{message}");
}

#[test]
fn yaml_syntax_errors_have_positions() {
    check("graph: a\nsteps: [1, 2\nx: 3", "g.yaml:3:2: invalid YAML: illegal placement of ':' indicator");
    check("graph: a\ngraph: b\n", "g.yaml:2:1: duplicate key \"graph\" in this mapping: keep one");
    check("graph: a\n---\ngraph: b\n", "g.yaml:3:1: a second document begins here: a file holds one graph");
    check("graph: *x\n", "g.yaml:1:8: unknown anchor");
    check("graph: &x [*x]\n", "g.yaml:1:12: this anchor contains itself");
    check("graph: .inf\n", "g.yaml:1:8: .inf is not a finite number");
    check(
        "graph: a\nsteps:\n  - id: x\n    node: n\n    input: \"{{ a }}\" b\n",
        "g.yaml:5:22: invalid YAML: invalid trailing content after double-quoted scalar (put texts with {{ … }} in quotes)",
    );
}

#[test]
fn json_files_are_parsed() {
    let parse = |text: &str| GraphFile::from_json(text, "g.json").map_err(|error| error.to_string());
    assert_eq!(
        parse("{\"graph\": \"a\",\n \"steps\": [}").unwrap_err(),
        "g.json:2:12: invalid JSON: expected value"
    );
    assert_eq!(
        parse("{\"graph\": \"a\",").unwrap_err(),
        "g.json:1:14: invalid JSON: EOF while parsing an object"
    );
    assert_eq!(parse("graph: a\nsteps: []").unwrap_err(), "g.json:1:1: invalid JSON: expected value");
    assert_eq!(
        parse("{\"graph\": \"a\",\n \"steps\": [{\"id\": \"x\", \"nod\": 1}]}").unwrap_err(),
        "g.json:2:24: a step has no field \"nod\" (did you mean `node`?)"
    );
    assert_eq!(
        parse("{\"graph\": \"a\", \"graph\": \"b\", \"steps\": []}").unwrap_err(),
        "g.json:1:16: duplicate key \"graph\" in this mapping: keep one"
    );
    // Escapes, tabs, and a key that is too long for YAML.
    let long = "k".repeat(5000);
    let text = format!(
        "{{\"graph\": \"a\",\n\t\"steps\": [\n\t\t{{\"id\": \"\\u0078\\/\\ud83d\\ude00\",\n\t\t\"node\": \"n\", \"input\": {{\"{long}\": 1e5}}}}]}}"
    );
    assert_eq!(
        parse(&text).unwrap_err(),
        "g.json: steps[0].id: Step \"x/😀\": an id cannot have / [ ] # or control characters"
    );
    assert_eq!(
        parse(&text.replace(&long, "k")).unwrap_err(),
        "g.json:3:10: Step \"x/😀\": an id cannot have / [ ] # or control characters"
    );
}

#[test]
fn values_have_paths_instead_of_lines() {
    let value = json!({"graph": "a", "steps": [{"id": "x", "node": "n", "parallel": 2}, {"id": "y"}]});
    assert_eq!(
        GraphFile::from_value(value).unwrap_err().to_string(),
        "graph: steps[0].parallel: Step 'x': parallel requires foreach (use max_parallel of the graph to limit \
         concurrent steps)\n\
         graph: steps[1]: Step 'y' needs a node or a gate"
    );
}

#[test]
fn anchors_and_merges_are_expanded() {
    let yaml = "
graph: a
nodes:
  base: &base {type: bash, timeout: 5}
  more:
    <<: *base
    timeout: 6
steps: [{id: x, node: base}]
";
    let file = GraphFile::from_yaml(yaml, "g").unwrap();
    let bash = |timeout| {
        NodeDefinition::Bash(BashDefinition { timeout: Some(timeout), ..BashDefinition::default() })
    };
    assert_eq!((&file.nodes["base"], &file.nodes["more"]), (&bash(5.0), &bash(6.0)));
}

#[test]
fn cost_limit_is_read_under_its_older_name() {
    let limit = |budget: &str| {
        let yaml = format!("graph: a\nbudget: {{{budget}}}\nsteps: []\n");
        GraphFile::from_yaml(&yaml, "g")
            .map(|file| file.budget.max_cost_usd)
            .map_err(|error| error.to_string())
    };
    assert_eq!(limit("max_cost_dollars: 2"), Ok(Some(2.0)));
    assert_eq!(limit("max_cost_usd: 2"), Ok(Some(2.0)));
    assert!(limit("max_cost_dollars: 2, max_cost_usd: 3").is_err());
}

#[test]
fn time_limit_is_read_under_its_older_name() {
    let limit = |budget: &str| {
        let yaml = format!("graph: a\nbudget: {{{budget}}}\nsteps: []\n");
        GraphFile::from_yaml(&yaml, "g")
            .map(|file| file.budget.max_time_ms)
            .map_err(|error| error.to_string())
    };
    assert_eq!(limit("max_time_seconds: 2.5"), Ok(Some(2500)));
    assert_eq!(limit("max_time_ms: 2500"), Ok(Some(2500)));
    assert!(limit("max_time_seconds: 2, max_time_ms: 3").is_err());
    assert!(limit("max_time_seconds: -1").unwrap_err().contains("non-negative"));
}
