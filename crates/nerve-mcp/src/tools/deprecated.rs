//! The deprecated tools, which call today's and add a warning.

use super::{args, nodes, turns};
use crate::call::Call;
use crate::tool_result::{Failure, Success};

pub(super) async fn create_channel(call: Call) -> Result<Success, Failure> {
    let args::CreateChannel { channel_id, command, cwd } = call.arguments()?;
    let given = args::CreateNode {
        node_id: channel_id,
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

pub(super) async fn send(call: Call) -> Result<Success, Failure> {
    let args::Send { channel_id, input, timeout } = call.arguments()?;
    let given = args::Execute {
        node_id: channel_id,
        text: input,
        session: None,
        timeout,
        detach_on_timeout: false,
        fail_if_busy: false,
        interrupt_on_cancel: false,
    };
    Ok(with_deprecation(turns::run_turn(&call, given).await?, "nerve_send", "nerve_execute"))
}

pub(super) async fn list_channels(call: Call) -> Result<Success, Failure> {
    Ok(with_deprecation(nodes::list(call).await?, "nerve_list_channels", "nerve_list_nodes"))
}

pub(super) async fn close_channel(call: Call) -> Result<Success, Failure> {
    let args::CloseChannel { channel_id } = call.arguments()?;
    let given = args::Node { node_id: channel_id, session: None };
    Ok(with_deprecation(nodes::stop_node(&call, given).await?, "nerve_close_channel", "nerve_stop_node"))
}

fn with_deprecation(done: Success, used: &str, instead: &str) -> Success {
    done.warn([format!("{used} is deprecated, use {instead}")])
}
