//! `node execute`: one turn, its answer on stdout.

use anyhow::Result;
use nerve_api::ErrorKind;
use nerve_api::reply::{Section, Turn, TurnAccepted, TurnResponse};
use nerve_api::request::ExecuteInput;
use nerve_api::value::SectionKind;
use nerve_client::StreamItem;
use serde_json::json;

use super::CommandContext;
use super::args::ExecuteArgs;
use super::turn_args::{conversation, webhook};
use crate::failure::{FAILED, Failure, exit_code_of};
use crate::{out, prompt, trace};

/// Sends the prompt and prints the answer.
pub(super) async fn run(context: &CommandContext, args: ExecuteArgs) -> Result<()> {
    let text = prompt::read(&args.prompt)?;
    let input = ExecuteInput {
        parser: args.parser,
        timeout: args.timeout.map(|timeout| timeout.0.into()),
        fail_if_busy: args.fail_if_busy,
        fail_if_blocked: args.fail_if_blocked,
        detach_on_timeout: args.detach,
        conversation: conversation(&args.turn_options)?,
        webhook: webhook(&args.turn_options)?,
        traceparent: trace::parent(),
        tracestate: trace::state(),
        ..ExecuteInput::from(text)
    };
    let node = context.client.node(&args.node, context.session.as_deref());
    if args.turn_options.is_async {
        let id = node.execute_async(input).await?;
        if context.json {
            return out::json(&TurnAccepted { result_id: id, node_id: args.node });
        }
        return out::line(id);
    }
    if args.stream {
        let mut stream = node.execute_stream(input).await?;
        while let Some(item) = stream.next().await {
            match item? {
                StreamItem::Chunk(chunk) if context.json => out::json_line(&json!({ "chunk": chunk }))?,
                StreamItem::Chunk(chunk) => out::piece(&chunk)?,
                StreamItem::Missed(count) => {
                    out::warning(format_args!("{count} chunks of the answer were dropped"))
                }
                StreamItem::Response(data) if context.json => {
                    out::json_line(&data)?;
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
    let data: Turn = out::progress(&waiting, node.execute(input)).await?;
    print(&data, context.json)?;
    check(&data.response)
}

/// Prints an answer: its text, or its other sections if it has no text.
pub fn print(data: &Turn, is_json: bool) -> Result<()> {
    if is_json {
        return out::json(data);
    }
    print_response(&data.response)
}

/// Prints the text of a response, or its sections if it has none.
pub fn print_response(response: &TurnResponse) -> Result<()> {
    if !response.text.is_empty() {
        return out::text(&response.text);
    }
    let is_shown = |section: &&Section| {
        section.kind != SectionKind::Error
            && !(section.kind == SectionKind::Text && section.content.is_empty())
    };
    for section in response.sections.iter().filter(is_shown) {
        let tool = section.metadata.get("tool").map_or("", String::as_str);
        let head = format!("[{}{}{tool}]", section.kind, if tool.is_empty() { "" } else { " " });
        out::text(format!("{head} {}", section.content).trim_end())?;
    }
    Ok(())
}

/// Returns an error if the turn failed. Its partial text was printed with the response.
pub fn check(response: &TurnResponse) -> Result<()> {
    if response.success {
        return Ok(());
    }
    let message = response.error.clone().unwrap_or_else(|| "the turn failed".to_string());
    // A command without a terminal explains its failure on stderr.
    let stderr = response.attributes.get("stderr").and_then(|stderr| stderr.as_str());
    let screen = stderr.filter(|stderr| !stderr.is_empty()).map(str::to_string);
    let (code, hint) = (response.error_type.map_or(FAILED, exit_code_of), response.hint.clone());
    // A command that failed was delivered.
    let delivery = Some(response.delivery).filter(|_| response.error_type != Some(ErrorKind::Process));
    let failure = Failure::new(code, message);
    let error_type = response.error_type.unwrap_or(failure.error_type);
    Err(Failure { error_type, screen, hint, delivery, ..failure }.into())
}
