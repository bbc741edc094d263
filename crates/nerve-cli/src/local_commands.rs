//! Commands that need no server.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use nerve_api::value::ParserKind;

use nerve_commands::node_command::{DurationArg, one_of};
use nerve_commands::prompt::Prompt;

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve demo
  nerve demo --command claude
  nerve demo --json | jq -r '.turns[].text'")]
pub struct DemoArgs {
    /// Agent to use instead of the built-in one: claude, codex, gemini …
    #[arg(short, long, value_name = "COMMAND")]
    pub command: Option<String>,
    /// Print one JSON object at the end instead of the narration
    #[arg(short, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve ask 'What does main.rs do?'
  git diff | nerve ask --command codex -
  nerve ask --file question.md --cwd ~/project --timeout 600 --json

In a terminal, a dialog of the agent is shown, and you answer it with the number of a choice.")]
pub struct AskArgs {
    #[command(flatten)]
    pub prompt: Prompt,
    /// Agent to ask
    #[arg(short, long, default_value = "claude", value_name = "COMMAND")]
    pub command: String,
    /// Agent profile [default: detected from the command]
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Answer parser [default: from the profile]
    #[arg(short, long, value_parser = one_of::<ParserKind>(ParserKind::names()))]
    pub parser: Option<ParserKind>,
    /// Working directory of the agent
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cwd: Option<PathBuf>,
    /// Run the commands of Claude Code's shell tool in their own recorded terminals; see 'nerve tools'
    #[arg(long)]
    pub trace_tools: bool,
    /// Start the agent even if nerve was not tested with its version or options
    #[arg(long)]
    pub force: bool,
    /// Time limit in seconds, including the start
    #[arg(short, long, default_value = "1800", value_name = "SECONDS", allow_negative_numbers = true)]
    pub timeout: DurationArg,
    /// Print the complete response as JSON
    #[arg(short, long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Exits with 1 if something essential is missing. A missing agent is reported but is not an error.

EXAMPLES
  nerve doctor
  nerve doctor --json | jq '.checks[] | select(.ok | not)'
  nerve doctor --agents
  nerve doctor --report NODE")]
pub struct DoctorArgs {
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
    /// Repair the files of running hosts and servers first
    ///
    /// Hosts whose registry entry is damaged, or whose sockets or recording were deleted, create them again. A restored
    /// recording is complete. Servers whose socket or lock file was deleted create it again. Nothing is stopped.
    #[arg(long, conflicts_with = "agents")]
    pub fix: bool,
    /// Start each installed agent and report the state it reaches
    ///
    /// Starts each agent once in an empty folder, with your own HOME and settings, and stops it again. Types nothing, answers no
    /// dialog and sends no model request. An agent that waits in a known dialog (folder trust, login) passes. Exits with 1 if an
    /// installed agent could not be driven.
    #[arg(long)]
    pub agents: bool,
    /// Write a report about nodes into the current folder
    ///
    /// The ZIP file contains the checks, the settings and the names of variables. For each node it adds the state, evidence,
    /// agent version, screen and the end of the recording. Letters and digits are masked. Known secrets and the home folder
    /// are removed. Check the file before you send it.
    #[arg(long, conflicts_with_all = ["agents", "fix"])]
    pub report: bool,
    /// Nodes in the report [default: all of the session]
    #[arg(value_name = "NODE", requires = "report")]
    pub nodes: Vec<String>,
    /// Do not mask texts: the report has prompts and answers
    #[arg(long, requires = "report")]
    pub with_text: bool,
    /// Server of the nodes
    #[arg(short, long, default_value = "default", env = "NERVE_SERVER", value_name = "NAME")]
    pub server: String,
    /// Session of the nodes [default: the server's default session]
    #[arg(long, requires = "report", value_name = "NAME")]
    pub session: Option<String>,
    /// Time limit per agent in seconds
    #[arg(
        long,
        default_value = "60",
        value_name = "SECONDS",
        allow_negative_numbers = true,
        requires = "agents"
    )]
    pub timeout: DurationArg,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
#[command(after_long_help = "\
EXAMPLES
  nerve mock-agent
  nerve mock-agent --replay session.ahr --fast
  nerve mock-agent --help")]
pub struct MockAgentArgs {
    /// Arguments of the agent; '--help' lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub args: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve mock-model
  nerve mock-model --addr 127.0.0.1:8080
  ANTHROPIC_BASE_URL=http://127.0.0.1:8080 ANTHROPIC_AUTH_TOKEN=dummy claude")]
pub struct MockModelArgs {
    /// Listen address, loopback only; port 0 picks a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR")]
    pub addr: SocketAddr,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve completions bash > ~/.local/share/bash-completion/completions/nerve
  nerve completions zsh > ~/.zfunc/_nerve
  nerve completions fish > ~/.config/fish/completions/nerve.fish")]
pub struct CompletionsArgs {
    /// Shell
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve man | man -l -
  nerve man --dir ~/.local/share/man/man1")]
pub struct ManArgs {
    /// Write one page per command into this directory; created if missing
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
}

/// Arguments of `nerve hook`.
#[derive(Debug, Args)]
pub struct HookArgs {
    /// Hook socket of the node.
    pub socket: PathBuf,
}
