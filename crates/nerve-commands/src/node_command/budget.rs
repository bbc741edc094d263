//! `nerve budget`: limits of the usage of a node or a session. The options are those of `nerve new`, too.

use anyhow::Result;
use clap::Args;
use nerve_api::reply::BudgetStatus;
use nerve_api::request::{GetNode, GetSession, SetBudget, UsageLimits};
use nerve_api::value::LimitAction;
use nerve_types::cost::format_cost;
use serde_json::json;

use super::CommandContext;
use super::values::{DurationArg, TokenCount, described_values, one_of};
use crate::failure::{Failure, USAGE};
use crate::out;

/// Limits of the usage of a node or a session.
#[derive(Debug, Clone, Args)]
pub struct BudgetOptions {
    /// Budget: cost in US dollars
    #[arg(long, value_name = "USD", value_parser = cost, allow_negative_numbers = true)]
    pub budget_cost: Option<f64>,
    /// Budget: input (with cached tokens) and output tokens: 500k, 2M …
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub budget_tokens: Option<TokenCount>,
    /// Budget: time in which the agent works, in seconds or with a unit: 10m, 2h …
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub budget_time: Option<DurationArg>,
    /// Budget: action at a limit, after the turn is interrupted [default: ask]
    #[arg(long, value_parser = one_of::<LimitAction>(described_values::<LimitAction>()), value_name = "ACTION")]
    pub at_limit: Option<LimitAction>,
}

/// Limits of the usage of all attempts of a fan-out together.
#[derive(Debug, Clone, Args)]
pub struct TotalBudgetOptions {
    /// Budget of all attempts together: cost in US dollars
    #[arg(long, value_name = "USD", value_parser = cost, allow_negative_numbers = true)]
    pub total_cost: Option<f64>,
    /// Budget of all attempts together: tokens, 500k, 2M …
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub total_tokens: Option<TokenCount>,
    /// Budget of all attempts together: time since the start, in seconds or with a unit: 10m, 2h …
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub total_time: Option<DurationArg>,
}

/// Arguments of `nerve budget`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Without limits, prints the budget and what was used. The new budget replaces the old one completely; earlier usage still counts.
'--at-limit' alone keeps the limits.
Without NODE, the budget is that of the session: all its terminal and chat nodes together.

When a limit is reached, nerve interrupts the turn and blocks the node (budget). With '--at-limit ask', 'nerve answer' grants the same
amount again or refuses it; with 'stop', prompts fail until the budget is changed.

Costs are computed with the prices of 'nerve usage --prices'.

EXAMPLES
  nerve new me -c claude --budget-cost 5 --budget-time 1h
  nerve budget me
  nerve budget me --budget-cost 10 --at-limit stop
  nerve budget me --at-limit ask
  nerve budget me --none
  nerve budget --session review --budget-tokens 2M")]
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
    ///
    /// # Errors
    /// Only the action at a limit is given.
    pub fn limits(&self) -> Result<Option<UsageLimits>, Failure> {
        let limits = UsageLimits {
            max_tokens: self.budget_tokens.map(|tokens| tokens.0),
            max_cost_usd: self.budget_cost,
            max_time_ms: self.budget_time.map(|DurationArg(time)| nerve_types::millis(time)),
            at_limit: self.at_limit.unwrap_or_default(),
        };
        match (limits.is_unlimited(), self.at_limit) {
            (false, _) => Ok(Some(limits)),
            (true, None) => Ok(None),
            (true, Some(_)) => Err(missing_limit_error("--at-limit needs a limit")),
        }
    }

    /// Returns the action at a limit if no limit is given.
    fn action_alone(&self) -> Option<LimitAction> {
        self.at_limit.filter(|_| !self.has_limit())
    }

    fn has_limit(&self) -> bool {
        self.budget_tokens.is_some() || self.budget_cost.is_some() || self.budget_time.is_some()
    }
}

impl TotalBudgetOptions {
    /// Returns the limits of each attempt, then those of all together. Both have the action at a limit of `each`.
    ///
    /// # Errors
    /// Only the action at a limit is given.
    pub fn limits(&self, each: &BudgetOptions) -> Result<[Option<UsageLimits>; 2], Failure> {
        let total = BudgetOptions {
            budget_cost: self.total_cost,
            budget_tokens: self.total_tokens,
            budget_time: self.total_time,
            at_limit: each.at_limit,
        };
        match (each.has_limit(), total.has_limit()) {
            (false, true) => Ok([None, total.limits()?]),
            (true, false) => Ok([each.limits()?, None]),
            _ => Ok([each.limits()?, total.limits()?]),
        }
    }
}

/// Creates the error of an action at a limit that does not exist.
fn missing_limit_error(message: impl Into<String>) -> Failure {
    Failure::new(USAGE, message).hint("add --budget-cost USD, --budget-tokens N or --budget-time TIME")
}

/// Parses a cost.
fn cost(text: &str) -> Result<f64, String> {
    let cost = text.strip_prefix('$').unwrap_or(text).parse().ok();
    cost.filter(|cost: &f64| cost.is_finite() && *cost > 0.0)
        .ok_or_else(|| "expected US dollars, more than 0".to_string())
}

/// Prints or changes a budget.
pub(super) async fn run(context: &CommandContext, args: BudgetArgs) -> Result<()> {
    let (client, session_id) = (&context.client, context.session.clone());
    let budget = match args.limits.action_alone() {
        Some(at_limit) => {
            Some(UsageLimits { at_limit, ..current_limits(context, args.node.as_deref()).await? })
        }
        None => args.limits.limits()?,
    };
    let (own, of_session) = match args.node {
        node_id if budget.is_some() || args.none => {
            let status = client.set_budget(&SetBudget { node_id, session_id, budget }).await?;
            (Some(status).filter(BudgetStatus::has_limits), None)
        }
        None => (status(context, None).await?, None),
        Some(node) => (status(context, Some(&node)).await?, status(context, None).await?),
    };
    if context.json {
        return out::json(&json!({ "budget": own, "session_budget": of_session }));
    }
    match &own {
        Some(status) => out::fields(&fields(status))?,
        None => out::line("no budget")?,
    }
    of_session.map_or(Ok(()), |status| out::line(format_args!("session: {}", summary(&status))))
}

/// Returns the budget of a node, or of the session.
async fn status(context: &CommandContext, node: Option<&str>) -> Result<Option<BudgetStatus>> {
    let (client, session_id) = (&context.client, context.session.clone());
    Ok(match node {
        Some(node) => client.request(&GetNode::new(node.to_string(), session_id)).await?.progress.budget,
        None => client.request(&GetSession::new(session_id)).await?.budget,
    })
}

/// Returns the limits of a node, or of the session.
async fn current_limits(context: &CommandContext, node: Option<&str>) -> Result<UsageLimits> {
    let owner = node.map_or_else(|| "the session".to_string(), |node| format!("node '{node}'"));
    let status = status(context, node).await?.filter(BudgetStatus::has_limits);
    let status = status.ok_or_else(|| {
        missing_limit_error(format!("cannot set the action at a limit: {owner} has no budget"))
    })?;
    Ok(UsageLimits {
        max_tokens: status.max_tokens,
        max_cost_usd: status.max_cost_usd,
        max_time_ms: status.max_time_ms,
        at_limit: status.at_limit.unwrap_or_default(),
    })
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
