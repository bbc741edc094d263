//! MCP servers of the client as arguments of the agent.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::types::{McpServer, NameValue};

/// Prefix of the variables that carry the values of environment variables and headers. The nerve server stores no variable whose name
/// contains `SECRET`.
const VARIABLE: &str = "ACP_MCP_SECRET_";

/// Arguments and environment of an agent with MCP servers.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct AgentMcp {
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    /// Names of the servers that the agent does not get.
    pub(crate) ignored: Vec<String>,
}

/// Returns true if the agent takes MCP servers as an argument: it is Claude Code.
pub(crate) fn accepts_servers(agent: &[String]) -> bool {
    let program = agent.first().and_then(|program| Path::new(program).file_name());
    program.is_some_and(|program| program == "claude")
}

/// Returns the configuration of an agent. Claude Code takes it as an argument; for others all servers are ignored.
///
/// Values of environment variables and headers may be secrets. They are passed in the environment of the agent, whose configuration refers
/// to them. After a restart of the nerve server they are unset; the default in the reference lets the agent start without them.
pub(crate) fn configure(agent: &[String], servers: &[McpServer]) -> AgentMcp {
    if servers.is_empty() {
        return AgentMcp::default();
    }
    if !accepts_servers(agent) {
        let ignored = servers.iter().map(|server| server.name().to_string()).collect();
        return AgentMcp { ignored, ..AgentMcp::default() };
    }
    let mut env = BTreeMap::new();
    let mut entries = Map::new();
    for server in servers {
        let entry = match server {
            McpServer::Stdio { command, args, env: variables, .. } => {
                json!({ "command": command, "args": args, "env": references(variables, &mut env) })
            }
            McpServer::Remote { transport, url, headers, .. } => {
                json!({ "type": transport, "url": url, "headers": references(headers, &mut env) })
            }
        };
        entries.insert(server.name().to_string(), entry);
    }
    let config = json!({ "mcpServers": entries }).to_string();
    AgentMcp { args: vec!["--mcp-config".to_string(), config], env, ignored: Vec::new() }
}

/// Moves values into `env` and returns references to them.
fn references(values: &[NameValue], env: &mut BTreeMap<String, String>) -> Map<String, Value> {
    let refer = |pair: &NameValue| {
        let variable = format!("{VARIABLE}{}", env.len() + 1);
        let reference = format!("${{{variable}:-}}");
        env.insert(variable, pair.value.clone());
        (pair.name.clone(), Value::from(reference))
    };
    values.iter().map(refer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers() -> Vec<McpServer> {
        serde_json::from_value(json!([
            { "name": "files", "command": "/bin/files", "args": ["-v"], "env": [{ "name": "KEY", "value": "s3cret" }] },
            { "type": "http", "name": "web", "url": "https://example.com", "headers": [{ "name": "Authorization", "value": "t0ken" }] },
        ]))
        .unwrap()
    }

    #[test]
    fn claude_gets_servers_and_no_secret_as_argument() {
        let agent = ["/usr/bin/claude".to_string(), "--verbose".to_string()];
        let AgentMcp { args, env, ignored } = configure(&agent, &servers());
        let config: Value = serde_json::from_str(&args[1]).unwrap();
        assert_eq!(config["mcpServers"]["files"]["env"]["KEY"], "${ACP_MCP_SECRET_1:-}");
        assert_eq!(config["mcpServers"]["web"]["headers"]["Authorization"], "${ACP_MCP_SECRET_2:-}");
        assert!(!args.concat().contains("s3cret") && !args.concat().contains("t0ken"), "{args:?}");
        assert_eq!((env["ACP_MCP_SECRET_1"].as_str(), env["ACP_MCP_SECRET_2"].as_str()), ("s3cret", "t0ken"));
        assert!(ignored.is_empty());
    }

    #[test]
    fn other_agents_ignore_servers() {
        let configured = configure(&["codex".to_string()], &servers());
        assert_eq!(configured.ignored, ["files", "web"]);
        assert!(configured.args.is_empty());
        assert_eq!(configure(&["codex".to_string()], &[]), AgentMcp::default());
    }
}
