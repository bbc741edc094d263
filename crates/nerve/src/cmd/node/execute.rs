//! `node execute`: one turn, its answer on stdout.

use anyhow::Result;
use nerve_api::reply::{ResponseSection, Turn, TurnResponse};
use nerve_api::value::SectionKind;
use nerve_client::{ExecuteOptions, StreamItem};
use serde_json::json;

use super::Target;
use crate::cli::node::ExecuteArgs;
use crate::cmd::{prompt, result};
use crate::exit::{FAILED, Failure};
use crate::{out, trace};

/// Sends the prompt and prints the answer.
pub(super) async fn run(target: &Target, args: ExecuteArgs) -> Result<()> {
    let text = prompt::read(&args.prompt)?;
    let options = ExecuteOptions {
        parser: args.parser,
        timeout: args.timeout.map(|timeout| timeout.0),
        fail_if_busy: args.fail_if_busy,
        detach_on_timeout: args.detach,
        conversation: result::conversation(&args.talk)?,
        traceparent: trace::parent(),
        tracestate: trace::state(),
    };
    let node = target.client.node(&args.node, target.session.as_deref());
    if args.talk.is_async {
        let webhook = result::webhook(&args.talk)?;
        let id = node.execute_async(&text, &options, webhook).await?;
        if target.json {
            return out::json(&json!({ "result_id": id, "node_id": args.node }));
        }
        return out::line(id);
    }
    if args.stream {
        let mut stream = node.execute_stream(&text, &options).await?;
        while let Some(item) = stream.next().await {
            match item? {
                StreamItem::Chunk(chunk) if target.json => out::json_line(&json!({ "chunk": chunk }))?,
                StreamItem::Chunk(chunk) => out::piece(&chunk)?,
                StreamItem::Missed(count) => {
                    out::warning(format_args!("{count} chunks of the answer were dropped"))
                }
                StreamItem::Response(data) if target.json => {
                    out::json_line(&serde_json::to_value(&*data)?)?;
                    return check(&data.response);
                }
                StreamItem::Response(data) => {
                    out::line("")?;
                    return check(&data.response);
                }
            }
        }
        return Err(Failure::new(FAILED, "the stream ended without a response").into());
    }
    let waiting = format!("waiting for '{}'", args.node);
    let data: Turn = out::progress(&waiting, node.execute(&text, &options)).await?;
    print(&data, target.json)?;
    check(&data.response)
}

/// Prints an answer: its text, or its other sections if it has no text.
pub(crate) fn print(data: &Turn, as_json: bool) -> Result<()> {
    if as_json {
        return out::json(&serde_json::to_value(data)?);
    }
    print_response(&data.response)
}

/// Prints the text of a response, or its sections if it has none.
pub(crate) fn print_response(response: &TurnResponse) -> Result<()> {
    if !response.text.is_empty() {
        return out::text(&response.text);
    }
    let is_shown = |section: &&ResponseSection| {
        section.kind != SectionKind::Error
            && !(section.kind == SectionKind::Text && section.content.is_empty())
    };
    for section in response.sections.iter().filter(is_shown) {
        let tool = section.metadata.get("tool").and_then(|tool| tool.as_str()).unwrap_or_default();
        let head = format!("[{}{}{tool}]", section.kind, if tool.is_empty() { "" } else { " " });
        out::text(format!("{head} {}", section.content).trim_end())?;
    }
    Ok(())
}

/// Returns an error if the turn failed.
pub(crate) fn check(response: &TurnResponse) -> Result<()> {
    if response.success {
        return Ok(());
    }
    let message = response.error.clone().unwrap_or_else(|| "the turn failed".to_string());
    // A command without a terminal explains its failure on stderr.
    let stderr = response.attributes.get("stderr").and_then(|stderr| stderr.as_str());
    let screen = stderr.filter(|stderr| !stderr.is_empty()).map(str::to_string);
    Err(Failure { screen, ..Failure::new(FAILED, message) }.into())
}
