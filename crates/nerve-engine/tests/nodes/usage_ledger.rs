//! The ledger of a node and its session.

use std::sync::Arc;

use nerve_api::reply::ModelTokens;
use nerve_api::request::UsageLimits;
use nerve_api::value::LimitAction;
use nerve_node::usage_ledger::{LedgerRecord, LedgerUsage, UsageLedger};
use nerve_types::token_usage::TokenUsage;
use parking_lot::Mutex;

fn response(model: &str, tokens: u64) -> ModelTokens {
    ModelTokens { model: Some(model.into()), tokens: TokenUsage { input: tokens, ..TokenUsage::default() } }
}

fn session() -> UsageLedger {
    UsageLedger::new("session 's'", Arc::new(|tokens| (tokens.model.as_deref() == Some("a")).then_some(0.5)))
}

fn limited(session: &UsageLedger, limits: UsageLimits) -> UsageLedger {
    session.node("n", LedgerRecord { limits: Some(limits), ..LedgerRecord::default() })
}

#[test]
fn usage_counts_for_node_and_session() {
    let session = session();
    let limits = UsageLimits { max_tokens: Some(25), ..UsageLimits::default() };
    let (node, other) = (limited(&session, limits), session.node("other", LedgerRecord::default()));
    node.add_response(&response("a", 10), None);
    other.add_response(&response("a", 20), None);
    assert!(node.reached().is_none() && other.reached().is_none());
    assert_eq!((session.usage().tokens, session.usage().cost_usd), (30, 1.0));
    session.set_limits(Some(limits));
    assert!(node.reached().unwrap().reason.contains("session 's'") && other.reached().is_some());
    other.grant();
    assert!(node.reached().is_none());
    session.set_limits(Some(UsageLimits { at_limit: LimitAction::Stop, ..limits }));
    node.add_response(&response("a", 20), None);
    assert_eq!(node.reached().unwrap().offer, None, "the session's limit comes first");
    node.grant();
    assert!(other.reached().is_some(), "an answer grants only what was offered");
}

#[test]
fn extension_grants_the_amount_until_it_suffices() {
    let session = session();
    let node = limited(&session, UsageLimits { max_cost_usd: Some(1.0), ..UsageLimits::default() });
    for _ in 0..7 {
        node.add_response(&response("a", 1), None);
    }
    assert!(node.reached().unwrap().offer.is_some());
    node.grant();
    assert_eq!((node.reached(), node.status().max_cost_usd), (None, Some(4.0)));
}

#[test]
fn model_without_price_reaches_a_cost_limit_until_priced_or_accepted() {
    let prices = Arc::new(Mutex::new(0.0));
    let pricing = Arc::clone(&prices);
    let price = move |_: &ModelTokens| Some(*pricing.lock()).filter(|price| *price > 0.0);
    let session = UsageLedger::new("session 's'", Arc::new(price));
    let tokens_only = limited(&session, UsageLimits { max_tokens: Some(1000), ..UsageLimits::default() });
    tokens_only.add_response(&response("b", 1), None);
    assert_eq!(tokens_only.reached(), None);
    let node = limited(&session, UsageLimits { max_cost_usd: Some(1.0), ..UsageLimits::default() });
    node.add_response(&response("b", 1), None);
    assert!(node.reached().unwrap().reason.contains("'b' has no price"));
    node.grant();
    node.add_response(&response("b", 1), None);
    assert_eq!(node.reached(), None);
    node.set_limits(node.limits());
    assert!(node.reached().is_some(), "new limits ask again");
    *prices.lock() = 0.25;
    assert!(node.reached().is_none() && node.usage().cost_usd == 0.25, "{:?}", node.usage());
    node.add_response(&response("c", 1), Some(1.0));
    assert!(node.reached().unwrap().reason.contains("$1.25 of $1.00"));
    node.refuse();
    assert_eq!(node.reached().unwrap().offer, None);
}

#[test]
fn missed_usage_counts_once() {
    let session = session();
    let (stored, now) = (
        LedgerUsage { tokens: 5, cost_usd: 0.5, time_ms: 10, ..LedgerUsage::default() },
        LedgerUsage { tokens: 8, cost_usd: 0.75, time_ms: 30, ..LedgerUsage::default() },
    );
    session.add_missed(&stored, &now);
    session.add_missed(&LedgerUsage::default(), &LedgerUsage { time_ms: 15, ..LedgerUsage::default() });
    let usage = session.usage();
    assert_eq!((usage.tokens, usage.cost_usd, usage.time_ms), (3, 0.25, 20));
}

#[test]
fn missed_tokens_without_price_are_priced_once() {
    let session = UsageLedger::new("session 's'", Arc::new(|_| None));
    let unpriced = |tokens| vec![response("b", tokens)];
    let stored = LedgerUsage { unpriced: unpriced(4), ..LedgerUsage::default() };
    session.restore(LedgerRecord { usage: stored.clone(), ..LedgerRecord::default() });
    session.add_missed(&stored, &LedgerUsage { unpriced: unpriced(7), ..LedgerUsage::default() });
    assert_eq!(session.usage().unpriced, unpriced(7));
    session.add_missed(&stored, &LedgerUsage { cost_usd: 2.0, ..LedgerUsage::default() });
    assert_eq!((session.usage().unpriced, session.usage().cost_usd), (unpriced(3), 2.0));
}
