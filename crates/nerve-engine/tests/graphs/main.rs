//! Tests of graphs: order, failures, limits, cancellation, traces and journals.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod budget_questions;
mod budgets;
mod cancel;
mod checkpoints;
mod engine;
mod failure;
mod flow;
mod gates;
mod harness;
mod nested;
mod order;
mod panes;
mod parallel;
mod policy;
mod resume;
mod sessions;
mod streams;
mod terminals;
mod traces;
mod validation;
