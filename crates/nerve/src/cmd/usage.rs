//! `nerve usage`: tokens and costs.

use anyhow::Result;
use jiff::Zoned;
use nerve_api::DEFAULT_SESSION;
use nerve_api::reply::{UnpricedModel, UsageReport, UsageRow};
use nerve_api::request::GetUsage;
use nerve_api::value::UsageGrouping;
use nerve_cli::usage::UsageArgs;
use nerve_engine::usage;
use nerve_proxy::PriceTable;
use nerve_server::paths::ServerPaths;
use nerve_types::activity::TsMs;
use nerve_types::cost::format_cost;
use nerve_types::token_usage::TokenUsage;
use serde_json::{Value, json};

use super::server::{connect, machines};
use super::{interruptible, run_single_threaded, since};
use crate::exit::{FAILED, Failure, USAGE};
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
    if args.prices {
        return print_prices(&load_prices(&paths)?, &paths, args.json);
    }
    let (nodes, server) = resolve_nodes(&args.nodes)?;
    let since_ms = args.since.as_deref().map(|text| since::parse(text, &Zoned::now())).transpose()?;
    let by = args.by.grouping();
    let since = since_ms.map(|at| TsMs(at).iso());
    let request = GetUsage { nodes, session_id: args.session.clone(), since, by };
    let report = match &server {
        None => usage::report(&paths.data, &load_prices(&paths)?, &request)?,
        Some(server) => {
            run_single_threaded(interruptible(async { Ok(connect(server).await?.usage(&request).await?) }))?
        }
    };
    print_problems(&report);
    if args.json {
        return out::json(&report);
    }
    print_table(&report, by)?;
    print_unpriced(&report, server.is_none().then_some(&paths));
    Ok(())
}

/// Resolves the addresses of nodes. Returns the nodes, and the server of their machine; `None`: this machine, whose files need no
/// server.
fn resolve_nodes(addresses: &[String]) -> Result<(Vec<String>, Option<String>)> {
    let mut nodes = addresses.to_vec();
    let mut servers = Vec::new();
    for node in &mut nodes {
        let mut server = String::new();
        machines().resolve_node(node, &mut server)?;
        servers.push(server);
    }
    servers.dedup();
    if servers.len() > 1 {
        let failure = Failure::new(USAGE, "cannot sum up the usage: the nodes are on several machines");
        return Err(failure.hint("run the command once for each machine").into());
    }
    Ok((nodes, servers.pop().filter(|server| !server.is_empty())))
}

/// Loads the effective prices.
///
/// # Errors
/// The user's file cannot be read, or is invalid: with line and column.
fn load_prices(paths: &ServerPaths) -> Result<PriceTable> {
    PriceTable::load(&paths.data.prices).map_err(|error| {
        let code = if matches!(error, nerve_proxy::PriceError::Invalid { .. }) { USAGE } else { FAILED };
        let hint = "correct the file, or move it away to use the built-in prices";
        Failure::new(code, error.to_string()).hint(hint).into()
    })
}

fn print_problems(usage: &UsageReport) {
    for problem in usage.problems.iter().take(MAX_NAMED) {
        out::warning(out::sanitize(problem));
    }
    let more = usage.problems.len().saturating_sub(MAX_NAMED);
    if more > 0 {
        out::warning(format_args!("{more} more files were not read completely"));
    }
    let missing = usage.missing_recordings;
    if missing > 0 {
        let agents =
            if missing == 1 { "1 recorded agent has" } else { &format!("{missing} recorded agents have") };
        out::note(format_args!("{agents} no session file: it had no prompt, or the file is gone"));
    }
}

fn print_table(report: &UsageReport, by: UsageGrouping) -> Result<()> {
    if report.rows.is_empty() {
        out::note("no usage found");
        return Ok(());
    }
    let title: &str = by.into();
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

fn label(row: &UsageRow, by: UsageGrouping) -> String {
    let session = row.session_id.as_deref();
    let name = match by {
        UsageGrouping::Node => match (session.filter(|session| *session != DEFAULT_SESSION), &row.node_id) {
            (Some(session), Some(node)) => Some(format!("{session}/{node}")),
            (None, Some(node)) => Some(node.clone()),
            (_, None) => row.recording_id.clone(),
        },
        UsageGrouping::Session => Some(session.unwrap_or("(no session)").to_string()),
        UsageGrouping::Day => row.day.clone(),
        UsageGrouping::Model => row.model.clone(),
    };
    let name = name.unwrap_or_else(|| "(unknown)".to_string());
    match row.server_name.as_deref().filter(|server| *server != DEFAULT_SERVER) {
        Some(server) => format!("{name} ({server})"),
        None => name,
    }
}

/// Names the models without a price. `paths`: of this machine, if its prices apply.
fn print_unpriced(report: &UsageReport, paths: Option<&ServerPaths>) {
    if report.unpriced.is_empty() {
        return;
    }
    let name = |UnpricedModel { model, tokens }: &UnpricedModel| {
        let model = model.as_ref().map_or("an unknown model".to_string(), |model| format!("'{model}'"));
        format!("{model} ({} tokens)", format_count(*tokens))
    };
    let mut names: Vec<String> = report.unpriced.iter().map(name).take(MAX_NAMED).collect();
    let more = report.unpriced.len() - names.len();
    if more > 0 {
        names.push(format!("{more} more"));
    }
    out::warning(out::sanitize(&format!("no price for {}", names.join(", "))));
    if let Some(paths) = paths
        && report.unpriced.iter().any(|unpriced| unpriced.model.is_some())
    {
        out::hint(format_args!("add prices to {}; see 'nerve usage --prices'", paths.data.prices.display()));
    }
}

fn print_prices(prices: &PriceTable, paths: &ServerPaths, prints_json: bool) -> Result<()> {
    let path = &paths.data.prices;
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
