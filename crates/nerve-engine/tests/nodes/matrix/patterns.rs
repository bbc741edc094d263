//! Patterns on terminals.

use std::sync::{Arc, Mutex};

use nerve_graph::trace::{TraceStatus, Tracer};
use nerve_node::Node;
use nerve_patterns::debate::{DebateConfig, DebateLoop};
use nerve_patterns::dev_coach::{DevCoachConfig, DevCoachLoop};

use super::Fixture;

#[tokio::test]
async fn dev_coach_loop_runs_on_terminals() {
    let fixture = Fixture::new();
    let (dev, coach) = (fixture.bash("dev").await, fixture.agent("coach").await);
    let ended = Arc::new(Mutex::new(Vec::new()));
    let end = Arc::clone(&ended);
    // The mock agent repeats its prompt, so the acceptance phrase appears in the third round.
    let config = DevCoachConfig::new("count")
        .max_rounds(5)
        .dev_prompt_template("n=$((n + 1)); echo {task} $n")
        .coach_prompt_template("look at:\n{dev_message}\n")
        .acceptance_phrases(["count 3"])
        .on_complete(move |round, how| end.lock().unwrap().push((round, how.to_string())));
    let tracer = Tracer::new("pair");
    let context = fixture.context().with_trace(tracer.clone());
    let pair = DevCoachLoop::new(Arc::new(dev.clone()), Arc::new(coach.clone()), config);
    let result = pair.run(&context).await.unwrap();
    assert!(result.completed, "{result:#?}");
    assert_eq!((result.rounds, result.final_dev_message.as_str()), (3, "count 3"));
    assert!(result.final_coach_message.starts_with("You said: look at:"), "{result:#?}");
    assert_eq!(result.history.len(), 6);
    assert_eq!(*ended.lock().unwrap(), [(3, "accepted".to_string())]);
    let trace = tracer.snapshot();
    let steps: Vec<&str> = trace.steps.iter().map(|step| &*step.step_id).collect();
    assert_eq!(steps, ["dev#1", "coach#1", "dev#2", "coach#2", "dev#3", "coach#3"]);
    assert_eq!((trace.status, trace.steps[4].node_type), (TraceStatus::Completed, "pty"));
    dev.stop("done").await;
    coach.stop("done").await;
}

#[tokio::test]
async fn debate_runs_on_terminals() {
    let fixture = Fixture::new();
    let (one, two) = (fixture.agent("one").await, fixture.agent("two").await);
    let config = DebateConfig::new("tabs or spaces", "tabs", "spaces")
        .rounds(2)
        .prompt_template("{position} {round}/{rounds} < {opponent_message}");
    let debate = DebateLoop::new(Arc::new(one.clone()), Arc::new(two.clone()), config);
    let result = debate.run(&fixture.context()).await.unwrap();
    let turns: Vec<(u32, &str, &str)> =
        result.turns.iter().map(|turn| (turn.round, &*turn.position, &*turn.agent)).collect();
    assert_eq!(turns, [(1, "tabs", "one"), (1, "spaces", "two"), (2, "tabs", "one"), (2, "spaces", "two")]);
    assert_eq!(result.turns[0].message, "You said: tabs 1/2 < Let's debate: tabs or spaces");
    assert_eq!(
        result.turns[1].message,
        "You said: spaces 1/2 < You said: tabs 1/2 < Let's debate: tabs or spaces"
    );
    assert!(result.final_a.starts_with("You said: tabs 2/2 < You said: spaces 1/2"), "{result:#?}");
    assert!(result.final_b.starts_with("You said: spaces 2/2 < You said: tabs 2/2"), "{result:#?}");
    one.stop("done").await;
    two.stop("done").await;
}
