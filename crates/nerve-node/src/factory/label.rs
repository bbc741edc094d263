//! The label of a node in its host or pane.

use nerve_api::request::NodeRef;
use nerve_host::manager::Label;

use crate::terminal::TerminalSpec;

/// Returns the label by which a later server recognizes and adopts the node. `env`: names of its variables.
pub(super) fn label(
    server: &str,
    node: &NodeRef,
    history: bool,
    env: Vec<String>,
    terminal: &TerminalSpec,
) -> Label {
    let proxy = terminal.proxy.as_ref();
    Label {
        kind: terminal.kind.to_string(),
        server: server.to_string(),
        session: node.session.clone(),
        node: node.node.clone(),
        argv: terminal.program.argv.clone(),
        env_home: terminal.program.env.get("HOME").cloned(),
        profile: terminal.profile.name.clone(),
        parser: terminal.parser.to_string(),
        agent_version: terminal.agent_version.clone(),
        ready_timeout: terminal.ready_timeout,
        response_timeout: terminal.response_timeout,
        history,
        env,
        proxy_kind: proxy
            .and_then(|proxy| proxy.settings())
            .map(|settings| settings.kind.as_str().to_string()),
        proxy: proxy.map(|proxy| proxy.id().to_string()),
    }
}
