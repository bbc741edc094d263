//! The scenario, one function per behaviour.

use std::fmt::Debug;
use std::time::{Duration, SystemTime};

use nerve_agent::parse::SectionKind;
use nerve_api::value::{Delivery, ResponseSource};
use nerve_node::command::{Choice, Response, StateName};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_testkit::mock_model::RecordedRequest;

use super::harness::{ENDLESS, ENDLESS_START, Harness, PASTE_ANSWER, PASTE_MARKER};
use super::{Behaviour, Row, Times, Variant, Verdict};

/// Lines of the long answer (the script's `HUGE`) and of the large paste.
const LINES: usize = 300;
/// Maximum number of Ctrl+C presses to exit an agent, and the wait after each.
const EXIT_ATTEMPTS: (u32, Duration) = (20, Duration::from_millis(500));

/// A verdict, or the reason of a failure.
type Outcome = Result<Verdict, String>;

/// Runs the scenario with one agent. `turns` is the number of timed short answers, `step_timeout` the limit of each step.
///
/// # Errors
/// If the harness cannot be set up. Failures of the agent are verdicts.
pub(crate) async fn run_scenario(
    variant: &'static Variant,
    turns: usize,
    step_timeout: Duration,
) -> std::io::Result<Row> {
    let mut harness = Harness::new(variant, step_timeout).await?;
    let version = harness.version().await.unwrap_or_else(|| "?".to_string());
    let mut times = Times::default();
    let mut verdicts = Vec::new();
    let mut is_aborted = false;
    for behaviour in Behaviour::ALL {
        if is_aborted {
            verdicts.push((behaviour, Verdict::NotTried));
            continue;
        }
        let outcome = attempt(&mut harness, variant, behaviour, turns, &mut times).await;
        let verdict = match outcome {
            Ok(verdict) => verdict,
            Err(reason) => Verdict::Failed(format!("{reason}\n{}", harness.screen().await)),
        };
        if let Verdict::Failed(_) = &verdict {
            is_aborted = behaviour == Behaviour::Start || harness.recover().await.is_err();
        }
        verdicts.push((behaviour, verdict));
    }
    harness.stop().await;
    Ok(Row { variant, version, verdicts, times })
}

async fn attempt(
    harness: &mut Harness,
    variant: &Variant,
    behaviour: Behaviour,
    turns: usize,
    times: &mut Times,
) -> Outcome {
    match behaviour {
        Behaviour::Start => {
            times.ready.push(harness.start().await.map_err(describe)?);
            Ok(Verdict::Passed)
        }
        Behaviour::Short => short(harness, turns, times).await,
        Behaviour::Long => long(harness).await,
        Behaviour::Tool => tool(harness, variant).await,
        Behaviour::Permission => permission(harness, variant).await,
        Behaviour::Paste => paste(harness).await,
        Behaviour::Interrupt => interrupt(harness).await,
        Behaviour::ApiError => api_error(harness).await,
        Behaviour::Exit => exit(harness).await,
    }
}

fn describe(error: EngineError) -> String {
    format!("{:?}: {}", error.kind, error.message)
}

fn expect(holds: bool, what: &str, response: &impl Debug) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{what}: {response:?}")) }
}

/// Runs a turn and checks that it started and ended properly.
async fn ask(harness: &Harness, prompt: &str) -> Result<Response, String> {
    let response = harness.ask(prompt).await.map_err(describe)?;
    expect(response.delivery == Delivery::Started, "no start was detected", &response)?;
    expect(response.is_ready && response.is_complete, "no end was detected", &response)?;
    Ok(response)
}

async fn short(harness: &Harness, turns: usize, times: &mut Times) -> Outcome {
    for turn in 1..=turns.max(1) {
        let prompt = format!("hello number {turn}");
        let submitted = SystemTime::now();
        let response = ask(harness, &prompt).await?;
        let replied = SystemTime::now();
        let words = response.text.split_whitespace().collect::<Vec<_>>().join(" ");
        expect(words == format!("You said: {prompt}"), "unexpected text", &response)?;
        let requests = harness.model.requests();
        let request =
            requests.iter().find(|request| is_turn(request, &prompt)).ok_or("no request at the model")?;
        times.submit.extend(request.at.duration_since(submitted));
        times.reply.extend(request.answered.and_then(|answered| replied.duration_since(answered).ok()));
    }
    Ok(Verdict::Passed)
}

/// Returns true for the request of a turn, false for auxiliary ones such as titles.
fn is_turn(request: &RecordedRequest, prompt: &str) -> bool {
    request.body["tools"].as_array().is_some_and(|tools| !tools.is_empty())
        && request.body.to_string().contains(prompt)
}

async fn long(harness: &Harness) -> Outcome {
    let response = ask(harness, "HUGE answer please").await?;
    expect(response.source == ResponseSource::Transcript, "not from the agent's session file", &response)?;
    expect(response.text.trim_end().ends_with("END-OF-HUGE"), "the end is missing", &response)?;
    // Each line appears once and in order. A wrapped line still begins in its own row.
    let numbers = response.text.lines().filter_map(|line| line.trim_start().split_once("line ")?.1.get(..3));
    let numbers: Vec<usize> = numbers.filter_map(|number| number.parse().ok()).collect();
    let first = numbers.first().copied().unwrap_or(LINES + 1);
    expect(numbers.iter().copied().eq(first..=LINES), "lines are missing or out of order", &response)?;
    match response.attributes.get("truncated") {
        None if first == 1 => Ok(Verdict::Passed),
        Some(_) if first > 1 => {
            Ok(Verdict::Partial(format!("only the last {} lines, marked as truncated", numbers.len())))
        }
        truncated => Err(format!("the answer begins at line {first}, but `truncated` is {truncated:?}")),
    }
}

async fn tool(harness: &Harness, variant: &Variant) -> Outcome {
    let response = ask(harness, &(variant.tool)(&harness.home.work().join("notes.txt"))).await?;
    let is_complete = response.text.contains("END-OF-TOOL") && response.text.contains(variant.tool_result);
    expect(is_complete, "the tool's result is missing", &response)?;
    let is_reported = response.sections.iter().any(|section| section.kind == SectionKind::ToolCall);
    expect(is_reported, "no tool call section", &response)?;
    Ok(Verdict::Passed)
}

async fn permission(harness: &mut Harness, variant: &Variant) -> Outcome {
    harness.take_tool_events();
    let blocked = match harness.ask(variant.permission_prompt).await {
        Ok(response) => return Err(format!("no permission request: {response:?}")),
        Err(error) if error.kind == ErrorKind::Blocked => error,
        Err(error) => return Err(describe(error)),
    };
    if !(2..=5).contains(&blocked.choices.len()) {
        return Err(format!("unexpected choices: {:?}", blocked.choices));
    }
    let response = harness.answer(Choice::Number(1)).await.map_err(describe)?;
    expect(response.text.contains("END-OF-TOOL"), "the turn did not continue", &response)?;
    expect(harness.home.work().join("made-by-tool.txt").exists(), "the tool did not run", &response)?;
    match harness.take_tool_events() {
        (1, 1) => Ok(Verdict::Passed),
        events => Err(format!("unexpected tool events for one tool: {events:?} (starts, ends)")),
    }
}

async fn paste(harness: &Harness) -> Outcome {
    let rows: Vec<String> =
        (1..=LINES).map(|row| format!("{PASTE_MARKER} row {row} of {LINES}: äöü \"quoted\"")).collect();
    let response = ask(harness, &rows.join("\n")).await?;
    expect(response.text.contains(PASTE_ANSWER), "unexpected text", &response)?;
    // Compares with the JSON form, in which line ends and quotes are escaped.
    let expected = serde_json::Value::from(rows.join("\n")).to_string();
    let expected = expected.trim_matches('"');
    if harness.model.requests().iter().any(|request| request.body.to_string().contains(expected)) {
        return Ok(Verdict::Passed);
    }
    Err("the paste reached the model changed".to_string())
}

async fn interrupt(harness: &Harness) -> Outcome {
    let (engine, prompt) =
        (harness.nodes.engine.clone(), harness.prompt(&format!("{ENDLESS} answer please")));
    let turn = tokio::spawn(async move { engine.run_turn(prompt, Default::default()).await });
    harness.wait_for_text(ENDLESS_START).await?;
    harness.interrupt().await.map_err(describe)?;
    let response = match turn.await {
        Ok(Ok(response)) => response,
        other => return Err(format!("the turn ended with {other:?}")),
    };
    let is_reported = response.attributes.get("interrupted").is_some_and(|value| value == "true");
    expect(is_reported && !response.text.contains(" 599"), "not interrupted", &response)?;
    let next = ask(harness, "hello after the interrupt").await?;
    expect(next.text.contains("hello after the interrupt"), "unexpected next answer", &next)?;
    Ok(Verdict::Passed)
}

async fn api_error(harness: &Harness) -> Outcome {
    let response = match harness.ask("ERR 400 now").await {
        Ok(response) => response,
        Err(error) => return Err(describe(error)),
    };
    let ready = response.is_ready;
    let value = response.clone().into_value();
    expect(value["success"] == false, "reported as a success", &response)?;
    expect(
        value["error"].as_str().is_some_and(|error| error.contains("scripted error")),
        "the message is missing",
        &response,
    )?;
    expect(ready, "not ready again", &response)?;
    Ok(Verdict::Passed)
}

async fn exit(harness: &Harness) -> Outcome {
    for _ in 0..EXIT_ATTEMPTS.0 {
        // The program may have exited already.
        let _ = harness.write("\x03").await;
        if harness.wait(StateName::Stopped, EXIT_ATTEMPTS.1).await.is_ok() {
            return Ok(Verdict::Passed);
        }
    }
    Err("the exit was not detected".to_string())
}
