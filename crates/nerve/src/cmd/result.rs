//! `nerve result`: results of asynchronous executions, and the corresponding options of `execute`.

use std::path::Path;

use anyhow::{Context, Result};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use nerve_api::ErrorKind;
use nerve_api::reply::{ResultInfo, ResultList, Turn};
use nerve_api::request::{ConversationMessage, ConversationOptions, ListResults, WebhookTarget};

use super::node::execute;
use super::server::connect;
use crate::cli::node::name_of;
use crate::cli::result::{ResultArgs, TurnOptions};
use crate::exit::{FAILED, Failure, TIMED_OUT, USAGE, code_of};
use crate::out;

/// Runs the command.
pub(crate) async fn run(args: ResultArgs) -> Result<()> {
    let client = connect(&args.server.server).await?;
    let as_json = args.server.json;
    let Some(id) = args.id else {
        let last = args.last.map(|last| usize::try_from(last).unwrap_or(usize::MAX));
        let filter = ListResults { session_id: None, node_id: args.node, last };
        return list(client.results(&filter).await?, as_json);
    };
    let result = if args.cancel {
        client.cancel_result(&id).await?
    } else if args.wait {
        let timeout = args.timeout.map(|timeout| timeout.0);
        let waiting = format!("waiting for result '{id}'");
        out::progress(&waiting, client.wait_for_result(&id, timeout)).await?
    } else {
        client.result(&id).await?
    };
    if as_json {
        out::json(&serde_json::to_value(&result)?)?;
    } else if args.cancel {
        return out::line(format_args!("result '{id}' is {}", cancel_state(&result)));
    }
    if args.cancel { Ok(()) } else { show(result, as_json) }
}

/// Prints the answer, or fails with the execution's error.
fn show(result: ResultInfo, as_json: bool) -> Result<()> {
    if let Some(webhook) = result.webhook.as_ref().and_then(|webhook| webhook.gave_up.as_ref()) {
        out::warning(format_args!("the webhook was not delivered: {}", out::sanitize(webhook)));
    }
    let ResultInfo { result_id, node_id, status, turn, response, .. } = &result;
    if !status.is_end() {
        let message = format!("result '{result_id}' is not available yet: {status}");
        return Err(Failure::new(TIMED_OUT, message).hint("wait for it with --wait").into());
    }
    if let Some(response) = response {
        let warnings = response.attributes.get("warnings").and_then(|warnings| warnings.as_str());
        warnings.unwrap_or_default().lines().for_each(|warning| out::warning(out::sanitize(warning)));
        let data =
            Turn { response: response.clone(), node_id: node_id.clone(), turn: turn.unwrap_or_default() };
        if !as_json {
            execute::print(&data, false)?;
        }
        return execute::check(&data.response);
    }
    let code = result.error_type.map_or(FAILED, |error_type| match error_type {
        // Not NOT_FOUND or USAGE: the result itself was found.
        ErrorKind::NotFound | ErrorKind::InvalidRequest => FAILED,
        other => code_of(other),
    });
    let message = result.error.clone().unwrap_or_else(|| format!("the execution is {status}"));
    let (hint, screen, choices) = (result.hint, result.screen, result.choices);
    Err(Failure { hint, screen, choices, ..Failure::new(code, message) }.into())
}

fn list(results: Vec<ResultInfo>, as_json: bool) -> Result<()> {
    if as_json {
        return out::json(&serde_json::to_value(ResultList { results })?);
    }
    if results.is_empty() {
        out::note("no results; create one with 'nerve server node execute NODE TEXT --async'");
    }
    let rows: Vec<Vec<String>> = results
        .into_iter()
        .map(|result| {
            let error = result.error.as_deref().map(|error| out::preview(error, 60)).unwrap_or_default();
            let (created, prompt) = (local_time(result.created_at), out::preview(&result.prompt, 40));
            vec![result.result_id, result.node_id, result.status.to_string(), created, prompt, error]
        })
        .collect();
    out::table(&["result", "node", "state", "created", "prompt", "error"], &rows)
}

/// Returns the state of a cancelled result.
fn cancel_state(result: &ResultInfo) -> String {
    match result.error_type {
        Some(ErrorKind::Cancelled) => "cancelled".to_string(),
        _ if !result.status.is_end() => {
            format!("{}: cancellation requested", result.status)
        }
        _ => result.status.to_string(),
    }
}

/// Formats a time as `2025-10-09 08:53:20` in local time.
fn local_time(at: f64) -> String {
    let stamp = Timestamp::from_microsecond((at * 1e6) as i64).unwrap_or(Timestamp::MAX);
    stamp.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Returns the conversation selected by the options.
pub(crate) fn conversation(args: &TurnOptions) -> Result<Option<ConversationOptions>> {
    let history = args.history.as_deref().map(history).transpose()?;
    if args.workspace.is_none() && history.is_none() && args.context.is_none() {
        return Ok(None);
    }
    Ok(Some(ConversationOptions {
        workspace: args.workspace.clone(),
        chat: args.chat.clone(),
        history: history.unwrap_or_default(),
        context: args.context.map(name_of),
    }))
}

/// Returns the webhook selected by the options.
pub(crate) fn webhook(args: &TurnOptions) -> Result<Option<WebhookTarget>> {
    let secret = args.webhook_secret_env.as_ref().map(|name| {
        std::env::var(name).map_err(|_| {
            Failure::new(USAGE, format!("environment variable {name} is not set"))
                .hint("set it, or omit --webhook-secret-env")
        })
    });
    let secret = secret.transpose()?;
    Ok(args.webhook.clone().map(|url| WebhookTarget { url, secret }))
}

fn history(path: &Path) -> Result<Vec<ConversationMessage>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let list: Vec<serde_json::Value> = serde_json::from_slice(&bytes)
        .map_err(|error| Failure::new(USAGE, format!("{} is not a JSON list: {error}", path.display())))?;
    let read = |(index, message): (usize, serde_json::Value)| {
        serde_json::from_value(message).map_err(|error| {
            let message = format!("{}: message {index}: {error}", path.display());
            Failure::new(USAGE, message)
                .hint("a message has role (user or assistant), content and timestamp")
                .into()
        })
    };
    list.into_iter().enumerate().map(read).collect()
}
