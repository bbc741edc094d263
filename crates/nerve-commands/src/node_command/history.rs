//! `node history`: prints the audit log of a node.

use anyhow::Result;
use nerve_api::reply::NodeHistory;
use nerve_api::request::GetHistory;
use nerve_client::NerveClient;

use super::args::HistoryArgs;
use super::{CommandContext, entries};
use crate::failure::{Failure, NOT_FOUND};
use crate::out;

/// Prints the selected entries.
pub(super) async fn run(context: &CommandContext, args: &HistoryArgs) -> Result<()> {
    let history = request(&context.client, context.session.as_deref(), args, context.json).await?;
    print(&history, args, &history.server_name, context.json)
}

/// Prints the entries, or their counts.
///
/// # Errors
/// Exit code 3 if no entry has the selected number.
pub fn print(history: &NodeHistory, args: &HistoryArgs, server: &str, is_json: bool) -> Result<()> {
    if let Some(seq) = args.seq.filter(|_| history.entries.is_empty()) {
        return Err(Failure::new(NOT_FOUND, format!("node '{}' has no entry {seq}", args.node)).into());
    }
    if args.summary {
        return entries::print_summary(&args.node, server, &history.entries, is_json);
    }
    if is_json {
        return out::json(history);
    }
    if let Some(note) = &history.note {
        out::note(note);
    }
    entries::print(&history.entries)
}

/// Returns true if entries of the operation `read`, which say little to a person, are left out.
pub fn omits_reads(args: &HistoryArgs, is_json: bool) -> bool {
    !(args.all || args.summary || is_json || args.op.is_some() || args.seq.is_some())
}

/// Requests the selected entries.
///
/// # Errors
/// The request fails.
pub async fn request(
    client: &NerveClient,
    session: Option<&str>,
    args: &HistoryArgs,
    is_json: bool,
) -> Result<NodeHistory> {
    let params = GetHistory {
        node_id: args.node.clone(),
        session_id: session.map(str::to_string),
        server_name: None,
        last: args.last.map(|last| usize::try_from(last).unwrap_or(usize::MAX)),
        op: args.op,
        seq: args.seq,
        inputs_only: args.inputs_only,
        without_reads: omits_reads(args, is_json),
    };
    Ok(client.request(&params).await?)
}
