//! `nerve budget`: limits of the usage of a node or a session. The options are those of `nerve new`, too.

use anyhow::Result;
use clap::Args;
use nerve_api::reply::BudgetStatus;
use nerve_api::request::{GetNode, GetSession, Seconds as ApiSeconds, SetBudget, UsageLimits};
use nerve_api::value::LimitAction;
use nerve_types::cost::format_cost;
use serde_json::json;

use super::Target;
use super::values::{Seconds, described_values, one_of};
use crate::out;

/// Limits of the usage of a node or a session.
#[derive(Debug, Clone, Args)]
pub struct BudgetOptions {
    /// Budget: cost in US dollars
    #[arg(long, value_name = "USD", value_parser = cost)]
    pub budget_cost: Option<f64>,
    /// Budget: input (with cached tokens) and output tokens
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub budget_tokens: Option<u64>,
    /// Budget: seconds in which the agent works
    #[arg(long, value_name = "SECONDS")]
    pub budget_time: Option<Seconds>,
    /// Budget: action at a limit, after the turn is interrupted [default: ask]
    #[arg(long, value_parser = one_of::<LimitAction>(described_values::<LimitAction>()), value_name = "ACTION")]
    pub at_limit: Option<LimitAction>,
}

/// Arguments of `nerve budget`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Without limits, prints the budget and what was used. The new budget replaces the old one completely; earlier usage still counts.
Without NODE, the budget is that of the session: all its terminal and chat nodes together.

When a limit is reached, nerve interrupts the turn and blocks the node (budget). With '--at-limit ask', 'nerve answer' grants the same
amount again or refuses it; with 'stop', prompts fail until the budget is changed.

Costs are computed with the prices of 'nerve usage --prices'.

EXAMPLES
  nerve new me -c claude --budget-cost 5 --budget-time 3600
  nerve budget me
  nerve budget me --budget-cost 10 --at-limit stop
  nerve budget me --none
  nerve budget --session review --budget-tokens 2000000")]
pub struct BudgetArgs {
    /// Node [default: the whole session]
    pub node: Option<String>,
    /// The limits.
    #[command(flatten)]
    pub limits: BudgetOptions,
    /// Remove the budget
    #[arg(long, conflicts_with_all = ["budget_cost", "budget_tokens", "budget_time", "at_limit"])]
    pub none: bool,
}

impl BudgetOptions {
    /// Returns the limits; `None` if none is given.
    pub fn limits(&self) -> Option<UsageLimits> {
        let limits = UsageLimits {
            max_tokens: self.budget_tokens,
            max_cost_usd: self.budget_cost,
            max_time: self.budget_time.map(|time| ApiSeconds::from(time.0)),
            at_limit: self.at_limit.unwrap_or_default(),
        };
        // The server explains what is missing.
        (!limits.is_unlimited() || self.at_limit.is_some()).then_some(limits)
    }
}

/// Parses a cost.
fn cost(text: &str) -> Result<f64, String> {
    let cost = text.strip_prefix('$').unwrap_or(text).parse().ok();
    cost.filter(|cost: &f64| cost.is_finite() && *cost > 0.0)
        .ok_or_else(|| "expected US dollars, more than 0".to_string())
}

/// Prints or changes a budget.
pub(super) async fn run(target: &Target, args: BudgetArgs) -> Result<()> {
    let (client, session_id) = (&target.client, target.session.clone());
    let (budget, changes) = (args.limits.limits(), args.limits.limits().is_some() || args.none);
    let (own, of_session) = match args.node {
        node_id if changes => {
            let status = client.set_budget(&SetBudget { node_id, session_id, budget }).await?;
            (Some(status).filter(BudgetStatus::has_limits), None)
        }
        None => (client.request(&GetSession::new(session_id)).await?.budget, None),
        Some(node) => {
            let node = client.request(&GetNode::new(node, session_id.clone())).await?;
            (node.progress.budget, client.request(&GetSession::new(session_id)).await?.budget)
        }
    };
    if target.json {
        return out::json(&json!({ "budget": own, "session_budget": of_session }));
    }
    match &own {
        Some(status) => out::fields(&fields(status))?,
        None => out::line("no budget")?,
    }
    of_session.map_or(Ok(()), |status| out::line(format_args!("session: {}", summary(&status))))
}

/// Returns the lines of a budget for display.
fn fields(status: &BudgetStatus) -> Vec<(&'static str, String)> {
    let dollars = |cost| format_cost(Some(cost), false);
    let seconds = |millis: u64| format!("{}s", millis as f64 / 1e3);
    let of = |used: String, limit: Option<String>| {
        limit.map_or(used.clone(), |limit| format!("{used} of {limit}"))
    };
    vec![
        ("cost", of(dollars(status.cost_usd), status.max_cost_usd.map(dollars))),
        ("tokens", of(status.tokens.to_string(), status.max_tokens.map(|limit| limit.to_string()))),
        ("time", of(seconds(status.time_ms), status.max_time_ms.map(seconds))),
        ("at limit", status.at_limit.map(|action| action.to_string()).unwrap_or_default()),
        ("blocked by", status.reached_limit.clone().unwrap_or_default()),
    ]
}

/// Describes a budget in one line.
pub(super) fn summary(status: &BudgetStatus) -> String {
    let fields = fields(status).into_iter().filter(|(name, text)| *name != "at limit" && !text.is_empty());
    fields.map(|(name, text)| format!("{name} {text}")).collect::<Vec<_>>().join(", ")
}
