//! `nerve acp`.

use clap::{Args, ValueHint};

#[derive(Debug, Args)]
#[command(after_long_help = "\
Editors (Zed, JetBrains, Neovim, VS Code) start this command and speak the Agent Client Protocol with it over standard input
and output; it logs to standard error. Each session of the editor is a node of a server on this machine, which is started if necessary:
'nerve attach NODE' shows the agent's own screen. The nodes are stopped when the editor disconnects, and can be opened again later. See
docs/acp.md.

EXAMPLES
  nerve acp -- claude
  nerve acp --keep-nodes -- codex
  nerve acp --server work --session editor -- claude --model opus")]
pub struct AcpArgs {
    /// Server name; started if it does not run
    #[arg(short, long, default_value = "default", env = "NERVE_SERVER", value_name = "NAME")]
    pub server: String,
    /// Session of the nodes [default: default]
    #[arg(long, value_name = "NAME")]
    pub session: Option<String>,
    /// Agent profile [default: detected from the command]
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Latest version of the protocol to use: 1, or 2, a draft
    #[arg(long, default_value_t = 1, value_name = "VERSION", value_parser = clap::value_parser!(u16).range(1..=2))]
    pub protocol: u16,
    /// Keep the nodes running after the editor has disconnected
    #[arg(long = "keep-nodes", alias = "keep")]
    pub keep: bool,
    /// Agent and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "AGENT")]
    #[arg(value_hint = ValueHint::CommandWithArguments)]
    pub agent: Vec<String>,
}
