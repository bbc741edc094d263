//! `node info`, `wait` and `why`: shows a node and its state.

use std::fmt::Write as _;

use anyhow::Result;
use nerve_api::reply::{NodeExplanation, NodeInfo, ReachedState};
use nerve_api::request::{ExplainNode, GetNode, Seconds, States, WaitNode};
use nerve_api::value::{BlockKind, NodeState};

use super::CommandContext;
use super::args::WaitArgs;
use super::budget::summary;
use crate::failure::{BLOCKED, FAILED, Failure, TIMED_OUT};
use crate::out;

/// Shows one node.
pub(super) async fn info(context: &CommandContext, node: String) -> Result<()> {
    context.request_and_print(&GetNode::new(node, context.session.clone()), print_info).await
}

fn print_info(node: NodeInfo) -> Result<()> {
    let mut fields = vec![
        ("node", node.node_id.clone()),
        ("type", node.kind.clone()),
        ("state", node.metadata.state_text(node.state)),
    ];
    fields.push(("cost", node.progress.cost_text()));
    fields.push(("budget", node.progress.budget.as_ref().map(summary).unwrap_or_default()));
    if node.approximate {
        fields.push(("approximate", "true".to_string()));
    }
    let others = node.metadata.keys().filter(|name| *name != "blocked");
    fields.extend(others.map(|name| (name.as_str(), node.metadata.display(name))));
    fields.push(("session", node.metadata.session_id.clone()));
    out::fields(&fields)
}

/// Waits for a state.
pub(super) async fn wait(context: &CommandContext, args: WaitArgs) -> Result<()> {
    // Returns early when the node can no longer reach the state by itself.
    let mut until = args.until.clone();
    until.extend([NodeState::Blocked, NodeState::Suspended, NodeState::Stopped]);
    let params = WaitNode {
        node_id: args.node.clone(),
        session_id: context.session.clone(),
        until: States(until),
        timeout: Some(Seconds::from(args.timeout.0)),
    };
    let waiting = format!("waiting for '{}'", args.node);
    let requested: Vec<&str> = args.until.iter().map(|state| state.as_str()).collect();
    let requested = requested.join(" or ");
    let data = out::progress(&waiting, context.request(&params)).await.map_err(|error| {
        let failure = Failure::from_error(&error);
        if failure.code != TIMED_OUT {
            return error;
        }
        // The server's message also lists the states that end the wait early.
        let message = format!("node '{}' was not {requested} within {:?}", args.node, args.timeout.0);
        Failure { message, ..failure }.into()
    })?;
    let state = serde_json::from_value::<ReachedState>(data)?.state;
    if args.until.contains(&state) {
        return if context.json {
            out::json(&ReachedState { state })
        } else {
            out::line(out::state(state.as_str()))
        };
    }
    let message = format!("node '{}' is {state}, not {requested}", args.node);
    if !matches!(state, NodeState::Blocked | NodeState::Suspended) {
        return Err(Failure::new(FAILED, message).into());
    }
    let explanation = context.request(&ExplainNode::new(args.node.clone(), context.session.clone())).await?;
    let explanation: NodeExplanation = serde_json::from_value(explanation)?;
    let mut failure = Failure::new(BLOCKED, format!("{message}: {}", explanation.evidence));
    failure.screen = Some(explanation.screen);
    failure.choices = explanation.choices;
    let hint = match failure.choices.is_empty() {
        _ if state == NodeState::Suspended => {
            format!("wait for it, or interrupt it with 'nerve node interrupt {}'", args.node)
        }
        true if explanation.metadata.text("blocked") == BlockKind::Budget.as_str() => {
            format!("set other limits: 'nerve budget {} …'", args.node)
        }
        true => {
            format!("the dialog has no choices: type with 'nerve node write {} --key …'", args.node)
        }
        false => format!("choose with 'nerve answer {} NUMBER'", args.node),
    };
    Err(failure.hint(hint).into())
}

/// Explains a node's state.
pub(super) async fn explain(context: &CommandContext, node: String) -> Result<()> {
    context.request_and_print(&ExplainNode::new(node, context.session.clone()), print_explanation).await
}

fn print_explanation(explanation: NodeExplanation) -> Result<()> {
    let mut fields = vec![
        ("node", explanation.node_id.clone()),
        ("state", explanation.metadata.state_text(explanation.state)),
        ("evidence", explanation.evidence.clone()),
        ("source", format!("{}, seen after {} bytes of output", explanation.source, explanation.offset)),
    ];
    if let Some(turn) = &explanation.turn {
        fields.push(("turn", format!("{}, its prompt is {}", turn.turn, turn.delivery)));
    }
    if let Some(faults) = explanation.metadata.known_text("faults") {
        fields.push(("faults", faults.to_string()));
    }
    out::fields(&fields)?;
    if !explanation.choices.is_empty() {
        out::line("\nchoices")?;
        for (number, choice) in explanation.choices.iter().enumerate() {
            out::text(&format!("  {}. {choice}", number + 1))?;
        }
    }
    out::line("\nscreen")?;
    let mut screen = String::new();
    for row in explanation.screen.trim_end().lines() {
        writeln!(screen, "  | {row}")?;
    }
    out::text(&screen)
}
