//! The command line, declared. What the commands do is in [`crate::cmd`].

pub(crate) mod ah;
pub(crate) mod attach;
pub(crate) mod branch;
pub(crate) mod chat;
pub(crate) mod config;
pub(crate) mod exec;
pub(crate) mod extract;
pub(crate) mod graph;
pub(crate) mod help_wrap;
pub(crate) mod host;
pub(crate) mod listen;
pub(crate) mod local;
pub(crate) mod mcp;
pub(crate) mod node;
pub(crate) mod node_proxy;
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

use clap::{Parser, Subcommand};

const ABOUT: &str = "Drives, records and orchestrates terminal AI agents";

const LONG_ABOUT: &str = "\
Drives, records and orchestrates terminal AI agents: Claude Code, Codex, Gemini CLI, opencode, or any shell and REPL.

A node is one program in a terminal. A server keeps nodes and answers on a Unix socket. A turn is one prompt and its answer.";

const EXAMPLES: &str = "\
EXAMPLES
  nerve demo                                   see it work: no key, no network
  nerve ask 'What does main.rs do?'            one question to Claude Code, here
  nerve server start                           a server in the background
  nerve server node create me -c claude        a node that runs claude
  nerve server node execute me 'Fix the test'  one turn, the answer on stdout

EXIT CODES
  0 done        1 failed               2 usage            3 not found
  4 timed out   5 blocked by a dialog  130 interrupted

ENVIRONMENT
  NERVE_HOME    one directory for sockets, logs, histories and profiles,
                instead of the XDG directories
  NERVE_SERVER  the server that commands talk to, instead of 'default';
                tcp://HOST:PORT and tls://HOST:PORT too
  NERVE_TOKEN   the token for servers over TCP; for those of this machine,
                instead of the one 'nerve token show' prints
  NERVE_INSECURE=1  talk to tcp://HOST:PORT of another machine without TLS:
                others on the network can read the token
  NERVE_TLS_CA  a file with the certificates to believe for tls://,
                instead of the usual authorities
  NERVE_LOG     what a server logs: error, warn, info (default), debug,
                or 'nerve_server=debug,info'
  NO_COLOR      no colours";

#[derive(Debug, Parser)]
#[command(name = "nerve", version, about = ABOUT, long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
#[command(propagate_version = true, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the main job at work, with a built-in agent or a real one
    Demo(local::DemoArgs),
    /// Ask an agent one question: create, execute and stop in one
    Ask(local::AskArgs),
    /// Run a program in this terminal and record it
    Record(Box<record::RecordArgs>),
    /// Show a program that runs, and type into it: a node, or what is recorded
    Attach(attach::AttachArgs),
    /// Run a command in a recorded terminal of its own, as a part of the session around it
    Exec(exec::ExecArgs),
    /// Show what an agent runs, or ran, and type into it
    ShowSandboxExecution(exec::ShowArgs),
    /// Start, stop and use servers
    Server(server::ServerArgs),
    /// Show or renew the token that clients over TCP and HTTP must know
    Token(token::TokenArgs),
    /// Show what came of an execution that nobody waited for
    Result(result::ResultArgs),
    /// Use nodes and graphs line by line, in this process
    Repl(repl::ReplArgs),
    /// Show and check the settings
    Config(config::ConfigArgs),
    /// Let two nodes work on something together: developer and coach, or a debate
    Pattern(pattern::PatternArgs),
    /// Serve nodes as tools to a client of the Model Context Protocol, over standard input and output
    Mcp(mcp::McpArgs),
    /// Stand between an agent and the API of its model: count, log, limit, translate
    Proxy(Box<proxy::ProxyArgs>),
    /// List and stop the processes that own terminals
    Host(host::HostArgs),
    /// Take a snapshot of the recorded terminal and the files it works on; restore and list them
    Snapshot(Box<snapshot::SnapshotArgs>),
    /// Go on from a snapshot of a recorded session, in a new node with its files and its conversation
    Branch(Box<branch::BranchArgs>),
    /// Show a recording in its time, or its final state at once
    Replay(recording::ReplayArgs),
    /// Look through a recording: scroll, search, go to any time
    View(recording::ViewArgs),
    /// Print the final lines of a recorded session, interleaved with its snapshots
    BranchPoints(recording::BranchPointsArgs),
    /// Write a recording in another form: md, json, csv, txt, asciicast
    Export(recording::ExportArgs),
    /// Make a recording of an asciicast
    Import(recording::ImportArgs),
    /// Show what is in a recording, block by block, and what is damaged
    Inspect(recording::InspectArgs),
    /// List, prune and repair recordings
    Recordings(recording::RecordingsArgs),
    /// Take apart what an agent said: from a log, a recording, a pane or standard input
    Extract(Box<extract::ExtractArgs>),
    /// Take apart what an agent said (older name of 'extract')
    #[command(hide = true)]
    Parse(Box<extract::ExtractArgs>),
    /// List, make, use and close panes of tmux
    Tmux(pane::PanesArgs),
    /// List, make, use and close panes of WezTerm
    Wezterm(pane::PanesArgs),
    /// Say what is found on this machine and what is missing
    Doctor(local::DoctorArgs),
    /// Run the built-in scripted agent in this terminal
    MockAgent(local::MockAgentArgs),
    /// Run the built-in scripted model API on loopback
    MockModel(local::MockModelArgs),
    /// Print a completion script for a shell
    Completions(local::CompletionsArgs),
    /// Print the man page, or write all of them into a directory
    Man(local::ManArgs),
    /// Pass on what an agent's hook was given (agents run this)
    #[command(hide = true)]
    Hook(local::HookArgs),
    /// Print the whole command line as Markdown
    #[command(hide = true)]
    CliReference,
    /// Print the description of the HTTP interface (OpenAPI 3.1)
    #[command(hide = true, name = "openapi")]
    OpenApi,
}

impl Cli {
    /// The whole command line, with help texts as they are shown.
    pub(crate) fn declared() -> clap::Command {
        help_wrap::joined(<Cli as clap::CommandFactory>::command())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_declaration_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_visible_command_has_a_help_line_and_every_leaf_has_examples() {
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
