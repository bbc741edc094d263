//! The scenario.

use std::fmt::Debug;
use std::time::{Duration, SystemTime};

use nerve_agent::parse::SectionKind;
use nerve_api::request::NodeChoice;
use nerve_core::command::{Response, StateName};
use nerve_core::error::{EngineError, ErrorKind};
use nerve_testkit::mock_model::RecordedRequest;

use super::harness::{ENDLESS, ENDLESS_WORDS, GOT_IT, PASTED, Stage};
use super::{Behaviour, Row, Times, Verdict, Way};

/// Lines of the long answer (the script's `HUGE`) and of the large paste.
const LINES: usize = 300;
/// How often Ctrl+C is pressed until an agent leaves, and how long it has for each.
const LEAVING: (u32, Duration) = (20, Duration::from_millis(500));

/// How it went, or what went wrong in words.
type Tried = Result<Verdict, String>;

/// Tries one agent for everything. `turns` is how many short answers are timed; `patience` is the limit of each single step.
///
/// # Errors
/// When the stage cannot be set: that is no fault of the agent.
pub(crate) async fn try_out(way: &'static Way, turns: usize, patience: Duration) -> std::io::Result<Row> {
    let mut stage = Stage::set(way, patience).await?;
    let version = stage.version().await.unwrap_or_else(|| "?".to_string());
    let mut times = Times::default();
    let mut verdicts = Vec::new();
    let mut lost = false;
    for behaviour in Behaviour::ALL {
        if lost {
            verdicts.push((behaviour, Verdict::NotTried));
            continue;
        }
        let tried = attempt(&mut stage, way, behaviour, turns, &mut times).await;
        let verdict = match tried {
            Ok(verdict) => verdict,
            Err(why) => Verdict::Failed(format!("{why}\n{}", stage.screen().await)),
        };
        if let Verdict::Failed(_) = &verdict {
            lost = behaviour == Behaviour::Start || stage.recover().await.is_err();
        }
        verdicts.push((behaviour, verdict));
    }
    stage.stop().await;
    Ok(Row { way, version, verdicts, times })
}

async fn attempt(
    stage: &mut Stage,
    way: &Way,
    behaviour: Behaviour,
    turns: usize,
    times: &mut Times,
) -> Tried {
    match behaviour {
        Behaviour::Start => {
            times.ready.push(stage.start().await.map_err(in_words)?);
            Ok(Verdict::Done)
        }
        Behaviour::Short => short(stage, turns, times).await,
        Behaviour::Long => long(stage).await,
        Behaviour::Tool => tool(stage, way).await,
        Behaviour::Permission => permission(stage, way).await,
        Behaviour::Paste => paste(stage).await,
        Behaviour::Interrupt => interrupt(stage).await,
        Behaviour::ApiError => api_error(stage).await,
        Behaviour::Exit => exit(stage).await,
    }
}

fn in_words(error: EngineError) -> String {
    format!("{:?}: {}", error.kind, error.message)
}

fn expect(holds: bool, what: &str, response: &impl Debug) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{what}: {response:?}")) }
}

/// A turn that ended as turns should.
async fn ask(stage: &Stage, prompt: &str) -> Result<Response, String> {
    let response = stage.ask(prompt).await.map_err(in_words)?;
    expect(response.delivery == "started", "it was not seen to start", &response)?;
    expect(response.is_ready && response.is_complete, "its end was not seen", &response)?;
    Ok(response)
}

async fn short(stage: &Stage, turns: usize, times: &mut Times) -> Tried {
    for turn in 1..=turns.max(1) {
        let prompt = format!("hello number {turn}");
        let asked = SystemTime::now();
        let response = ask(stage, &prompt).await?;
        let replied = SystemTime::now();
        let said = response.text.split_whitespace().collect::<Vec<_>>().join(" ");
        expect(said == format!("You said: {prompt}"), "other words", &response)?;
        let requests = stage.model.requests();
        let request =
            requests.iter().find(|request| is_turn(request, &prompt)).ok_or("no request at the model")?;
        times.submit.extend(request.at.duration_since(asked));
        times.reply.extend(request.answered.and_then(|answered| replied.duration_since(answered).ok()));
    }
    Ok(Verdict::Done)
}

/// The request of a turn, and not one for a title or the like.
fn is_turn(request: &RecordedRequest, prompt: &str) -> bool {
    request.body["tools"].as_array().is_some_and(|tools| !tools.is_empty())
        && request.body.to_string().contains(prompt)
}

async fn long(stage: &Stage) -> Tried {
    let response = ask(stage, "HUGE answer please").await?;
    expect(response.text.trim_end().ends_with("END-OF-HUGE"), "its end is missing", &response)?;
    // Each line once and in order; where one is wrapped, its beginning is in a row of its own.
    let numbers = response.text.lines().filter_map(|line| line.trim_start().split_once("line ")?.1.get(..3));
    let numbers: Vec<usize> = numbers.filter_map(|number| number.parse().ok()).collect();
    let first = numbers.first().copied().unwrap_or(LINES + 1);
    expect(numbers.iter().copied().eq(first..=LINES), "lines are missing or out of order", &response)?;
    match response.attributes.get("truncated") {
        None if first == 1 => Ok(Verdict::Done),
        Some(_) if first > 1 => {
            Ok(Verdict::Partly(format!("only the last {} lines, and the reply says so", numbers.len())))
        }
        told => Err(format!("it begins at line {first}, and the reply says {told:?}")),
    }
}

async fn tool(stage: &Stage, way: &Way) -> Tried {
    let response = ask(stage, &(way.tool)(&stage.home.work().join("notes.txt"))).await?;
    let said = response.text.contains("END-OF-TOOL") && response.text.contains(way.tool_says);
    expect(said, "the tool's result is missing", &response)?;
    let is_told = response.sections.iter().any(|section| section.kind == SectionKind::ToolCall);
    expect(is_told, "no section tells of the tool", &response)?;
    Ok(Verdict::Done)
}

async fn permission(stage: &mut Stage, way: &Way) -> Tried {
    stage.tools_told();
    let blocked = match stage.ask(way.asking).await {
        Ok(response) => return Err(format!("nothing was asked: {response:?}")),
        Err(error) if error.kind == ErrorKind::Blocked => error,
        Err(error) => return Err(in_words(error)),
    };
    if !(2..=5).contains(&blocked.choices.len()) {
        return Err(format!("the choices were read as {:?}", blocked.choices));
    }
    let response = stage.answer(NodeChoice::Number(1)).await.map_err(in_words)?;
    expect(response.text.contains("END-OF-TOOL"), "the turn did not go on", &response)?;
    expect(stage.home.work().join("made-by-tool.txt").exists(), "the tool did not run", &response)?;
    match stage.tools_told() {
        (1, 1) => Ok(Verdict::Done),
        told => Err(format!("one tool was told as {told:?} (starts, ends)")),
    }
}

async fn paste(stage: &Stage) -> Tried {
    let rows: Vec<String> =
        (1..=LINES).map(|row| format!("{PASTED} row {row} of {LINES}: äöü \"quoted\"")).collect();
    let response = ask(stage, &rows.join("\n")).await?;
    expect(response.text.contains(GOT_IT), "other words", &response)?;
    // As JSON has it: line ends and quotes are escaped.
    let wanted = serde_json::Value::from(rows.join("\n")).to_string();
    let wanted = wanted.trim_matches('"');
    if stage.model.requests().iter().any(|request| request.body.to_string().contains(wanted)) {
        return Ok(Verdict::Done);
    }
    Err("the model did not get the rows as they were".to_string())
}

async fn interrupt(stage: &Stage) -> Tried {
    let (engine, prompt) = (stage.engine.clone(), stage.prompt(&format!("{ENDLESS} answer please")));
    let turn = tokio::spawn(async move { engine.run_turn(prompt, Default::default()).await });
    stage.until_shown(ENDLESS_WORDS).await?;
    stage.interrupt().await.map_err(in_words)?;
    let response = match turn.await {
        Ok(Ok(response)) => response,
        other => return Err(format!("the turn ended with {other:?}")),
    };
    let is_told = response.attributes.get("interrupted").is_some_and(|told| told == "true");
    expect(is_told && !response.text.contains(" 599"), "it was not interrupted", &response)?;
    let next = ask(stage, "hello after the interrupt").await?;
    expect(next.text.contains("hello after the interrupt"), "the next answer is another one", &next)?;
    Ok(Verdict::Done)
}

async fn api_error(stage: &Stage) -> Tried {
    let response = match stage.ask("ERR 400 now").await {
        Ok(response) => response,
        Err(error) => return Err(in_words(error)),
    };
    let ready = response.is_ready;
    let told = response.clone().into_value();
    expect(told["success"] == false, "it was told as a success", &response)?;
    expect(
        told["error"].as_str().is_some_and(|error| error.contains("scripted error")),
        "its words are missing",
        &response,
    )?;
    expect(ready, "it is not ready again", &response)?;
    Ok(Verdict::Done)
}

async fn exit(stage: &Stage) -> Tried {
    for _ in 0..LEAVING.0 {
        // It may be gone already.
        let _ = stage.write("\x03").await;
        if stage.wait(StateName::Stopped, LEAVING.1).await.is_ok() {
            return Ok(Verdict::Done);
        }
    }
    Err("its end was not noticed".to_string())
}
