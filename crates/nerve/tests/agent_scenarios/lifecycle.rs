//! Scenarios about the life of agents: forks, exit, many nodes, a killed server, and the command line.

use std::time::Duration;

use nerve_api::request::{ExecuteInput, ForkNode};
use nerve_api::value::NodeState;
use nerve_node::error::ErrorKind;
use nerve_testkit::harness::{CommandOutput, node_ref, signal};
use nerve_testkit::wait_until_async;
use rustix::process::Signal;

use super::Verdict;
use super::harness::Harness;
use super::turns::{Outcome, ask as ask_agent, describe, expect, unwrapped};
use super::variants::Variant;

/// Maximum number of presses of the exit keys, and the wait after each.
const EXIT_ATTEMPTS: (u32, Duration) = (20, Duration::from_millis(500));
/// Memory that must stay free when many agents run, in MiB.
const RESERVE_MIB: usize = 3000;

pub(super) async fn exit(harness: &Harness, variant: &Variant) -> Outcome {
    for _ in 0..EXIT_ATTEMPTS.0 {
        // The program may have exited already.
        let _ = harness.write(variant.exit_keys).await;
        if harness.wait(NodeState::Stopped, EXIT_ATTEMPTS.1).await.is_ok() {
            return Ok(Verdict::Passed);
        }
    }
    Err("the exit was not detected".to_string())
}

pub(super) async fn fork(harness: &Harness, variant: &Variant) -> Outcome {
    if variant.agent == "opencode" {
        return Ok(Verdict::Skipped("the id of its conversation is known only with `--session`".into()));
    }
    if matches!(variant.agent, "copilot" | "kimi") {
        return Ok(Verdict::Skipped("it forks only with a command of its own".into()));
    }
    ask_agent(harness, "the shared wordalpha").await?;
    let request = || ForkNode {
        source_id: harness.node().into(),
        target_id: "fork".into(),
        at: None,
        session_id: None,
    };
    let mut result = None;
    let is_decided = async || {
        let forked = harness.nodes.engine.fork_node(request(), Default::default()).await;
        // Some agents become busy again after an answer, to generate a title.
        let is_busy = forked.as_ref().is_err_and(|error| error.kind == ErrorKind::Busy);
        result = Some(forked);
        !is_busy
    };
    if !wait_until_async(harness.nodes.limit, is_decided).await {
        return Err("the source stays busy".into());
    }
    result.ok_or("no reply to the fork")?.map_err(describe)?;
    harness.nodes.wait("fork", NodeState::Ready).await.map_err(describe)?;
    let response = harness.nodes.send("fork", "in the fork wordgamma").await.map_err(describe)?;
    expect(response.text.contains("wordgamma"), "unexpected answer of the fork", &response)?;
    ask_agent(harness, "in the source wordbeta").await?;
    let _ = harness.nodes.engine.stop_node(node_ref("fork").into(), Default::default()).await;
    let body = |word: &str| {
        let bodies = harness.model.requests().into_iter().map(|request| request.body.to_string());
        bodies.rev().find(|body| body.contains(word)).unwrap_or_default()
    };
    let (fork, source) = (body("wordgamma"), body("wordbeta"));
    let diverges = fork.contains("wordalpha") && !fork.contains("wordbeta") && !source.contains("wordgamma");
    expect(diverges, "the conversations are mixed", &(fork.len(), source.len()))?;
    Ok(Verdict::Passed)
}

/// Creates nodes at once and gives each a prompt before it is ready. Each must get its own answer.
pub(super) async fn nodes(harness: &Harness, count: usize) -> Outcome {
    let needed = count * harness.memory_mib() + RESERVE_MIB;
    if available_mib().is_some_and(|available| available < needed) {
        return Ok(Verdict::Skipped(format!("needs {} GB of memory", needed / 1000)));
    }
    let turns = (1..=count).map(|number| {
        let (engine, spec) = (harness.nodes.engine.clone(), harness.numbered_spec(number));
        let name = spec.node_id.clone();
        let prompt = ExecuteInput {
            timeout: Some((harness.nodes.limit * 3).into()),
            ..ExecuteInput::new(name.as_str(), format!("hello from {name}"))
        };
        tokio::spawn(async move {
            engine.create(spec).await.map_err(describe)?;
            let response = engine.run_turn(prompt, Default::default()).await;
            let text = response.map_err(describe)?.text;
            let said = unwrapped(&text);
            if said == format!("You said: hello from {name}") {
                Ok(())
            } else {
                Err(format!("it said '{text}'"))
            }
        })
    });
    let turns: Vec<_> = turns.collect();
    let mut faults = Vec::new();
    for (number, turn) in (1..).zip(turns) {
        if let Err(fault) = turn.await.unwrap_or_else(|error| Err(error.to_string())) {
            faults.push(format!("{fault}\n{}", harness.nodes.screen(&format!("n{number}")).await));
        }
    }
    for number in 1..=count {
        let node = node_ref(&format!("n{number}"));
        // A node that was not created cannot be stopped.
        let _ = harness.nodes.engine.stop_node(node.into(), Default::default()).await;
    }
    match faults.first() {
        None => Ok(Verdict::Passed),
        Some(first) => Err(format!("{} of {count} nodes did not answer: {first}", faults.len())),
    }
}

/// Returns the memory that programs can still allocate.
fn available_mib() -> Option<usize> {
    let memory = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = memory.lines().find(|line| line.starts_with("MemAvailable:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kib| kib / 1024)
}

pub(super) async fn ask(harness: &Harness) -> Outcome {
    let output =
        harness.nerve(&["ask", "--force", "--command", &harness.command_line(101), "hello there"]).await;
    expect(output.code == 0, "`nerve ask` failed", &output)?;
    let words = unwrapped(&output.stdout);
    expect(words == "You said: hello there", "unexpected output", &output)?;
    Ok(Verdict::Passed)
}

pub(super) async fn kill(harness: &Harness) -> Outcome {
    let outcome = survive_kill(harness).await;
    // The outcome counts; the server may be gone already.
    let _ = harness.nerve(&["server", "stop"]).await;
    outcome
}

async fn survive_kill(harness: &Harness) -> Outcome {
    let size = harness.size();
    let (cols, rows) = (size.0.to_string(), size.1.to_string());
    nerve(harness, &["server", "start"]).await?;
    let command = harness.command_line(102);
    nerve(
        harness,
        &[
            "server",
            "node",
            "create",
            "k",
            "--force",
            "--command",
            &command,
            "--cols",
            &cols,
            "--rows",
            &rows,
        ],
    )
    .await?;
    nerve(harness, &["server", "node", "execute", "k", "hello before"]).await?;
    nerve(harness, &["server", "node", "execute", "k", "Please answer SLOW", "--async"]).await?;
    let asked = || async {
        harness.model.requests().iter().any(|request| request.body.to_string().contains("answer SLOW"))
    };
    if !wait_until_async(harness.nodes.limit, asked).await {
        return Err("the prompt did not reach the model".into());
    }
    let status = nerve(harness, &["server", "status", "--json"]).await?.json();
    let pid = status["pid"].as_u64().and_then(|pid| pid.try_into().ok()).ok_or("no pid of the server")?;
    signal(pid, Signal::KILL);
    nerve(harness, &["server", "start"]).await?;
    nerve(harness, &["server", "node", "wait", "k", "--timeout", "90"]).await?;
    let next = nerve(harness, &["server", "node", "execute", "k", "are you still there?"]).await?;
    let words = unwrapped(&next.stdout);
    expect(words == "You said: are you still there?", "unexpected answer after the restart", &next)?;
    let text = nerve(harness, &["server", "node", "read", "k"]).await?;
    if harness.keeps_conversation_on_screen() {
        expect(text.stdout.contains("END-OF-SLOW"), "the agent's turn was lost", &text)?;
    }
    Ok(Verdict::Passed)
}

/// Runs a command of nerve that must succeed.
async fn nerve(harness: &Harness, arguments: &[&str]) -> Result<CommandOutput, String> {
    let output = harness.nerve(arguments).await;
    expect(output.code == 0, &format!("`nerve {}` failed", arguments.join(" ")), &output)?;
    Ok(output)
}
