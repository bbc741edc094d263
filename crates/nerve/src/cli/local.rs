//! Commands that need no server.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::node::{ParserName, Seconds};

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve demo
  nerve demo --command claude
  nerve demo --json | jq -r '.turns[].text'")]
pub(crate) struct DemoArgs {
    /// The agent to show instead of the built-in one: claude, codex, gemini …
    #[arg(short, long, value_name = "COMMAND")]
    pub(crate) command: Option<String>,
    /// Print one JSON object at the end instead of the story
    #[arg(short, long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve ask 'What does main.rs do?'
  git diff | nerve ask --command codex -
  nerve ask --file question.md --cwd ~/project --timeout 600 --json")]
pub(crate) struct AskArgs {
    #[command(flatten)]
    pub(crate) prompt: Prompt,
    /// The agent to ask
    #[arg(short, long, default_value = "claude", value_name = "COMMAND")]
    pub(crate) command: String,
    /// What is known of the agent; found from the command if not given
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// How the answer is taken apart; the profile's way if not given
    #[arg(short, long, value_enum)]
    pub(crate) parser: Option<ParserName>,
    /// Where the agent works
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) cwd: Option<PathBuf>,
    /// Run the commands of Claude Code's shell tool in recorded terminals of their own: see 'nerve show-sandbox-execution'
    #[arg(long)]
    pub(crate) trace_tools: bool,
    /// Seconds until the answer must be there, start included
    #[arg(short, long, default_value = "1800", value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) timeout: Seconds,
    /// Print the whole response as JSON
    #[arg(short, long)]
    pub(crate) json: bool,
}

/// A text given on the command line, by standard input or by a file.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Prompt {
    /// The text; '-' reads standard input
    #[arg(value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// Read the text from a file
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Exits with 1 when something is missing without which nothing works. An agent that is not installed is only said.

EXAMPLES
  nerve doctor
  nerve doctor --json | jq '.checks[] | select(.ok | not)'
  nerve doctor --agents")]
pub(crate) struct DoctorArgs {
    /// Print the checks as JSON
    #[arg(short, long)]
    pub(crate) json: bool,
    /// Start each agent that is found, and say what state it comes to
    ///
    /// Each is started once, in an empty folder, with your own HOME and settings, and ended again. Nothing is typed into it, no dialog
    /// is answered, no model is asked. An agent that asks something nerve knows (may this folder be trusted, who are you) is fine.
    /// Exits with 1 if one that is found could not be driven.
    #[arg(long)]
    pub(crate) agents: bool,
    /// How long each agent may take, with --agents
    #[arg(
        long,
        default_value = "60",
        value_name = "SECONDS",
        allow_negative_numbers = true,
        requires = "agents"
    )]
    pub(crate) timeout: Seconds,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
#[command(after_long_help = "\
EXAMPLES
  nerve mock-agent
  nerve mock-agent --replay session.ahr --fast
  nerve mock-agent --help")]
pub(crate) struct MockAgentArgs {
    /// Passed to the agent as they are; '--help' says which there are
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub(crate) args: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve mock-model
  nerve mock-model --addr 127.0.0.1:8080
  ANTHROPIC_BASE_URL=http://127.0.0.1:8080 ANTHROPIC_AUTH_TOKEN=dummy claude")]
pub(crate) struct MockModelArgs {
    /// Where to listen; port 0 takes a free one. Loopback only
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR")]
    pub(crate) addr: SocketAddr,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve completions bash > ~/.local/share/bash-completion/completions/nerve
  nerve completions zsh > ~/.zfunc/_nerve
  nerve completions fish > ~/.config/fish/completions/nerve.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES
  nerve man | man -l -
  nerve man --dir ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Write one page for each command into this directory; it is made if missing
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
}

/// Arguments of `nerve hook`.
#[derive(Debug, Args)]
pub(crate) struct HookArgs {
    /// The socket of the node that listens.
    pub(crate) socket: PathBuf,
}
