//! Validation of graphs before they run.

use std::time::Duration;

use nerve_graph::policy::{ErrorPolicy, OnError};
use nerve_graph::session::Session;
use nerve_graph::trace::TraceStatus;
use nerve_graph::{Graph, executable::Target, step::Step};
use nerve_node::budget::RunBudget;
use nerve_node::error::ErrorKind;
use nerve_testkit::harness::assert_error;

use crate::harness::{Notes, StatefulNode, chain, echo, run};

/// A graph whose steps all run the same function.
fn graph(steps: impl IntoIterator<Item = Step>) -> Graph {
    let mut graph = Graph::new("g");
    for step in steps {
        graph.add_step(echo("e"), step).unwrap();
    }
    graph
}

#[test]
fn invalid_ids_are_rejected() {
    let problems =
        graph([Step::new(" "), Step::new("a/b"), Step::new("a\nb"), Step::new("fine, really")]).validate();
    assert_eq!(
        problems,
        [
            "Empty step_id not allowed",
            "Step 'a/b': an id cannot have / [ ] # or control characters",
            "Step 'a\\nb': an id cannot have / [ ] # or control characters"
        ]
    );
    let mut twice = graph([Step::new("a")]);
    let error = twice.add_step(echo("e"), Step::new("a")).unwrap_err();
    assert_error(&error, ErrorKind::AlreadyExists, &["'g'", "'a'"]);
    let long = "x".repeat(201);
    assert_eq!(graph([Step::new(long.as_str())]).validate().len(), 1);
    assert_eq!(graph([Step::new(&long[1..])]).validate().len(), 0);
}

#[test]
fn unknown_dependencies_are_rejected() {
    let steps = [
        Step::new("a").depends_on(["a"]),
        Step::new("b").depends_on(["nowhere", "a"]),
        Step::new("c").input(1).input_fn(|_| 2.into()),
    ];
    assert_eq!(
        graph(steps).validate(),
        [
            "Step 'a' depends on itself",
            "Step 'b' depends on unknown step 'nowhere'",
            "Step 'c': input and input_fn are mutually exclusive"
        ]
    );
}

#[test]
fn cycle_error_names_its_steps() {
    let two = graph([Step::new("a").depends_on(["b"]), Step::new("b").depends_on(["a"])]);
    assert_eq!(two.validate(), ["Cycle detected: a → b → a"]);
    let far = graph([
        Step::new("start"),
        Step::new("x").depends_on(["start", "z"]),
        Step::new("y").depends_on(["x"]),
        Step::new("z").depends_on(["y"]),
        Step::new("end").depends_on(["z"]),
    ]);
    assert_eq!(far.validate(), ["Cycle detected: x → y → z → x"]);
    assert_eq!(far.execution_order().unwrap_err().kind, ErrorKind::InvalidRequest);
}

#[tokio::test]
async fn invalid_graph_does_not_run() {
    let notes = Notes::default();
    let mut graph = Graph::new("g");
    graph.add_step(notes.node("a"), Step::new("a")).unwrap();
    graph.add_step(notes.node("b"), Step::new("b").depends_on(["nowhere"])).unwrap();
    let run = run(&graph).await;
    assert_eq!(run.status, TraceStatus::Failed);
    assert_error(&run.error.unwrap(), ErrorKind::InvalidRequest, &["'g'", "'b'", "'nowhere'"]);
    assert_eq!(notes.all(), [""; 0]);
}

#[test]
fn invalid_policies_and_budgets_are_rejected() {
    let policy = |change: fn(&mut ErrorPolicy)| {
        let mut policy = ErrorPolicy::default();
        change(&mut policy);
        graph([Step::new("a").error_policy(policy)]).validate()
    };
    assert_eq!(policy(|policy| policy.retry_backoff = 0.5), ["Step 'a': retry_backoff must be at least 1"]);
    assert_eq!(
        policy(|policy| policy.retry_backoff = f64::NAN),
        ["Step 'a': retry_backoff must be at least 1"]
    );
    assert_eq!(
        policy(|policy| policy.on_error = OnError::Retry),
        ["Step 'a': on_error is retry: set retry_count to at least 1"]
    );
    assert_eq!(
        policy(|policy| policy.on_error = OnError::Fallback),
        ["Step 'a': on_error is fallback: set a fallback_node"]
    );
    assert_eq!(
        policy(|policy| policy.timeout = Some(Duration::ZERO)),
        ["Step 'a': timeout_ms must be more than 0"]
    );
    assert_eq!(policy(|policy| policy.retry_count = 3), [""; 0]);

    let cost = RunBudget { max_cost_usd: Some(-1.0), ..RunBudget::default() };
    let unknown = RunBudget { max_cost_usd: Some(f64::NAN), ..RunBudget::default() };
    let mut graph = graph([Step::new("a").sub_budget(cost)]);
    graph.set_budget(unknown);
    assert_eq!(
        graph.validate(),
        [
            "Step 'a': budget: max_cost_usd must be a non-negative number",
            "budget: max_cost_usd must be a non-negative number"
        ]
    );
}

#[test]
fn stateful_node_cannot_be_used_concurrently() {
    let notes = Notes::default();
    let desk = StatefulNode::new("desk", &notes);
    let problem = "Steps 'a' and 'c' could run at the same time on node 'desk': make one depend on the other";
    let mut graph = Graph::new("g");
    graph.add_step(desk.clone(), Step::new("a")).unwrap();
    graph.add_step(echo("e"), Step::new("b").depends_on(["a"])).unwrap();
    graph.add_step(desk.clone(), Step::new("c")).unwrap();
    assert_eq!(graph.validate(), [""; 0], "steps run one at a time");
    graph.set_max_parallel(2);
    assert_eq!(graph.validate(), [problem]);
    graph.chain(["b", "c"]).unwrap();
    assert_eq!(graph.validate(), [""; 0], "ordered by an intermediate step");
}

#[test]
fn shared_node_is_found_by_name_nested_and_as_fallback() {
    let notes = Notes::default();
    let session = Session::new("s");
    let desk = StatefulNode::new("desk", &notes);
    session.register(desk.clone(), None).unwrap();
    let problem =
        ["Steps 'a' and 'b' could run at the same time on node 'desk': make one depend on the other"];
    let parallel = |add: &dyn Fn(&mut Graph)| {
        let mut graph = Graph::new("g");
        graph.set_max_parallel(2).add_step(desk.clone(), Step::new("a")).unwrap();
        add(&mut graph);
        graph.validate_in(&session)
    };
    let by_name = |graph: &mut Graph| {
        graph.add_step_ref("desk", Step::new("b")).unwrap();
    };
    assert_eq!(parallel(&by_name), problem);

    let inner = chain("inner", [("x", desk.clone())]);
    let inside = |graph: &mut Graph| {
        graph.add_step(std::sync::Arc::new(inner.clone()), Step::new("b")).unwrap();
    };
    assert_eq!(parallel(&inside), problem);

    let mut named = Graph::new("named");
    named.add_step_ref("desk", Step::new("x")).unwrap();
    let by_name_inside = |graph: &mut Graph| {
        graph.add_step(std::sync::Arc::new(named.clone()), Step::new("b")).unwrap();
    };
    assert_eq!(parallel(&by_name_inside), problem);

    let policy = ErrorPolicy {
        on_error: OnError::Fallback,
        fallback_node: Some(Target::Name("desk".into())),
        ..ErrorPolicy::default()
    };
    let stand_in = |graph: &mut Graph| {
        {
            graph.add_step(echo("e"), Step::new("b").error_policy(policy.clone())).unwrap();
        };
    };
    assert_eq!(parallel(&stand_in), problem);
}

#[test]
fn concurrent_items_cannot_share_stateful_node() {
    let notes = Notes::default();
    let step = |parallel| Step::new("each").foreach(|_| Ok(vec![]), parallel);
    let mut graph = Graph::new("g");
    graph.add_step(StatefulNode::new("desk", &notes), step(1)).unwrap();
    assert_eq!(graph.validate(), [""; 0]);
    let mut graph = Graph::new("g");
    graph.add_step(StatefulNode::new("desk", &notes), step(2)).unwrap();
    assert_eq!(
        graph.validate(),
        ["Step 'each': foreach cannot run in parallel on 'desk', which does one thing at a time"]
    );
}

#[test]
fn circular_graphs_can_be_validated() {
    let session = Session::new("s");
    for (id, other) in [("one", "two"), ("two", "one")] {
        let mut graph = Graph::new(id);
        graph.set_max_parallel(2).add_step_ref(other, Step::new("a")).unwrap();
        graph.add_step_ref(other, Step::new("b")).unwrap();
        session.register(std::sync::Arc::new(graph), None).unwrap();
    }
    let one = session.get("one").unwrap();
    assert_eq!(one.graph().unwrap().validate_in(&session), [""; 0]);
}

#[test]
fn ten_thousand_steps_are_validated_quickly() {
    let notes = Notes::default();
    let desk = StatefulNode::new("desk", &notes);
    let mut graph = Graph::new("g");
    graph.set_max_parallel(8);
    for step in 0..10_000 {
        let id = format!("s{step}");
        let deps = (step > 0).then(|| format!("s{}", step - 1));
        graph.add_step(desk.clone(), Step::new(id).depends_on(deps)).unwrap();
    }
    assert_eq!(graph.validate(), [""; 0]);
    assert_eq!(graph.execution_order().unwrap().len(), 10_000);
}
