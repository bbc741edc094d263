//! Names in templates and expressions.

use crate::check;

/// A file whose step `b` depends on `a` directly and on `z` indirectly, with more fields.
fn file(fields: &str) -> String {
    format!(
        "graph: g\ninputs: {{task: {{}}}}\nsteps:\n  - {{id: z, node: n}}\n  - {{id: a, node: n, depends_on: [z]}}\n  - {{id: other, node: n}}\n  - {{id: my-step, node: n}}\n  - id: b\n    node: n\n    depends_on: [a, my-step]\n{fields}"
    )
}

#[test]
fn known_names_are_accepted() {
    for fields in [
        "    input: 'x {{ input.task }} {{ input }} {{ steps.a.text | trim }} {{ steps.z }} {{ upstream.a }}'",
        "    input: \"{{ steps['my-step'].text }} {% for s in upstream %}{{ s }}{{ loop.index }}{% endfor %}\"",
        "    input: {a: ['{% set x = input.task %}{{ x }}', 5, {b: '{{ upstream | tojson }}'}]}",
        "    input: '{{ steps.a.output.files[0].name | upper | sh }} {{ range(3) | list }} {{ steps.a is string }}'",
        "    foreach: steps.a.text | lines\n    input: '{{ item.x }} {{ index }}'",
        "    until: {condition: \"'DONE' in result.text or round == 3\", max_rounds: 5}\n    input: '{{ result }} {{ round }}'",
        "    when: steps.a.text != '' and not input.task",
        "    input: '{{ input.task.title() }}{{ none }}{{ true }}{# steps.nope #}{% raw %}{{ nope }}{% endraw %}'",
        "    input: no templates here, } } and { { too",
    ] {
        check(&file(fields), "fine");
    }
}

#[test]
fn unknown_names_are_reported() {
    for (fields, expected) in [
        ("    input: 'Hi {{ stesp.a }}'", "g.yaml:11:19: unknown name \"stesp\" (did you mean `steps`?)"),
        ("    input: 'Hi {{ task }}'", "g.yaml:11:19: unknown name \"task\" (write input.task)"),
        ("    input: 'Hi {{ a.text }}'", "g.yaml:11:19: unknown name \"a\" (write steps.a)"),
        (
            "    input: 'Hi {{ foo }}'",
            "g.yaml:11:19: unknown name \"foo\" (available names: input, steps.ID and upstream)",
        ),
        (
            "    input: '{{ input.tsk }}'",
            "g.yaml:11:16: the graph has no input \"tsk\" (did you mean input.task?)",
        ),
        ("    input: '{{ steps.c }}'", "g.yaml:11:16: unknown step \"c\" (did you mean steps.z?)"),
        ("    input: '{{ steps.nothing }}'", "g.yaml:11:16: unknown step \"nothing\""),
        (
            "    input: '{{ steps.other.text }}'",
            "g.yaml:11:16: step 'b' uses steps.other but does not depend on it: add depends_on: [other]",
        ),
        (
            "    input: '{{ upstream.z }}'",
            "g.yaml:11:16: step 'b' uses upstream.z but does not depend on it directly (add depends_on: [z])",
        ),
        ("    input: '{{ steps.my.text }}'", "g.yaml:11:16: unknown step \"my\" (write steps['my-step'])"),
        (
            "    input: '{{ steps.b }}'",
            "g.yaml:11:16: step 'b' uses its own result (in a step with `until`, `result` is the result of the previous round)",
        ),
        (
            "    input: '{{ steps }}'",
            "g.yaml:11:16: `steps` needs the id of a step (write steps.ID or steps['ID']; `upstream` has all direct \
             dependencies)",
        ),
        (
            "    input: '{{ item }}'",
            "g.yaml:11:16: `item` exists only in a step with foreach, in its input and until",
        ),
        (
            "    when: round > 1",
            "g.yaml:11:11: `round` exists only in a step with until, in its input and condition",
        ),
        (
            "    foreach: item",
            "g.yaml:11:14: `item` exists only in a step with foreach, in its input and until",
        ),
        (
            "    input: '{{ input.task | uper }}'",
            "g.yaml:11:29: unknown filter `uper` (did you mean `upper`?)",
        ),
        ("    when: input.task is strin", "g.yaml:11:25: unknown test `strin` (did you mean `string`?)"),
        ("    input: '{{ rang(3) }}'", "g.yaml:11:16: unknown function `rang` (did you mean `range`?)"),
        (
            "    input: '{{ debug() }}'",
            "g.yaml:11:16: unknown function `debug` (known functions: dict, namespace or range)",
        ),
        (
            "    when: '{{ input.task }}'",
            "g.yaml:11:11: expected an expression, found a template (remove the braces: input.task)",
        ),
        ("    when: ' '", "g.yaml:11:11: the expression is empty"),
        (
            "    foreach: 'input.task +'",
            "g.yaml:11:26: template: unexpected end of input, expected expression",
        ),
        ("    input: '{% include \"x\" %}'", "g.yaml:11:16: template: unknown statement include"),
    ] {
        check(&file(fields), expected);
    }
}

#[test]
fn position_inside_a_long_text_is_reported() {
    check(
        &file(
            "    input: |\n      First line {{ input.task }}\n\n      then {{ nope }} and\n      {{ nope }}\n",
        ),
        "g.yaml:14:15: unknown name \"nope\" (available names: input, steps.ID and upstream)\n\
         g.yaml:15:10: unknown name \"nope\" (available names: input, steps.ID and upstream)",
    );
    check(
        &file("    input: >-\n      folded text\n      with {{ nope }}\n"),
        "g.yaml:13:15: unknown name \"nope\" (available names: input, steps.ID and upstream)",
    );
    check(
        &file("    input:\n      deep: [1, \"a\\tb {{ nope }}\"]\n"),
        "g.yaml:12:26: unknown name \"nope\" (available names: input, steps.ID and upstream)",
    );
    check(
        &file("    input: |\n      one\n      {% if input.task %}\n      two\n"),
        "g.yaml:12:7: template: unexpected end of input, expected end of block",
    );
    check(
        &file("    input: |\n      one\n      {{ input.task | }}\n      two\n"),
        "g.yaml:13:23: template: unexpected end of variable block, expected identifier",
    );
}

#[test]
fn gate_questions_and_template_nodes_are_checked() {
    check(
        "graph: g\nnodes:\n  t: {type: template, template: 'a {{ input.x }} {{ steps.a }}'}\nsteps:\n  - id: q\n    gate: {question: 'Ship {{ steps.x }}?'}\n",
        "g.yaml:3:53: a template node has only `input` (pass the value in the step's input)\n\
         g.yaml:6:31: unknown step \"x\" (did you mean steps.q?)",
    );
}
