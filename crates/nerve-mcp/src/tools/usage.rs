//! The tool that sums up tokens and costs.

use nerve_api::reply::UsageRow;
use nerve_api::request::GetUsage;
use nerve_types::cost::format_cost;

use super::args;
use crate::call::Call;
use crate::tool_result::{Failure, Success};

/// Maximum number of rows in the text. The structured result has all.
const MAX_TEXT_ROWS: usize = 50;

pub(super) async fn usage(call: Call, args: args::Usage) -> Result<Success, Failure> {
    let args::Usage { nodes, session: session_id, since, by } = args;
    let client = call.link.client().await?;
    let report = client.usage(&GetUsage { nodes, session_id, since, by }).await?;
    let rows: String = report.rows.iter().take(MAX_TEXT_ROWS).map(describe).collect();
    let more = report.rows.len().saturating_sub(MAX_TEXT_ROWS);
    let more = if more > 0 { format!("{more} more rows\n") } else { String::new() };
    let text = match report.rows.len() {
        0 => "No usage was found.".to_string(),
        _ => format!("{rows}{more}total: {}", amounts(&report.total)),
    };
    let problems = (!report.problems.is_empty()).then(|| report.problems.join("; "));
    Ok(Success::new(&text, &report).warn(problems))
}

/// Returns a row in one line.
fn describe(row: &UsageRow) -> String {
    let names = [&row.session_id, &row.node_id, &row.recording_id, &row.day, &row.model];
    let names: Vec<&str> = names.into_iter().flatten().map(String::as_str).collect();
    let name = if names.is_empty() { "(unknown)".to_string() } else { names.join("/") };
    format!("{name}: {}\n", amounts(row))
}

fn amounts(row: &UsageRow) -> String {
    let cost = format_cost(row.cost_usd, row.has_unpriced);
    format!("{} tokens in {} turns, {cost}", row.tokens.total(), row.turns)
}
