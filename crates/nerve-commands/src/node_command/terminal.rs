//! `node run`, `read`, `resize` and `show`: requests to the terminal of a node.

use anyhow::Result;
use nerve_api::reply::{NodeShown, NodeText};
use nerve_api::request::{GetBuffer, ResizeNode, RunCommand, ShowNode};

use super::CommandContext;
use super::args::{ReadArgs, ResizeArgs, RunArgs, ShowArgs};
use crate::{out, trace};

/// Types a command.
pub(super) async fn run(context: &CommandContext, args: RunArgs) -> Result<()> {
    let params = RunCommand {
        node_id: args.node,
        session_id: context.session.clone(),
        command: args.command,
        traceparent: trace::parent(),
        tracestate: trace::state(),
    };
    context.request_silently(&params).await
}

/// Prints the text of a terminal.
pub(super) async fn read(context: &CommandContext, args: ReadArgs) -> Result<()> {
    let lines = args.lines.map(|lines| usize::try_from(lines).unwrap_or(usize::MAX));
    let params = GetBuffer { node_id: args.node, session_id: context.session.clone(), lines };
    context.request_and_print(&params, |NodeText { buffer }| out::text(&buffer)).await
}

/// Resizes a terminal.
pub(super) async fn resize(context: &CommandContext, args: ResizeArgs) -> Result<()> {
    let (node_id, session_id) = (args.node, context.session.clone());
    context.request_silently(&ResizeNode { node_id, session_id, cols: args.cols, rows: args.rows }).await
}

/// Shows a terminal in a pane.
pub(super) async fn show(context: &CommandContext, args: ShowArgs) -> Result<()> {
    let params = ShowNode {
        node_id: args.node,
        session_id: context.session.clone(),
        multiplexer: args.multiplexer,
        split: args.split,
        tmux_session: args.tmux_session,
        socket: args.socket,
    };
    context.request_and_print(&params, |NodeShown { pane_id, .. }| out::line(pane_id)).await
}
