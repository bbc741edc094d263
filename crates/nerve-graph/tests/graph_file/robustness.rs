//! Malicious, very large and random files.

use std::time::Instant;

use nerve_graph::file::GraphFile;
use proptest::prelude::*;
use serde_json::Value;

use crate::problems;

/// Loads graphs of 1,000 and of 10,000 steps and asserts that the time per step does not grow with their number.
fn assert_linear(steps: impl Fn(usize) -> String) {
    let fastest = |count| {
        let yaml = steps(count);
        let load = |_| {
            let started = Instant::now();
            assert_eq!(GraphFile::from_yaml(&yaml, "large.yaml").unwrap().steps.len(), count);
            started.elapsed()
        };
        (0..3).map(load).min().unwrap()
    };
    let (few, many) = (fastest(1_000), fastest(10_000));
    // Ten times the steps; a hundred times the time if it were quadratic.
    assert!(many < few * 50, "{few:?}, then {many:?}");
}

#[test]
fn load_time_grows_with_number_of_steps() {
    assert_linear(|count| {
        let mut yaml = String::from(
            "graph: large\nmax_parallel: 4\nnodes:\n  c: {type: claude}\nsteps:\n  - {id: s0, node: c}\n",
        );
        for step in 1..count {
            let before = step - 1;
            yaml.push_str(&format!(
                "  - id: s{step}\n    node: c\n    input: \"do {{{{ steps.s{before}.text }}}} of {{{{ steps.s0 }}}}\"\n    depends_on: [s{before}]\n"
            ));
        }
        yaml
    });
}

/// Each step refers to a different, distant predecessor.
fn distant_references(count: usize) -> String {
    let mut yaml = String::from("graph: far\nsteps:\n  - {id: s0, node: n}\n");
    for step in 1..count {
        let (before, far) = (step - 1, step / 2);
        yaml.push_str(&format!(
            "  - {{id: s{step}, node: n, input: \"{{{{ steps.s{far} }}}}\", depends_on: [s{before}]}}\n"
        ));
    }
    yaml
}

#[test]
fn distant_references_load_in_linear_time() {
    assert_linear(distant_references);
    let yaml = distant_references(10_000);
    assert_eq!(problems(&yaml), "fine");
    let cut = yaml.replace("depends_on: [s6000]", "depends_on: []");
    let answer = problems(&cut);
    assert!(
        answer.contains("step 's6001' uses steps.s3000 but does not depend on it: add depends_on: [s3000]"),
        "{answer}"
    );
}

#[test]
fn alias_bombs_and_deep_nesting_are_rejected() {
    let mut bomb = String::from("a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n");
    for level in 1..20 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(",");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    let too_deep = "32 levels";
    let mut tower = String::new();
    for level in 0..2000 {
        tower.push_str(&" ".repeat(level));
        tower.push_str("a:\n");
    }
    let lists = "[".repeat(100_000);
    let json = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    for text in [bomb, tower, lists] {
        assert!(problems(&text).contains(too_deep), "{}", problems(&text));
    }
    assert!(GraphFile::from_json(&json, "j").unwrap_err().to_string().contains(too_deep));
    let huge = "x".repeat((16 << 20) + 1);
    assert!(problems(&huge).starts_with("g.yaml: the file exceeds 16777216 bytes"), "{}", problems(&huge));
}

#[test]
fn endless_expressions_are_rejected() {
    // On a minimal stack.
    let checked = std::thread::Builder::new().stack_size(1 << 20).spawn(check_long_expressions).unwrap();
    checked.join().unwrap();
}

fn check_long_expressions() {
    let deep = format!("{}1{}", "(".repeat(20_000), ")".repeat(20_000));
    let file = |when: &str| format!("graph: a\nsteps: [{{id: x, node: n, when: '{when}'}}]");
    assert!(problems(&file(&deep)).starts_with("g.yaml:2:"), "{}", problems(&file(&deep)));
    for long in [
        "1+",
        "a.",
        "a[0].",
        "a|upper|",
        "not ",
        "- ",
        "a if b else ",
        "a and ",
        "a == ",
        "a ~ ",
        "(a) ",
        "a in ",
    ] {
        for times in [100, 240, 490, 3000, 50_000] {
            let answer = problems(&file(&long.repeat(times)));
            assert!(times < 500 || answer.contains("expression too long"), "{long} {times}: {answer}");
            let _ = problems(&format!(
                "graph: a\nsteps: [{{id: x, node: n, input: '{{{{ {}1 }}}}'}}]",
                long.repeat(times)
            ));
        }
    }
    for (open, close) in
        [("{% if x %}", "{% endif %}"), ("{% for i in x %}", "{% endfor %}"), ("{% set x %}", "{% endset %}")]
    {
        let _ = problems(&format!(
            "graph: a\nsteps: [{{id: x, node: n, input: '{}{}'}}]",
            open.repeat(5000),
            close.repeat(5000)
        ));
    }
}

#[test]
fn deepest_file_fits_a_small_stack() {
    let file = format!("graph: a\nsteps: [{{id: x, node: n, input: {}1{}}}]", "[".repeat(28), "]".repeat(28));
    let read = std::thread::Builder::new().stack_size(3 << 19).spawn(move || problems(&file)).unwrap();
    assert_eq!(read.join().unwrap(), "fine");
}

/// Random combinations of fragments of graph files.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("graph: a\n"),
        Just("steps:\n"),
        Just("  - id: x\n"),
        Just("    node: n\n"),
        Just("    input: "),
        Just("\"{{ "),
        Just("steps.x"),
        Just("['x']"),
        Just(" }}\""),
        Just("\n"),
        Just("  "),
        Just("nodes:\n"),
        Just("  a: {type: graph, graph: "),
        Just("{graph: b, steps: []}"),
        Just("}"),
        Just("]"),
        Just("["),
        Just("- "),
        Just("&a "),
        Just("*a"),
        Just("<<: "),
        Just("|\n"),
        Just(">-\n"),
        Just("when: x\n"),
        Just("{% for i in x %}"),
        Just("{% endfor %}"),
        Just("é"),
        Just("\u{feff}"),
        Just("\t"),
        Just("? "),
        Just(": "),
        Just("#"),
        Just("'"),
        Just("!!str "),
        Just("---\n"),
        Just("until: {condition: a, max_rounds: 1}\n"),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Random JSON values.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e300..1e300_f64).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[ -~\n\t]{0,40}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::btree_map("[ -~]{0,12}|\\PC{0,5}", inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_handled(text in any::<String>()) {
        let _ = GraphFile::from_yaml(&text, "g");
        let _ = GraphFile::from_json(&text, "g");
    }

    #[test]
    fn any_fragments_are_handled(text in pieces()) {
        if let Err(error) = GraphFile::from_yaml(&text, "g") {
            prop_assert!(!error.problems().is_empty());
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn any_template_is_handled(template in "[ -~\n]{0,60}|[{%}# a-z.()|'\\[\\]]{0,40}") {
        let value = serde_json::json!({
            "graph": "a",
            "steps": [{"id": "x", "node": "n", "input": template, "when": template, "foreach": template}]
        });
        let text = value.to_string();
        let _ = GraphFile::from_json(&text, "g");
        let _ = GraphFile::from_value(value);
    }

    /// JSON values survive being parsed as YAML.
    #[test]
    fn json_values_are_preserved(input in values(), pretty in any::<bool>()) {
        // Their texts must not be templates here.
        let input = serde_json::from_str::<Value>(&input.to_string().replace('{', "(").replace('}', ")").replace("((", "(")).unwrap_or(input);
        prop_assume!(!input.to_string().contains("{{") && !input.to_string().contains("{%") && !input.to_string().contains("{#"));
        let value = serde_json::json!({"graph": "a", "steps": [{"id": "x", "node": "n", "input": input}]});
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let file = GraphFile::from_json(&text, "g");
        prop_assert!(file.is_ok(), "{}\n{text}", file.unwrap_err());
        prop_assert_eq!(&file.unwrap().steps[0].input, &value["steps"][0]["input"]);
    }
}
