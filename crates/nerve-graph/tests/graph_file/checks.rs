//! Semantic checks of well-formed files.

use nerve_graph::file::{GraphFile, Problem};

use crate::check;

#[test]
fn messages_are_compatible_with_the_first_version() {
    check("graph: a\nsteps:\n  - id: ''\n    node: n\n", "g.yaml:3:9: Empty step_id not allowed");
    check(
        "graph: a\nsteps:\n  - id: x\n    node: n\n    depends_on: [x]\n",
        "g.yaml:5:18: Step 'x' depends on itself",
    );
    check(
        "graph: a\nsteps:\n  - id: x\n    node: n\n    depends_on:\n      - y\n",
        "g.yaml:6:9: Step 'x' depends on unknown step 'y'",
    );
    check(
        "graph: a\nsteps:\n  - {id: a, node: n, depends_on: [b]}\n  - {id: b, node: n, depends_on: a}\n",
        "g.yaml:3:34: Cycle detected: a → b → a",
    );
}

#[test]
fn cycle_error_names_its_steps() {
    let yaml = "
graph: a
steps:
  - {id: start, node: n}
  - {id: c, node: n, depends_on: [start, b]}
  - {id: b, node: n, depends_on: [a]}
  - {id: a, node: n, depends_on: [c]}
  - {id: end, node: n, depends_on: [a]}
";
    check(yaml, "g.yaml:5:34: Cycle detected: c → a → b → c");
}

#[test]
fn budget_that_asks_needs_positive_limits() {
    let yaml = "
graph: g
budget: {max_tokens: 0, max_cost_usd: 1, at_limit: ask}
nodes: {n: {type: bash}}
steps:
  - {id: a, node: n, input: x, budget: {max_tokens: 1, at_limit: ask}}
  - {id: b, node: n, input: x, budget: {max_time_ms: 0, at_limit: ask}}
";
    check(
        yaml,
        "g.yaml:3:22: a limit of 0 cannot be raised: it must be positive, or at_limit must be 'stop'\n\
         g.yaml:7:54: a limit of 0 cannot be raised: it must be positive, or at_limit must be 'stop'",
    );
}

#[test]
fn all_problems_are_reported_in_file_order() {
    let yaml = "
graph: Bad Name
max_parallel: 0
budget: {max_cost_usd: -1}
nodes:
  My_Node: {type: bash, timeout: 0}
  t: {type: pty, command: 'a \"b', cols: 0}
  e: {type: pty, command: [], env: {'': x}}
steps:
  - id: one
    node: n
    depends_on: [twoo]
  - id: two
  - id: two
    node: n
    gate: {question: ok}
  - id: three
    node: ../x
    error_policy: {on_error: retry, retry_backoff: 0.5, timeout_ms: 0}
  - id: four
    node: n
    error_policy: {on_error: fallback}
    until: {condition: result.ok, max_rounds: 0}
";
    let rule = "use 1 to 32 of a-z, 0-9 and '-', with no dash at either end";
    check(
        yaml,
        &format!(
            "g.yaml:2:8: graph name \"Bad Name\" is not allowed: it has 'B' in it; {rule}\n\
             g.yaml:3:15: 0 is out of range (1 to 10000)\n\
             g.yaml:4:24: expected a non-negative number, found -1\n\
             g.yaml:6:3: node name \"My_Node\" is not allowed: it has 'M' in it; {rule}\n\
             g.yaml:6:34: expected a positive number of seconds, found 0\n\
             g.yaml:7:27: unclosed quote in the command\n\
             g.yaml:7:41: cols must be at least 1\n\
             g.yaml:8:27: the command is empty\n\
             g.yaml:8:37: the name of a variable must not be empty or contain `=`\n\
             g.yaml:12:18: Step 'one' depends on unknown step 'twoo' (did you mean 'two'?)\n\
             g.yaml:13:5: Step 'two' needs a node or a gate\n\
             g.yaml:14:9: duplicate step id 'two' (the first is on line 13)\n\
             g.yaml:16:11: Step 'two' has both a node and a gate: keep one\n\
             g.yaml:18:11: node name \"../x\" is not allowed: it has '.' in it; {rule}\n\
             g.yaml:19:30: on_error is retry: set retry_count to at least 1\n\
             g.yaml:19:52: retry_backoff must be at least 1\n\
             g.yaml:19:69: timeout_ms must be more than 0\n\
             g.yaml:22:30: on_error is fallback: set a fallback_node\n\
             g.yaml:23:47: 0 is out of range (1 to 100000)"
        ),
    );
}

#[test]
fn structure_and_meaning_are_reported_together() {
    let yaml = "
graph: a
max_paralel: 3
nodes:
  sh: {type: bash, cwdd: /tmp, timeout: 0}
  odd: {type: bsh}
  c: {type: chat, model: m, tools: [odd, shh]}
steps:
  - id: one
    nod: sh
    input: '{{ steps.nope.text }}'
  - id: two
    node: sh
    depends_on: [three]
    parallel: 2
    until: {condition: result.ok}
    input: '{{ round }}'
  - id: three
    node: sh
    foreach: [1]
    input: '{{ item }} {{ itm }}'
    depends_on: [fore]
  - id: two
    node: Not_a_name
";
    let rule = "use 1 to 32 of a-z, 0-9 and '-', with no dash at either end";
    check(
        yaml,
        &format!(
            "g.yaml:3:1: a graph has no field \"max_paralel\" (did you mean `max_parallel`?)\n\
             g.yaml:5:20: a node has no field \"cwdd\" (did you mean `cwd`?)\n\
             g.yaml:5:41: expected a positive number of seconds, found 0\n\
             g.yaml:6:15: unknown node type \"bsh\" (did you mean `bash`?)\n\
             g.yaml:7:42: this graph has no node 'shh' (did you mean `sh`?)\n\
             g.yaml:10:5: a step has no field \"nod\" (did you mean `node`?)\n\
             g.yaml:11:16: unknown step \"nope\"\n\
             g.yaml:15:15: Step 'two': parallel requires foreach (use max_parallel of the graph to limit concurrent steps)\n\
             g.yaml:16:12: until needs `max_rounds`\n\
             g.yaml:20:14: expected an expression, found a list (put it in quotes: foreach: '[1]')\n\
             g.yaml:21:27: unknown name \"itm\" (did you mean `item`?)\n\
             g.yaml:22:18: Step 'three' depends on unknown step 'fore'\n\
             g.yaml:23:9: duplicate step id 'two' (the first is on line 12)\n\
             g.yaml:24:11: node name \"Not_a_name\" is not allowed: it has 'N' in it; {rule}"
        ),
    );
}

#[test]
fn undefined_nodes_are_found_in_all_graphs() {
    let yaml = "
graph: a
nodes:
  sh: {type: bash}
  sub:
    type: graph
    graph:
      graph: inner
      steps: [{id: x, node: sh}, {id: y, node: sub}]
steps:
  - {id: one, node: shh}
  - {id: two, node: sub, error_policy: {on_error: fallback, fallback_node: other}}
";
    let wanted = "g.yaml:9:48: step 'y' uses node 'sub', which the file does not define (the session must have it)\n\
         g.yaml:11:21: step 'one' uses node 'shh', which the file does not define (did you mean `sh`?)\n\
         g.yaml:12:76: step 'two' uses node 'other', which the file does not define (the session must have it)";
    let lines = |nodes: &[Problem]| nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert_eq!(lines(&GraphFile::from_yaml(yaml, "g.yaml").unwrap().undefined_nodes()), wanted);
    let error = GraphFile::from_yaml(&format!("{yaml}more: 1\n"), "g.yaml").unwrap_err();
    assert_eq!((error.problems().len(), lines(error.undefined_nodes()).as_str()), (1, wanted));
}

#[test]
fn broken_steps_cause_no_problems_of_order() {
    let yaml = "
graph: a
nodes:
  c: {type: claude}
steps:
  - {id: one, node: c}
  - {id: two, node: c, depend_on: [one], input: '{{ steps.one }}'}
";
    check(yaml, "g.yaml:7:24: a step has no field \"depend_on\" (did you mean `depends_on`?)");
}

#[test]
fn ids_exclude_path_separators() {
    check("graph: a\nsteps: [{id: 'Ein Schritt: ä!', node: n}]", "fine");
    for id in ["a/b", "a[1]", "a#2", "a\\tb"] {
        let expected = format!("g.yaml:1:25: Step \"{id}\": an id cannot have / [ ] # or control characters");
        check(&format!("{{graph: a, steps: [{{id: \"{id}\", node: n}}]}}"), &expected);
    }
    let long = "x".repeat(201);
    check(
        &format!("graph: a\nsteps:\n- id: {long}\n  node: n"),
        &format!("g.yaml:3:7: Step \"{}\"…: an id has at most 200 bytes, this one 201", "x".repeat(60)),
    );
}

#[test]
fn invalid_gates_are_reported() {
    let gate = |gate: &str| format!("graph: a\nsteps:\n  - id: x\n    gate: {gate}\n");
    check(&gate("{question: ok?}"), "fine");
    check(&gate("{question: ok?, choices: [yes, no], default: no, timeout_seconds: 1}"), "fine");
    check(&gate("{choices: [a]}"), "g.yaml:4:11: a gate needs `question`");
    check(&gate("{question: ' '}"), "g.yaml:4:22: the question is empty");
    check(
        &gate("{question: q, choices: [a, a, ''], default: b, timeout_seconds: -5}"),
        "g.yaml:4:38: duplicate choice \"a\"\n\
         g.yaml:4:41: a choice cannot be empty\n\
         g.yaml:4:55: the default \"b\" is not one of the choices (choices are a, a, )\n\
         g.yaml:4:75: expected a positive number of seconds, found -5",
    );
    check(
        "graph: a\nsteps:\n  - id: x\n    gate: {question: q}\n    input: hi\n    parser: none\n",
        "g.yaml:5:12: Step 'x': a gate takes no input: put it into the question\n\
         g.yaml:6:13: Step 'x': a gate's answer is not parsed",
    );
}

#[test]
fn concurrent_use_of_a_terminal_is_reported() {
    let file = |steps: &str| {
        format!(
            "graph: a\nmax_parallel: 2\nnodes:\n  c: {{type: claude}}\n  sh: {{type: bash}}\nsteps:\n{steps}"
        )
    };
    check(
        &file(
            "  - {id: one, node: c}\n  - {id: two, node: sh}\n  - {id: three, node: c, depends_on: [two]}\n",
        ),
        "g.yaml:9:5: Steps 'one' and 'three' could run at the same time on node 'c' (add depends_on: [one] to step 'three')",
    );
    // An indirect dependency orders them, too.
    check(
        &file(
            "  - {id: one, node: c}\n  - {id: two, node: sh, depends_on: [one]}\n  - {id: three, node: c, depends_on: [two]}\n",
        ),
        "fine",
    );
    // Stateless nodes, and nodes known only to the session.
    check(
        &file(
            "  - {id: one, node: sh}\n  - {id: two, node: sh}\n  - {id: x, node: other}\n  - {id: y, node: other}\n",
        ),
        "fine",
    );
    check(
        &file("  - {id: one, node: c, foreach: '[1]', parallel: 2}\n"),
        "g.yaml:7:50: Step 'one': foreach cannot run in parallel on 'c', which does one thing at a time",
    );
    check(
        &file("  - {id: one, node: c}\n  - {id: two, node: c}\n")
            .replace("max_parallel: 2", "max_parallel: 1"),
        "fine",
    );
}

#[test]
fn terminals_of_nested_graphs_count() {
    let yaml = "
graph: a
max_parallel: 2
nodes:
  mine: {type: pty}
  sub:
    type: graph
    graph:
      graph: inner
      nodes: {own: {type: pty}}
      steps:
        - {id: x, node: own}
        - {id: y, node: mine}
steps:
  - {id: one, node: sub}
  - {id: two, node: sub}
  - {id: three, node: mine, depends_on: [two]}
";
    check(
        yaml,
        "g.yaml:16:5: Steps 'one' and 'two' could run at the same time on node 'mine' (add depends_on: [one] to step 'two')\n\
         g.yaml:16:5: Steps 'one' and 'two' could run at the same time on node 'sub/own' (add depends_on: [one] to step 'two')",
    );
}

#[test]
fn problems_of_nested_graphs_have_their_position() {
    let yaml = "
graph: a
nodes:
  sub:
    type: graph
    graph:
      graph: inner
      inputs: {task: {}, more: {default: null}}
      steps:
        - {id: x, node: n, depends_on: [z]}
        - {id: y, node: n, input: '{{ input.tsk }}'}
  none: {type: graph}
  both: {type: graph, file: x, graph: {graph: b, steps: []}}
  file: {type: graph, file: x.yaml}
steps:
  - {id: one, node: sub}
  - {id: two, node: sub, input: {tas: 1}}
  - {id: three, node: sub, input: {task: 1}}
";
    check(
        yaml,
        "g.yaml:10:41: Step 'x' depends on unknown step 'z' (did you mean 'y'?)\n\
         g.yaml:11:39: the graph has no input \"tsk\" (did you mean input.task?)\n\
         g.yaml:12:9: a graph node needs `file` or `graph`\n\
         g.yaml:13:29: a graph node has both `file` and `graph`: keep one\n\
         g.yaml:14:29: files cannot be loaded here (put the graph itself under `graph`)\n\
         g.yaml:16:5: Step 'one': graph 'sub' expects a mapping with more, task\n\
         g.yaml:17:33: Step 'two': missing input 'task' of graph 'sub' (add `task:` to its input)\n\
         g.yaml:17:34: Step 'two': graph 'sub' has no input \"tas\"",
    );
}

#[test]
fn programmatic_graph_is_checked_without_lines() {
    let mut file = GraphFile::new("");
    file.max_parallel = 0;
    assert_eq!(
        file.check().unwrap_err().to_string(),
        "graph: graph: graph name \"\" is not allowed: it is empty; use 1 to 32 of a-z, 0-9 and '-', with no dash at either end\n\
         graph: max_parallel: 0 is out of range (1 to 10000)"
    );
    GraphFile::new("a").check().unwrap();
}

#[test]
fn excess_problems_are_counted() {
    let steps: String =
        (0..1000).map(|step| format!("  - {{id: s{step}, node: n, depends_on: [none]}}\n")).collect();
    let error = GraphFile::from_yaml(&format!("graph: a\nsteps:\n{steps}"), "g.yaml").unwrap_err();
    assert_eq!((error.problems().len(), error.more()), (50, 950));
    assert!(error.to_string().ends_with("\n… and 950 more"), "{error}");
    assert_eq!(error.problems()[0].position.unwrap().line, 3);
}

#[test]
fn new_pane_settings_conflict_with_existing_pane() {
    let yaml = "
graph: g
nodes:
  a: {type: tmux, pane: '%3', command: bash, cwd: /, env: {A: b}, tmux_session: s}
  b: {type: claude-wezterm, pane: 3}
  c: {type: claude-tmux, command: vim}
  d: {type: claude, command: [env, A=b, /opt/Claude-1/run]}
steps: []
";
    let there = "applies to new panes, but `pane` names an existing one (remove one of them)";
    check(
        yaml,
        &format!(
            "g.yaml:4:40: `command` {there}\n\
             g.yaml:4:51: `cwd` {there}\n\
             g.yaml:4:59: `env` {there}\n\
             g.yaml:4:81: `tmux_session` {there}\n\
             g.yaml:6:35: the command of a node for Claude Code must contain 'claude' (for other programs use the type without \
             `claude`: pty, tmux, wezterm)"
        ),
    );
}

#[test]
fn tools_must_be_nodes_of_the_graph() {
    let yaml = "
graph: g
nodes:
  sh: {type: bash}
  term: {type: tmux}
  t: {type: template, template: x}
  fine: {type: chat, model: m, tools: [sh, term], tool_choice: term}
  a: {type: chat, model: m, tools: [sh, trem]}
  b:
    type: chat
    model: m
    tools:
      - t
      - fine
steps: []
";
    check(
        yaml,
        "g.yaml:8:41: this graph has no node 'trem' (did you mean `term`?)\n\
         g.yaml:13:9: node 't' has type template, which cannot be a tool (tools are terminals, acp and bash nodes)\n\
         g.yaml:14:9: node 'fine' has type chat, which cannot be a tool (tools are terminals, acp and bash nodes)",
    );
}

#[test]
fn oversized_terminals_are_located() {
    let yaml = "graph: g\nnodes:\n  t: {type: pty, command: sh, cols: 1001, rows: 1000}\nsteps: []\n";
    let error = GraphFile::from_yaml(yaml, "g.yaml").unwrap_err().to_string();
    assert_eq!(error, "g.yaml:3:37: cols must be at most 1000");
}

#[test]
fn invalid_chat_settings_are_located() {
    let chat = |fields: &str| {
        format!("graph: g\nnodes:\n  sh: {{type: bash}}\n  c: {{type: chat, {fields}}}\nsteps: []\n")
    };
    for (fields, message) in [
        ("model: ' '", "g.yaml:4:26: a chat node needs a model"),
        ("model: m, max_tokens: 0", "g.yaml:4:41: max_tokens must be at least 1"),
        ("model: m, temperature: 3", "g.yaml:4:42: temperature must be from 0 to 2"),
        ("model: m, tools: [sh, sh]", "g.yaml:4:36: tools names 'sh' twice"),
        (
            "model: m, tools: sh, tool_choice: other",
            "g.yaml:4:53: tool_choice: 'other' is not one of the node's tools",
        ),
        ("model: m, base_url: nowhere", "g.yaml:4:39: base_url"),
        ("model: m, response_timeout: 0", "g.yaml:4:47: "),
        ("provider: openai", "g.yaml:4:6: a node needs `model`"),
        ("model: m, provider: acme", "g.yaml:4:39: "),
    ] {
        let error = GraphFile::from_yaml(&chat(fields), "g.yaml").unwrap_err().to_string();
        assert!(error.starts_with(message), "{fields}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
