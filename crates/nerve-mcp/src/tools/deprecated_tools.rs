//! The deprecated tools, which call today's and add a warning. They are listed and callable only on request.

use super::{ToolSpec, args, nodes, tool, turns};
use crate::call::Call;
use crate::tool_result::{Failure, Success};

pub(super) static TOOLS: &[ToolSpec] = &[
    tool!(
        Additive,
        create_channel(CreateChannel),
        "nerve_create_channel",
        "Start a node (older name)",
        "Deprecated: use nerve_create_node."
    ),
    tool!(
        Destructive,
        send(Send),
        "nerve_send",
        "Send a prompt and wait (older name)",
        "Deprecated: use nerve_execute."
    ),
    tool!(
        ReadOnly,
        list_channels(ListNodes),
        "nerve_list_channels",
        "List nodes (older name)",
        "Deprecated: use nerve_list_nodes."
    ),
    tool!(
        Destructive,
        close_channel(CloseChannel),
        "nerve_close_channel",
        "Stop a node (older name)",
        "Deprecated: use nerve_stop_node."
    ),
];

async fn create_channel(call: Call, args: args::CreateChannel) -> Result<Success, Failure> {
    let args = args::CreateNode {
        node_id: args.name,
        command: args.command,
        cwd: args.cwd,
        wait: true,
        ..Default::default()
    };
    Ok(with_deprecation(nodes::create(call, args).await?, "nerve_create_channel", "nerve_create_node"))
}

async fn send(call: Call, args: args::Send) -> Result<Success, Failure> {
    let execute = args::Execute {
        node_id: args.channel_name,
        text: args.text,
        timeout: args.timeout,
        ..Default::default()
    };
    Ok(with_deprecation(turns::run_turn(call, execute, args.parser).await?, "nerve_send", "nerve_execute"))
}

async fn list_channels(call: Call, args: args::ListNodes) -> Result<Success, Failure> {
    Ok(with_deprecation(nodes::list(call, args).await?, "nerve_list_channels", "nerve_list_nodes"))
}

async fn close_channel(call: Call, args: args::CloseChannel) -> Result<Success, Failure> {
    let args = args::Node { node_id: args.channel_name, session: None };
    Ok(with_deprecation(nodes::stop(call, args).await?, "nerve_close_channel", "nerve_stop_node"))
}

fn with_deprecation(success: Success, used: &str, instead: &str) -> Success {
    success.warn([format!("{used} is deprecated, use {instead}")])
}
