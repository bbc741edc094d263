//! The outcome of a run: results on stdout, the trace in its file, the exit code.

use std::path::Path;

use anyhow::{Context, Result};
use nerve_api::reply::RunEnded;
use nerve_api::value::RunStatus;
use nerve_client::{ClientError, ServerError};
use nerve_commands::run_display::RunFollower;
use serde_json::{Value, json};

use super::Target;
use crate::exit::{FAILED, Failure, INTERRUPTED, NOT_FOUND, USAGE};
use crate::out;

/// Prints the outcome of a run. Failed runs also have results.
///
/// # Errors
/// The run failed, was cancelled, or may not have ended.
pub(super) fn print_outcome(
    target: &Target,
    follower: &RunFollower,
    end: Result<RunEnded, ClientError>,
    trace: Option<&Path>,
) -> Result<()> {
    let run = follower.run();
    let (ended, failure) = match end {
        Ok(ended) => (ended, None),
        Err(ClientError::Closed(_)) => return Err(interrupted(target, run, "closed the connection").into()),
        Err(ClientError::Server(error)) => match &error.details.run {
            Some(ended) => {
                (RunEnded::clone(ended), Some(failure(target, ended, &error, follower.first_failed_step())))
            }
            None => return Err(ClientError::Server(error).into()),
        },
        Err(error) => return Err(error.into()),
    };
    write_trace(&ended, trace)?;
    print(target, &ended, failure.as_ref(), trace)?;
    for fault in &ended.faults {
        out::warning(out::sanitize(fault));
    }
    match failure {
        Some(failure) => Err(failure.into()),
        None => Ok(()),
    }
}

/// Returns the error of a run that did not complete.
fn failure(target: &Target, ended: &RunEnded, error: &ServerError, step: Option<String>) -> Failure {
    let run = &ended.run_id;
    let mut failure = Failure::from(error);
    let resume = target.command(&format!("resume {run}"));
    match ended.status {
        RunStatus::Interrupted => return interrupted(target, run, "was stopped"),
        RunStatus::Cancelled => {
            failure.code = INTERRUPTED;
            failure.message = format!("run '{run}' was cancelled");
            failure.hint = Some(format!("completed steps are kept; continue with '{resume}'"));
        }
        _ => {
            // A missing node or a rejected input is a failed run, not a usage error; only a cancelled run was interrupted.
            if [USAGE, NOT_FOUND, INTERRUPTED].contains(&failure.code) {
                failure.code = FAILED;
            }
            let step = step.filter(|step| !failure.message.contains(&format!("'{step}'")));
            let step = step.map(|step| format!("step '{step}': ")).unwrap_or_default();
            failure.message = format!("run '{run}' failed: {step}{}", failure.message);
            let retry = format!("completed steps are kept; retry the rest with '{resume}'");
            failure.hint = Some(failure.hint.map_or(retry.clone(), |hint| format!("{hint}; {retry}")));
        }
    }
    failure
}

/// Returns the error for a run whose server ended or closed the connection.
pub(super) fn interrupted(target: &Target, run: &str, ending: &str) -> Failure {
    let server = &target.server;
    let start = if server == "default" { String::new() } else { format!(" {server}") };
    let resume = target.command(&format!("resume {run}"));
    Failure::new(FAILED, format!("server '{server}' {ending} during run '{run}'"))
        .hint(format!("restart it with 'nerve server start{start}', then continue with '{resume}'"))
}

fn write_trace(ended: &RunEnded, file: Option<&Path>) -> Result<()> {
    let (Some(file), Some(trace)) = (file.filter(|file| *file != Path::new("-")), &ended.trace) else {
        return Ok(());
    };
    std::fs::write(file, format!("{trace:#}\n")).with_context(|| format!("cannot write {}", file.display()))
}

fn print(target: &Target, ended: &RunEnded, failure: Option<&Failure>, trace: Option<&Path>) -> Result<()> {
    let in_output = trace == Some(Path::new("-"));
    if target.json {
        let mut data = serde_json::to_value(ended)?;
        if let Value::Object(fields) = &mut data {
            if !in_output {
                fields.remove("trace");
            }
            if let Some(failure) = failure {
                fields.insert("error".to_string(), json!(failure.message));
                fields.insert("error_type".to_string(), json!(failure.error_type));
                fields.extend(failure.hint.iter().map(|hint| ("hint".to_string(), json!(hint))));
            }
        }
        return out::json(&data);
    }
    let mut texts = Vec::new();
    for (step, value) in &ended.results {
        collect_texts(step, value, &mut texts);
        warn_truncated(step, value);
    }
    texts.retain(|(_, text)| !text.is_empty());
    match texts.as_slice() {
        [(_, text)] => out::text(text)?,
        _ => {
            for (step, text) in &texts {
                out::line(format_args!("{}== {}{:#}", out::STRONG, out::preview(step, 200), out::STRONG))?;
                out::text(text)?;
            }
        }
    }
    match &ended.trace {
        Some(trace) if in_output => out::json(trace),
        _ => Ok(()),
    }
}

/// Collects the texts of results with the paths of their steps. Skipped steps have none.
fn collect_texts(path: &str, value: &Value, texts: &mut Vec<(String, String)>) {
    match value {
        Value::Null => {}
        Value::String(text) => texts.push((path.to_string(), text.clone())),
        Value::Object(_) if is_response(value) => {
            texts.push((path.to_string(), value["text"].as_str().unwrap_or_default().to_string()));
        }
        // The result of a gate.
        Value::Object(_) if value["choice"].is_string() && value["by"].is_string() => {
            texts.push((path.to_string(), value["choice"].as_str().unwrap_or_default().to_string()));
        }
        Value::Object(fields) if has_response(value) => {
            fields.iter().for_each(|(step, value)| collect_texts(&format!("{path}/{step}"), value, texts));
        }
        Value::Array(items) if has_response(value) || items.iter().all(Value::is_string) => {
            items
                .iter()
                .enumerate()
                .for_each(|(at, item)| collect_texts(&format!("{path}[{at}]"), item, texts));
        }
        other => texts.push((path.to_string(), format!("{other:#}"))),
    }
}

/// Warns about truncated results.
fn warn_truncated(path: &str, value: &Value) {
    match value {
        Value::Object(_) if is_response(value) => {
            if let Some(note) = value["attributes"]["truncated"].as_str() {
                out::warning(format_args!("step {}: {note}", out::preview(path, 200)));
            }
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(step, value)| warn_truncated(&format!("{path}/{step}"), value))
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| warn_truncated(&format!("{path}[{at}]"), item))
        }
        _ => {}
    }
}

/// Returns true for the response of a turn.
fn is_response(value: &Value) -> bool {
    value["text"].is_string() && value["success"].is_boolean()
}

/// Returns true if a response is nested in the value.
fn has_response(value: &Value) -> bool {
    match value {
        Value::Object(fields) => is_response(value) || fields.values().any(has_response),
        Value::Array(items) => items.iter().any(has_response),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collects_texts_by_step_path() {
        let response = |text: &str| json!({ "text": text, "success": true, "sections": [] });
        let all = json!({
            "ask": response("said"), "list": [response("one"), response("two")], "words": ["a", "b"],
            "inner": { "x": response("deep"), "left-out": null }, "gate": { "choice": "yes", "by": "person" },
            "left-out": null, "text": "as it is", "number": 3,
        });
        let mut texts = Vec::new();
        for (step, value) in all.as_object().into_iter().flatten() {
            collect_texts(step, value, &mut texts);
        }
        texts.sort();
        let texts: Vec<(&str, &str)> =
            texts.iter().map(|(step, text)| (step.as_str(), text.as_str())).collect();
        assert_eq!(
            texts,
            [
                ("ask", "said"),
                ("gate", "yes"),
                ("inner/x", "deep"),
                ("list[0]", "one"),
                ("list[1]", "two"),
                ("number", "3"),
                ("text", "as it is"),
                ("words[0]", "a"),
                ("words[1]", "b"),
            ]
        );
    }
}
