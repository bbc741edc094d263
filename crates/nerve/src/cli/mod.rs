//! Declares the command line. [`crate::cmd`] implements the commands.

pub(crate) mod ah;
pub(crate) mod attach;
pub(crate) mod branch;
pub(crate) mod config;
pub(crate) mod events;
pub(crate) mod exec;
pub(crate) mod extract;
pub(crate) mod graph;
pub(crate) mod help_wrap;
pub(crate) mod host;
pub(crate) mod listen;
pub(crate) mod local_commands;
pub(crate) mod mcp;
pub(crate) mod node;
pub(crate) mod notify;
pub(crate) mod pane;
pub(crate) mod pattern;
pub(crate) mod proxy;
pub(crate) mod record;
pub(crate) mod recording;
pub(crate) mod repl;
pub(crate) mod result;
pub(crate) mod server;
pub(crate) mod session;
pub(crate) mod snapshot;
pub(crate) mod token;
pub(crate) mod top;

use clap::{Parser, Subcommand};

const ABOUT: &str = "Drives, records and orchestrates terminal AI agents";

const LONG_ABOUT: &str = "\
Drives, records and orchestrates terminal AI agents: Claude Code, Codex, Gemini CLI, opencode, or any shell and REPL.

A node is one program in a terminal. A server runs nodes and listens on a Unix socket. A turn is one prompt and its answer.";

const EXAMPLES: &str = "\
EXAMPLES
  nerve demo                                   try it: no key, no network
  nerve ask 'What does main.rs do?'            ask Claude Code one question
  nerve server start                           start a background server
  nerve server node create me -c claude        create a node that runs claude
  nerve server node execute me 'Fix the test'  run a turn, print the answer

EXIT CODES
  0 done        1 failed               2 usage            3 not found
  4 timed out   5 blocked by a dialog  130 interrupted

ENVIRONMENT
  NERVE_HOME    directory for sockets, logs, histories and profiles
                [default: the XDG directories]
  NERVE_SERVER  server name, tcp://HOST:PORT or tls://HOST:PORT
                [default: default]
  NERVE_TOKEN   access token for servers over TCP
                [default on this machine: as 'nerve token show' prints]
  NERVE_INSECURE=1  allow tcp://HOST:PORT of another machine without TLS:
                others on the network can read the token
  NERVE_TLS_CA  file with the CA certificates to trust for tls://
                [default: the usual authorities]
  NERVE_LOG     log filter of a server: error, warn, info (default), debug,
                or 'nerve_server=debug,info'
  NO_COLOR      disable colours";

#[derive(Debug, Parser)]
#[command(name = "nerve", version, about = ABOUT, long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
#[command(propagate_version = true, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a short demonstration with the built-in agent or a real one
    Demo(local_commands::DemoArgs),
    /// Ask an agent one question: create, execute and stop in one command
    Ask(local_commands::AskArgs),
    /// Run a program in this terminal and record it
    Record(Box<record::RecordArgs>),
    /// Watch all nodes: attach, answer, prompt, create and stop
    Top(top::TopArgs),
    /// Print the events of a server as they happen, or run a command for each
    Events(events::EventsArgs),
    /// Notify when a node needs an answer, is done, or has failed
    Notify(notify::NotifyArgs),
    /// Attach this terminal to a node or a recorded session
    Attach(attach::AttachArgs),
    /// Run a command in its own recorded terminal, linked to the enclosing session
    Exec(exec::ExecArgs),
    /// Show a command that an agent runs or ran, and type into it
    ShowSandboxExecution(exec::ShowArgs),
    /// Start, stop and use servers
    Server(server::ServerArgs),
    /// Show or renew the access token for TCP and HTTP clients
    Token(token::TokenArgs),
    /// Show, await or cancel the result of an asynchronous execution
    Result(result::ResultArgs),
    /// Use nodes and graphs interactively, in this process
    Repl(repl::ReplArgs),
    /// Show and check the settings
    Config(config::ConfigArgs),
    /// Let two nodes cooperate: developer and coach, or a debate
    Pattern(pattern::PatternArgs),
    /// Serve nodes as tools to a Model Context Protocol client over standard input and output
    Mcp(mcp::McpArgs),
    /// Run a proxy between an agent and its model's API: count, log, limit, translate
    Proxy(Box<proxy::ProxyArgs>),
    /// List and stop the host processes that own terminals
    Host(host::HostArgs),
    /// Take, list and restore snapshots of a recorded terminal and its files
    Snapshot(Box<snapshot::SnapshotArgs>),
    /// Continue from a snapshot of a recorded session in a new node, with its files and conversation
    Branch(Box<branch::BranchArgs>),
    /// Play a recording, or print its final state
    Replay(recording::ReplayArgs),
    /// Browse a recording: scroll, search, seek
    View(recording::ViewArgs),
    /// Print the final lines of a recorded session, interleaved with its snapshots
    BranchPoints(recording::BranchPointsArgs),
    /// Convert a recording to md, json, csv, txt or asciicast
    Export(recording::ExportArgs),
    /// Convert an asciicast to a recording
    Import(recording::ImportArgs),
    /// Show the blocks of a recording and report damage
    Inspect(recording::InspectArgs),
    /// List, prune and repair recordings
    Recordings(recording::RecordingsArgs),
    /// Parse an agent's answers out of a log, a recording, a pane or standard input
    Extract(Box<extract::ExtractArgs>),
    /// Parse an agent's answers (older name of 'extract')
    #[command(hide = true)]
    Parse(Box<extract::ExtractArgs>),
    /// List, create, use and close tmux panes
    Tmux(pane::PanesArgs),
    /// List, create, use and close WezTerm panes
    Wezterm(pane::PanesArgs),
    /// Check this machine for what nerve needs
    Doctor(local_commands::DoctorArgs),
    /// Run the built-in scripted agent in this terminal
    MockAgent(local_commands::MockAgentArgs),
    /// Run the built-in scripted model API on loopback
    MockModel(local_commands::MockModelArgs),
    /// Print a completion script for a shell
    Completions(local_commands::CompletionsArgs),
    /// Print the man page, or write all of them into a directory
    Man(local_commands::ManArgs),
    /// Forward an agent's hook input to its node (run by agents)
    #[command(hide = true)]
    Hook(local_commands::HookArgs),
    /// Print the whole command line as Markdown
    #[command(hide = true)]
    CliReference,
    /// Print the description of the HTTP interface (OpenAPI 3.1)
    #[command(hide = true, name = "openapi")]
    OpenApi,
}

impl Cli {
    /// Returns the complete command line with its help texts wrapped for display.
    pub(crate) fn build_command() -> clap::Command {
        help_wrap::join_paragraphs(<Cli as clap::CommandFactory>::command())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn declaration_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn visible_commands_have_help_and_examples() {
        fn check(command: &clap::Command, path: &str) {
            let name = format!("{path} {}", command.get_name());
            assert!(command.get_about().is_some(), "{name} has no help");
            let leaf = !command.has_subcommands();
            let long = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            assert!(!leaf || long.contains("EXAMPLES"), "{name} has no examples");
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{name}: {} has no help", argument.get_id());
            }
            for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
                check(child, &name);
            }
        }
        let mut cli = Cli::command().disable_help_subcommand(true);
        cli.build();
        for child in cli.get_subcommands().filter(|child| !child.is_hide_set()) {
            check(child, "nerve");
        }
    }
}
