//! Graphs as text, Mermaid and DOT.

use nerve_graph::diagram;
use nerve_graph::file::GraphFile;

const REVIEW: &str = "
graph: review
description: Writes and checks
max_parallel: 2
budget: {max_tokens: 1000, max_time_ms: 60000}
inputs: {task: {description: what to write}, words: {default: 5}}
nodes:
  coder: {type: claude, command: [claude, --model, 'x y']}
  check: {type: bash}
  sub: {type: graph, graph: {graph: inner, steps: []}}
steps:
  - id: approve
    depends_on: [ask]
    gate: {question: 'Ship {{ steps.ask }}?', choices: [yes, no], default: no, timeout_seconds: 60}
  - {id: ask, node: coder, input: 'Write {{ input.task }}', error_policy: {on_error: skip, retry_count: 2, timeout_ms: 500}}
  - {id: each, node: check, foreach: input.words, parallel: 3, when: input.task, depends_on: [ask], budget: {max_steps: 2}}
  - {id: more, node: sub}
  - {id: else, node: other, until: {condition: result.ok, max_rounds: 3}}
";

#[test]
fn text_lists_steps_in_order() {
    let file = GraphFile::from_yaml(REVIEW, "g").unwrap();
    let expected = "\
graph review
  Writes and checks
  2 steps at once · a failure stops the other branches · waits after a crash of the server · at most 1000 tokens, 60 s
inputs
  task (required): what to write
  words = 5
nodes
  check (bash)
  coder (claude): claude --model 'x y'
  sub (graph): inner (0 steps)
steps
  1. ask: coder (claude)
     input Write {{ input.task }}
     fails after 500 ms, tries 2 more times, first after 1000 ms, then 2 times as long, then its result is null
  2. more: sub (graph)
  3. else: other (of the session)
     until result.ok, at most 3 rounds
  4. approve: gate
     after ask
     asks Ship {{ steps.ask }}?
     choices yes, no
     after 60 s the answer is no
  5. each: check (bash)
     after ask
     when input.task
     for each of input.words, 3 at once
     at most 2 steps
";
    assert_eq!(diagram::text(&file), expected);
}

#[test]
fn mermaid_and_dot_render_steps_and_edges() {
    let file = GraphFile::from_yaml(REVIEW, "g").unwrap();
    let mermaid = diagram::mermaid(&file);
    assert_eq!(
        mermaid,
        "\
---
title: \"review\"
---
flowchart TD
    s0{\"approve<br/>Ship #123;#123; steps.ask #125;#125;#63;\"}
    s1[\"ask<br/>coder #40;claude#41;\"]
    s2[\"each<br/>check #40;bash#41;<br/>when input.task<br/>for each of input.words, 3 at once\"]
    s3[[\"more<br/>sub #40;graph#41;\"]]
    s4[\"else<br/>other #40;of the session#41;<br/>until result.ok, at most 3 rounds\"]
    s1 --> s0
    s1 --> s2
"
    );
    assert_eq!(
        diagram::dot(&file),
        "\
digraph \"review\" {
    rankdir=TB;
    node [shape=box, style=rounded];
    s0 [label=\"approve\\nShip {{ steps.ask }}?\", shape=diamond, style=solid];
    s1 [label=\"ask\\ncoder (claude)\"];
    s2 [label=\"each\\ncheck (bash)\\nwhen input.task\\nfor each of input.words, 3 at once\"];
    s3 [label=\"more\\nsub (graph)\", shape=box3d, style=solid];
    s4 [label=\"else\\nother (of the session)\\nuntil result.ok, at most 3 rounds\"];
    s1 -> s0;
    s1 -> s2;
}
"
    );
}

#[test]
fn special_characters_are_escaped() {
    let special = [
        "end",
        "a\"b",
        "a\\",
        "<script>alert(1)</script>",
        "#quot;",
        "`md`",
        "\u{202e}rtl",
        "日本 --> x",
        "]\"]; x-->y",
        "{{ 1 }}",
    ];
    let steps: Vec<serde_json::Value> = special
        .iter()
        .enumerate()
        .map(|(place, id)| {
            let id = id.replace(['[', ']', '#', '/'], "");
            let gate = serde_json::json!({"question": format!("\u{1b}[2J{}", special[place])});
            serde_json::json!({"id": format!("{id}{place}"), "gate": gate})
        })
        .collect();
    let file = GraphFile::from_value(
        serde_json::json!({"graph": "odd", "description": "a\nb\u{7}", "steps": steps}),
    );
    // Some of the questions are invalid templates, which does not matter here.
    let file = match file {
        Ok(file) => file,
        Err(error) => panic!("{error}"),
    };
    for shown in [diagram::text(&file), diagram::mermaid(&file), diagram::dot(&file)] {
        assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{shown}");
    }
    for line in diagram::mermaid(&file).lines().filter(|line| line.starts_with("    s")) {
        assert_eq!(line.matches('"').count(), 2, "{line}");
        assert!(
            line.ends_with("\"}") && !line.contains(['<', '`', '\\']) || line.contains("<br/>"),
            "{line}"
        );
        assert_eq!(line.matches('<').count(), line.matches("<br/>").count(), "{line}");
    }
    for line in diagram::dot(&file).lines().filter(|line| line.starts_with("    s")) {
        // The unescaped quotes are those around the label.
        let bare = line.replace("\\\\", "").replace("\\\"", "");
        assert_eq!(bare.matches('"').count(), 2, "{line}");
    }
}

#[test]
fn invalid_graph_can_be_rendered() {
    let mut file =
        GraphFile::from_yaml("graph: g\nsteps:\n  - {id: a, node: n}\n  - {id: b, node: n}\n", "g").unwrap();
    file.steps[0].depends_on = vec!["b".into(), "none".into()];
    file.steps[1].depends_on = vec!["a".into()];
    file.steps[1].node = None;
    assert!(
        diagram::text(&file).contains("1. a: n (of the session)\n     after b, none\n  2. b: no node\n"),
        "{}",
        diagram::text(&file)
    );
    assert!(diagram::dot(&file).contains("s1 -> s0;\n    s0 -> s1;"));
}
