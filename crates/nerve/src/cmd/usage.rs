//! `nerve usage`: tokens and costs.

use anyhow::Result;
use jiff::Zoned;
use jiff::tz::TimeZone;
use nerve_api::DEFAULT_SESSION;
use nerve_cli::usage::{UsageArgs, UsageGrouping};
use nerve_engine::usage::{
    CollectedUsage, Grouping, UsageQuery, UsageReport, UsageRow, UsageSource, collect,
};
use nerve_proxy::PriceTable;
use nerve_record::lookup::Name;
use nerve_server::paths::ServerPaths;
use nerve_types::cost::format_cost;
use nerve_types::token_usage::TokenUsage;
use serde_json::{Value, json};

use super::since;
use crate::exit::{FAILED, Failure, NOT_FOUND, USAGE};
use crate::out;

/// Name of the default server.
const DEFAULT_SERVER: &str = "default";
/// Maximum number of files or models that messages name.
const MAX_NAMED: usize = 5;
/// Columns with numbers.
const NUMBERS: [&str; 6] = ["input", "output", "cache-r", "cache-w", "turns", "cost"];

/// Runs the command.
pub(super) fn run(args: &UsageArgs) -> Result<()> {
    let paths = ServerPaths::from_env();
    let prices = load_prices(&paths)?;
    if args.prices {
        return print_prices(&prices, &paths, args.json);
    }
    let query = UsageQuery {
        nodes: args.nodes.iter().map(|name| parse_node(name)).collect::<Result<_>>()?,
        session: args.session.clone(),
        since_ms: args.since.as_deref().map(|text| since::parse(text, &Zoned::now())).transpose()?,
    };
    let usage = collect(&paths.data_dirs(), &prices, &query);
    if usage.sources == 0 && !query.nodes.is_empty() {
        let message = format!("no recording, log or history of {}", args.nodes.join(", "));
        let hint = "list what is known: nerve usage";
        return Err(Failure::new(NOT_FOUND, message).hint(hint).into());
    }
    let by = grouping(args.by);
    let report = UsageReport::new(&usage.entries, by, &TimeZone::system());
    print_problems(&usage);
    if args.json {
        return out::json(&as_json(&report, &usage, by));
    }
    print_table(&report, by)?;
    print_unpriced(&report, &paths);
    Ok(())
}

/// Loads the effective prices.
///
/// # Errors
/// The user's file cannot be read, or is invalid: with line and column.
fn load_prices(paths: &ServerPaths) -> Result<PriceTable> {
    PriceTable::load(&paths.prices()).map_err(|error| {
        let code = if matches!(error, nerve_proxy::PriceError::Invalid { .. }) { USAGE } else { FAILED };
        let hint = "correct the file, or move it away to use the built-in prices";
        Failure::new(code, error.to_string()).hint(hint).into()
    })
}

fn parse_node(text: &str) -> Result<(String, Option<String>)> {
    let name = Name::parse(text).ok().filter(|_| !text.contains('@'));
    let node = name.as_ref().and_then(|name| Some((name.node()?.to_string(), name.session())));
    let (node, session) = node.ok_or_else(|| {
        let hint = "give NODE or SESSION/NODE";
        Failure::new(USAGE, format!("'{text}' is not the name of a node")).hint(hint)
    })?;
    Ok((node, session.map(str::to_string)))
}

fn grouping(by: UsageGrouping) -> Grouping {
    match by {
        UsageGrouping::Node => Grouping::Node,
        UsageGrouping::Session => Grouping::Session,
        UsageGrouping::Day => Grouping::Day,
        UsageGrouping::Model => Grouping::Model,
    }
}

fn print_problems(usage: &CollectedUsage) {
    for problem in usage.problems.iter().take(MAX_NAMED) {
        out::warning(out::sanitize(problem));
    }
    let more = usage.problems.len().saturating_sub(MAX_NAMED);
    if more > 0 {
        out::warning(format_args!("{more} more files were not read completely"));
    }
    if usage.missing > 0 {
        let agents = if usage.missing == 1 {
            "1 recorded agent has"
        } else {
            &format!("{} recorded agents have", usage.missing)
        };
        out::note(format_args!("{agents} no session file: it had no prompt, or the file is gone"));
    }
}

fn print_table(report: &UsageReport, by: Grouping) -> Result<()> {
    if report.rows.is_empty() {
        out::note("no usage found");
        return Ok(());
    }
    let title = match by {
        Grouping::Node => "node",
        Grouping::Session => "session",
        Grouping::Day => "day",
        Grouping::Model => "model",
    };
    let mut rows: Vec<Vec<String>> = report.rows.iter().map(|row| cells(label(row, by), row)).collect();
    if rows.len() > 1 {
        rows.push(cells("total".to_string(), &report.total));
    }
    let header: Vec<&str> = [title].into_iter().chain(NUMBERS).collect();
    out::table_with_numbers(&header, &rows, &NUMBERS)
}

fn cells(label: String, row: &UsageRow) -> Vec<String> {
    let TokenUsage { input, output, cache_read, cache_write } = row.tokens;
    let counts = [input, output, cache_read, cache_write].map(format_count);
    let cost = format_cost(row.cost_usd, row.has_unpriced);
    [label].into_iter().chain(counts).chain([row.turns.to_string(), cost]).collect()
}

/// Formats a count with three digits: `950`, `12.3k`, `4.56M`.
fn format_count(count: u64) -> String {
    let (value, unit) = match count {
        ..1000 => return count.to_string(),
        // Rounding must not give a fourth digit.
        1000..999_500 => (count as f64 / 1e3, "k"),
        999_500..999_500_000 => (count as f64 / 1e6, "M"),
        _ => (count as f64 / 1e9, "G"),
    };
    match value {
        ..9.995 => format!("{value:.2}{unit}"),
        ..99.95 => format!("{value:.1}{unit}"),
        _ => format!("{value:.0}{unit}"),
    }
}

/// Formats a price with at least two decimals.
fn format_price(price: f64) -> String {
    let (short, exact) = (format!("{price:.2}"), price.to_string());
    if exact.len() > short.len() { exact } else { short }
}

fn label(row: &UsageRow, by: Grouping) -> String {
    let UsageSource { server, session, node, recording_id } = &row.source;
    let session = session.as_deref().filter(|session| by == Grouping::Session || *session != DEFAULT_SESSION);
    let name = match by {
        Grouping::Node => match (session, node) {
            (Some(session), Some(node)) => Some(format!("{session}/{node}")),
            (None, Some(node)) => Some(node.clone()),
            (_, None) => recording_id.clone(),
        },
        Grouping::Session => Some(session.map_or_else(|| "(no session)".to_string(), str::to_string)),
        Grouping::Day | Grouping::Model => row.value.clone(),
    };
    let name = name.unwrap_or_else(|| "(unknown)".to_string());
    match server.as_deref().filter(|server| *server != DEFAULT_SERVER) {
        Some(server) => format!("{name} ({server})"),
        None => name,
    }
}

/// Names the models without a price.
fn print_unpriced(report: &UsageReport, paths: &ServerPaths) {
    if report.unpriced.is_empty() {
        return;
    }
    let name = |(model, tokens): (&Option<String>, &u64)| {
        let model = model.as_ref().map_or("an unknown model".to_string(), |model| format!("'{model}'"));
        format!("{model} ({} tokens)", format_count(*tokens))
    };
    let mut names: Vec<String> = report.unpriced.iter().map(name).take(MAX_NAMED).collect();
    let more = report.unpriced.len() - names.len();
    if more > 0 {
        names.push(format!("{more} more"));
    }
    out::warning(out::sanitize(&format!("no price for {}", names.join(", "))));
    if report.unpriced.keys().any(Option::is_some) {
        out::hint(format_args!("add prices to {}; see 'nerve usage --prices'", paths.prices().display()));
    }
}

fn as_json(report: &UsageReport, usage: &CollectedUsage, by: Grouping) -> Value {
    let row = |row: &UsageRow| {
        let mut value = counts_json(row);
        let UsageSource { server, session, node, recording_id } = &row.source;
        match by {
            Grouping::Node => {
                value["server_name"] = json!(server);
                value["session_id"] = json!(session);
                value["node_id"] = json!(node);
                value["recording_id"] = json!(recording_id);
            }
            Grouping::Session => {
                value["server_name"] = json!(server);
                value["session_id"] = json!(session);
            }
            Grouping::Day => value["day"] = json!(row.value),
            Grouping::Model => value["model"] = json!(row.value),
        }
        value
    };
    let unpriced = report.unpriced.iter().map(|(model, tokens)| json!({ "model": model, "tokens": tokens }));
    json!({
        "rows": report.rows.iter().map(row).collect::<Vec<_>>(),
        "total": counts_json(&report.total),
        "unpriced": unpriced.collect::<Vec<_>>(),
        "problems": usage.problems,
        "missing_recordings": usage.missing,
    })
}

fn counts_json(row: &UsageRow) -> Value {
    json!({
        "tokens": row.tokens,
        "turns": row.turns,
        "responses": row.responses,
        "cost_usd": row.cost_usd,
        "has_unpriced": row.has_unpriced,
    })
}

fn print_prices(prices: &PriceTable, paths: &ServerPaths, prints_json: bool) -> Result<()> {
    let path = paths.prices();
    if prints_json {
        let entry = |entry: &nerve_proxy::PriceEntry| {
            json!({
                "name": entry.name, "since": entry.since.to_string(), "prices": entry.prices, "is_own": entry.is_own,
            })
        };
        let entries: Vec<Value> = prices.entries().iter().map(entry).collect();
        return out::json(&json!({ "path": path, "exists": path.exists(), "entries": entries }));
    }
    let row = |entry: &nerve_proxy::PriceEntry| {
        let prices = entry.prices;
        let amounts = [prices.input, prices.output, prices.cache_read, prices.cache_write];
        let source = if entry.is_own { "own" } else { "" };
        let amounts = amounts.map(format_price);
        [entry.name.clone(), entry.since.to_string()]
            .into_iter()
            .chain(amounts)
            .chain([source.to_string()])
            .collect()
    };
    let rows: Vec<Vec<String>> = prices.entries().iter().map(row).collect();
    let header = ["model", "since", "input", "output", "cache-r", "cache-w", "file"];
    out::table_with_numbers(&header, &rows, &NUMBERS)?;
    let state = if path.exists() { "your prices" } else { "your prices, if you create it" };
    out::note(format_args!("US dollars per million tokens; list prices, which may be outdated"));
    out::note(format_args!("{state}: {}", path.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_three_digits() {
        for (count, expected) in [
            (0, "0"),
            (999, "999"),
            (1000, "1.00k"),
            (12_345, "12.3k"),
            (99_960, "100k"),
            (999_499, "999k"),
            (999_500, "1.00M"),
            (4_560_000, "4.56M"),
            (12_345_678_901, "12.3G"),
        ] {
            assert_eq!(format_count(count), expected);
        }
    }
}
