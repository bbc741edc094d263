//! Scenarios that are turns of the cell's agent.

use std::fmt::Debug;
use std::time::{Duration, SystemTime};

use nerve_agent::parse::SectionKind;
use nerve_api::value::{Delivery, NodeState, ResponseSource};
use nerve_node::dialog_answer::Choice;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::response::Response;
use nerve_testkit::mock_model::RecordedRequest;

use super::harness::{ENDLESS, ENDLESS_START, Harness, PASTE_ANSWER, PASTE_MARKER};
use super::variants::Variant;
use super::{Times, Verdict};

/// Lines of the long answer (the script's `HUGE`) and of the large paste.
const LINES: usize = 300;
/// Time that an agent gets to give up after an error of the API, before it is interrupted.
const RETRIES: Duration = Duration::from_secs(45);

/// A verdict, or the reason of a failure.
pub(super) type Outcome = Result<Verdict, String>;

pub(super) fn describe(error: EngineError) -> String {
    error.to_string()
}

pub(super) fn expect(holds: bool, what: &str, response: &impl Debug) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{what}: {response:?}")) }
}

/// Returns a text in one row, with single blanks between its words.
pub(super) fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Runs a turn and checks that it started and ended properly.
pub(super) async fn ask(harness: &Harness, prompt: &str) -> Result<Response, String> {
    let response = harness.ask(prompt).await.map_err(describe)?;
    expect(response.delivery == Delivery::Started, "no start was detected", &response)?;
    expect(response.is_ready && response.is_complete, "no end was detected", &response)?;
    Ok(response)
}

pub(super) async fn short(harness: &Harness, turns: usize, times: &mut Times) -> Outcome {
    for turn in 1..=turns.max(1) {
        let prompt = format!("hello number {turn}");
        let submitted = SystemTime::now();
        let response = ask(harness, &prompt).await?;
        let replied = SystemTime::now();
        let words = unwrapped(&response.text);
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

pub(super) async fn long(harness: &Harness) -> Outcome {
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

pub(super) async fn tool(harness: &Harness, variant: &Variant) -> Outcome {
    let response = ask(harness, &(variant.tool)(&harness.home.work().join("notes.txt"))).await?;
    let is_complete = response.text.contains("END-OF-TOOL") && response.text.contains(variant.tool_result);
    expect(is_complete, "the tool's result is missing", &response)?;
    let is_reported = response.sections.iter().any(|section| section.kind == SectionKind::ToolCall);
    expect(is_reported, "no tool call section", &response)?;
    Ok(Verdict::Passed)
}

pub(super) async fn dialog(harness: &mut Harness, variant: &Variant) -> Outcome {
    harness.take_tool_events();
    let Some(prompt) = variant.permission_prompt else { return Ok(no_permissions()) };
    request_permission(harness, prompt).await?;
    let response = harness.answer(Choice::Number(1)).await.map_err(describe)?;
    expect(response.text.contains("END-OF-TOOL"), "the turn did not continue", &response)?;
    expect(harness.home.work().join("made-by-tool.txt").exists(), "the tool did not run", &response)?;
    match harness.take_tool_events() {
        (1, 1) => Ok(Verdict::Passed),
        events => Err(format!("unexpected tool events for one tool: {events:?} (starts, ends)")),
    }
}

pub(super) async fn paste(harness: &Harness) -> Outcome {
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

pub(super) async fn interrupt(harness: &Harness) -> Outcome {
    let (engine, prompt) =
        (harness.nodes.engine.clone(), harness.prompt(&format!("{ENDLESS} answer please")));
    let turn = tokio::spawn(async move { engine.run_turn(prompt, Default::default()).await });
    harness.wait_for_text(ENDLESS_START).await?;
    harness.interrupt().await.map_err(describe)?;
    let response = match turn.await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Err(format!("the turn ended with {}", describe(error))),
        Err(error) => return Err(format!("the turn ended with {error}")),
    };
    let is_reported = response.attributes.get("interrupted").is_some_and(|value| *value == true);
    expect(is_reported && !response.text.contains(" 599"), "not interrupted", &response)?;
    let next = ask(harness, "hello after the interrupt").await?;
    expect(next.text.contains("hello after the interrupt"), "unexpected next answer", &next)?;
    Ok(Verdict::Passed)
}

fn no_permissions() -> Verdict {
    Verdict::Skipped("it runs tools without permission".to_string())
}

/// Runs the turn that asks for a permission.
async fn request_permission(harness: &Harness, prompt: &str) -> Result<(), String> {
    let blocked = match harness.ask(prompt).await {
        Ok(response) => return Err(format!("no permission request: {response:?}")),
        Err(error) if error.kind == ErrorKind::Blocked => error,
        Err(error) => return Err(describe(error)),
    };
    if (2..=5).contains(&blocked.choices.len()) {
        return Ok(());
    }
    Err(format!("unexpected choices: {:?}", blocked.choices))
}

pub(super) async fn refusal(harness: &Harness, variant: &Variant) -> Outcome {
    let made = harness.home.work().join("made-by-tool.txt");
    // The file of an earlier permission.
    let _ = std::fs::remove_file(&made);
    let Some(prompt) = variant.permission_prompt else { return Ok(no_permissions()) };
    request_permission(harness, prompt).await?;
    let response = harness.answer(Choice::Cancel).await.map_err(describe)?;
    expect(!made.exists(), "the tool ran", &response)?;
    // Kimi Code has the model answer the refusal.
    let is_answered = response.text.contains("END-OF-TOOL") && variant.agent != "kimi";
    expect(!is_answered, "the tool's result was answered", &response)?;
    let next = ask(harness, "hello after the refusal").await?;
    expect(next.text.contains("hello after the refusal"), "unexpected next answer", &next)?;
    Ok(Verdict::Passed)
}

pub(super) async fn slow(harness: &Harness) -> Outcome {
    let response = ask(harness, "Please answer SLOW").await?;
    expect(response.text.trim_end().ends_with("END-OF-SLOW"), "ended early", &response)?;
    Ok(Verdict::Passed)
}

/// Sends a prompt that the API answers with an error. The turn must fail and keep `kept`; an agent that tries again for long is
/// interrupted. The next prompt must be answered.
pub(super) async fn api_error(harness: &Harness, prompt: &str, kept: &str) -> Outcome {
    let (engine, request) = (harness.nodes.engine.clone(), harness.prompt(prompt));
    let mut turn = tokio::spawn(async move { engine.run_turn(request, Default::default()).await });
    let mut remark = None;
    let ended = match tokio::time::timeout(RETRIES, &mut turn).await {
        Ok(ended) => ended,
        Err(_) => {
            remark = Some(format!("still trying after {} s, interrupted", RETRIES.as_secs()));
            harness.interrupt().await.map_err(describe)?;
            turn.await
        }
    };
    match ended.map_err(|error| error.to_string())? {
        Ok(response) => {
            let Some(failure) = response.failure() else {
                return Err(format!("reported as a success: {response:?}"));
            };
            if !response.text.contains(kept) {
                expect(!response.raw.contains(kept), "the text is missing", &response)?;
                remark = Some("the agent removes the text".to_string());
            }
            if remark.is_none() && prompt.contains("400") {
                // A narrow window wraps it.
                let words = unwrapped(&failure.message);
                expect(words.contains("scripted error"), "the message is missing", &response)?;
                expect(response.is_ready, "not ready again", &response)?;
            }
        }
        Err(error) if error.kind == ErrorKind::Blocked => {
            remark = Some(format!("a dialog: {}", error.choices.join(", ")));
            harness.answer_dialog(Choice::Cancel).await.map_err(describe)?;
        }
        Err(error) => remark = Some(describe(error)),
    }
    let recovered = harness.wait(NodeState::Ready, harness.nodes.limit).await;
    recovered.map_err(|error| format!("not ready again: {}", describe(error)))?;
    let next = ask(harness, "hello after the error").await?;
    expect(next.text.contains("hello after the error"), "unexpected next answer", &next)?;
    Ok(remark.map_or(Verdict::Passed, Verdict::Partial))
}
