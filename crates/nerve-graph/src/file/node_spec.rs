//! Converts the nodes of a graph file to specifications. A file has types of its own, because it omits defaults and reports the
//! position of each error.

use std::time::Duration;

use nerve_api::request::{ChatSettings, NodeRef, NodeSpec};
use nerve_node::chat::ToolChoice;

use super::types::{BashDefinition, ChatDefinition, NodeDefinition, TerminalDefinition};

impl NodeDefinition {
    /// Returns the specification of the node; `None` for templates and graphs, which are not nodes of a session.
    pub fn spec(&self, node: NodeRef) -> Option<NodeSpec> {
        let spec = NodeSpec { backend: self.backend()?, ..NodeSpec::at(node) };
        match self {
            NodeDefinition::Bash(BashDefinition { cwd, env, .. }) => {
                Some(NodeSpec { cwd: cwd.clone().map(Into::into), env: env.clone(), ..spec })
            }
            NodeDefinition::Chat(chat) => Some(NodeSpec {
                env: chat.env.clone(),
                history: chat.history,
                response_timeout: duration(chat.response_timeout).map_or(spec.response_timeout, Into::into),
                chat: Some(Box::new(chat.settings())),
                ..spec
            }),
            NodeDefinition::Acp(acp) => Some(NodeSpec {
                command: Some(acp.command.clone()),
                cwd: acp.cwd.clone().map(Into::into),
                env: acp.env.clone(),
                history: acp.history,
                ready_timeout: duration(acp.ready_timeout).map_or(spec.ready_timeout, Into::into),
                response_timeout: duration(acp.response_timeout).map_or(spec.response_timeout, Into::into),
                ..spec
            }),
            other => Some(terminal_spec(other.terminal()?.clone(), spec)),
        }
    }

    /// Returns the timeout of the commands of a bash node, if its definition sets one.
    pub fn command_timeout(&self) -> Option<Duration> {
        match self {
            NodeDefinition::Bash(bash) => duration(bash.timeout),
            _ => None,
        }
    }
}

fn terminal_spec(terminal: TerminalDefinition, spec: NodeSpec) -> NodeSpec {
    NodeSpec {
        command: terminal.command,
        cwd: terminal.cwd.map(Into::into),
        env: terminal.env,
        pane_id: terminal.pane,
        tmux_session: terminal.tmux_session,
        socket: terminal.socket,
        cols: terminal.cols,
        rows: terminal.rows,
        profile: terminal.profile,
        parser: terminal.parser,
        history: terminal.history,
        record: terminal.record,
        ready_timeout: duration(terminal.ready_timeout).map_or(spec.ready_timeout, Into::into),
        response_timeout: duration(terminal.response_timeout).map_or(spec.response_timeout, Into::into),
        proxy: terminal.proxy.map(Box::new),
        ..spec
    }
}

fn duration(seconds: Option<f64>) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds?).ok()
}

impl ChatDefinition {
    /// Returns the settings of the model.
    pub fn settings(&self) -> ChatSettings {
        let default = ChatSettings::new(self.provider, self.model.clone());
        ChatSettings {
            base_url: self.base_url.clone(),
            api_key_env: self.api_key_env.clone(),
            system: self.system.clone(),
            max_tokens: self.max_tokens.unwrap_or(default.max_tokens),
            temperature: self.temperature,
            tools: self.tools.clone(),
            tool_choice: self.tool_choice.clone().map_or(ToolChoice::Auto, ToolChoice::from),
            parallel_tool_calls: self.parallel_tool_calls,
            max_tool_rounds: self.max_tool_rounds.unwrap_or(default.max_tool_rounds),
            retries: self.retries.unwrap_or(default.retries),
            ..default
        }
    }
}
