//! The deprecated tools, which call today's and add a warning. They are listed and callable only on request.

use rmcp::handler::server::tool::schema_for_input;

use super::{Effect, ToolSpec, args, nodes, turns};
use crate::call::Call;
use crate::tool_result::{Failure, Success};

pub(super) static TOOLS: &[ToolSpec] = &[
    ToolSpec {
        name: "nerve_create_channel",
        title: "Start a node (older name)",
        description: "Deprecated: use nerve_create_node.",
        effect: Effect::Additive,
        schema: schema_for_input::<args::CreateChannel>,
        run: |call| Box::pin(create_channel(call)),
    },
    ToolSpec {
        name: "nerve_send",
        title: "Send a prompt and wait (older name)",
        description: "Deprecated: use nerve_execute.",
        effect: Effect::Destructive,
        schema: schema_for_input::<args::Send>,
        run: |call| Box::pin(send(call)),
    },
    ToolSpec {
        name: "nerve_list_channels",
        title: "List nodes (older name)",
        description: "Deprecated: use nerve_list_nodes.",
        effect: Effect::ReadOnly,
        schema: schema_for_input::<args::ListNodes>,
        run: |call| Box::pin(list_channels(call)),
    },
    ToolSpec {
        name: "nerve_close_channel",
        title: "Stop a node (older name)",
        description: "Deprecated: use nerve_stop_node.",
        effect: Effect::Destructive,
        schema: schema_for_input::<args::CloseChannel>,
        run: |call| Box::pin(close_channel(call)),
    },
];

async fn create_channel(call: Call) -> Result<Success, Failure> {
    let args::CreateChannel { name, command, cwd } = call.arguments()?;
    let given = args::CreateNode {
        node_id: name,
        command,
        session: None,
        backend: None,
        cwd,
        env: Default::default(),
        profile: None,
        proxy: None,
        cols: None,
        rows: None,
        wait: true,
        ready_timeout: None,
    };
    Ok(with_deprecation(nodes::create_node(&call, given).await?, "nerve_create_channel", "nerve_create_node"))
}

async fn send(call: Call) -> Result<Success, Failure> {
    let args::Send { channel_name, text, parser, timeout } = call.arguments()?;
    let given = args::Execute {
        node_id: channel_name,
        text,
        session: None,
        timeout,
        detach_on_timeout: false,
        fail_if_busy: false,
        interrupt_on_cancel: false,
    };
    Ok(with_deprecation(turns::run_turn(&call, given, parser).await?, "nerve_send", "nerve_execute"))
}

async fn list_channels(call: Call) -> Result<Success, Failure> {
    Ok(with_deprecation(nodes::list(call).await?, "nerve_list_channels", "nerve_list_nodes"))
}

async fn close_channel(call: Call) -> Result<Success, Failure> {
    let args::CloseChannel { channel_name } = call.arguments()?;
    let given = args::Node { node_id: channel_name, session: None };
    Ok(with_deprecation(nodes::stop_node(&call, given).await?, "nerve_close_channel", "nerve_stop_node"))
}

fn with_deprecation(done: Success, used: &str, instead: &str) -> Success {
    done.warn([format!("{used} is deprecated, use {instead}")])
}
