//! `nerve result`: results of asynchronous executions.

use anyhow::Result;
use nerve_api::ErrorKind;
use nerve_api::reply::{ResultInfo, ResultList, Turn};
use nerve_api::request::ListResults;
use nerve_commands::node_command::execute;

use super::machine::resolve_node;
use super::server::connect;
use crate::exit::{FAILED, Failure, TIMED_OUT, exit_code_of};
use crate::out;
use nerve_cli::result::ResultArgs;
use nerve_commands::clock::local_time;

/// Runs the command.
pub(crate) async fn run(mut args: ResultArgs) -> Result<()> {
    let mut session_id = None;
    if let Some(node) = &mut args.node {
        resolve_node(node, &mut session_id, &mut args.server.server)?;
    }
    let client = connect(&args.server.server).await?;
    let as_json = args.server.json;
    let Some(id) = args.id else {
        let last = args.last.map(|last| usize::try_from(last).unwrap_or(usize::MAX));
        let filter = ListResults { node_id: args.node, session_id, last, ..ListResults::default() };
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
        out::json(&result)?;
    }
    match args.cancel {
        true if as_json => Ok(()),
        true => out::line(format_args!("result '{id}' is {}", cancel_state(&result))),
        false => show(result, as_json),
    }
}

/// Prints the answer, or fails with the execution's error.
fn show(result: ResultInfo, as_json: bool) -> Result<()> {
    if let Some(webhook) = result.webhook.as_ref().and_then(|webhook| webhook.gave_up.as_ref()) {
        out::warning(format_args!("the webhook was not delivered: {}", out::sanitize(webhook)));
    }
    let ResultInfo { result_id, node_id, status, turn, response, .. } = &result;
    if !status.is_end() && result.error_type != Some(ErrorKind::Blocked) {
        let message = format!("result '{result_id}' is not available yet: {status}");
        return Err(Failure::new(TIMED_OUT, message).hint("wait for it with --wait").into());
    }
    if let Some(response) = response {
        let warnings = response.attributes.get("warnings").and_then(|warnings| warnings.as_array());
        let warnings = warnings.into_iter().flatten().filter_map(|warning| warning.as_str());
        warnings.for_each(|warning| out::warning(out::sanitize(warning)));
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
        other => exit_code_of(other),
    });
    let message = result.error.clone().unwrap_or_else(|| format!("the execution is {status}"));
    let failure = Failure::new(code, message);
    let error_type = result.error_type.unwrap_or(failure.error_type);
    let ResultInfo { hint, screen, choices, delivery, text, .. } = result;
    let text = text.map(String::into_boxed_str);
    Err(Failure { error_type, hint, screen, choices, delivery, text, ..failure }.into())
}

fn list(results: Vec<ResultInfo>, as_json: bool) -> Result<()> {
    if as_json {
        return out::json(&ResultList { results, next: None });
    }
    if results.is_empty() {
        out::note("no results; create one with 'nerve send NODE TEXT --no-wait'");
    }
    let rows: Vec<Vec<String>> = results
        .into_iter()
        .map(|result| {
            let error = result.error.as_deref().map(|error| out::preview(error, 60)).unwrap_or_default();
            let (created, prompt) =
                (local_time(result.created_at.seconds()), out::preview(&result.prompt, 40));
            let delivery = result.delivery.map(|delivery| delivery.to_string()).unwrap_or_default();
            vec![
                result.result_id,
                result.node_id,
                result.status.to_string(),
                delivery,
                created,
                prompt,
                error,
            ]
        })
        .collect();
    out::table(&["result", "node", "state", "delivery", "created", "prompt", "error"], &rows)
}

/// Returns the state of a cancelled result.
fn cancel_state(result: &ResultInfo) -> String {
    match result.status.is_end() {
        true => result.status.to_string(),
        false => format!("{}: cancellation requested", result.status),
    }
}
