//! Declares the command line of `nerve` and `ah`. The binary implements the commands (`nerve/src/cmd/`).

pub mod acp;
pub mod ah;
pub mod attach;
pub mod branch;
pub mod cluster;
mod command_groups;
pub mod completion;
pub mod config;
mod dash_prompt;
pub mod events;
pub mod exec;
pub mod extract;
pub mod fan_out;
pub mod graph;
pub mod help_wrap;
pub mod host;
mod json_output;
mod leading_options;
pub mod listen;
pub mod local_commands;
pub mod machine;
pub mod mcp;
pub mod node;
pub mod notify;
pub mod options;
pub mod pane;
pub mod pattern;
pub mod profile;
pub mod proxy;
pub mod prune;
pub mod record;
pub mod recording;
pub mod reference;
pub mod repl;
pub mod result;
pub mod search;
pub mod server;
mod server_conflict;
pub mod service;
pub mod session;
pub mod share;
pub mod snapshot;
mod suggestions;
pub mod token;
pub mod top;
pub mod transcript;
pub mod usage;
pub mod web;

use clap::{Parser, Subcommand};
use nerve_commands::node_command::{
    self, AnswerArgs, BudgetArgs, CreateArgs, ExecuteArgs, HistoryArgs, RemoveArgs, StartArgs, StopArgs,
    WaitArgs,
};

pub use self::command_groups::GROUPS;
use self::node::NodeShortcut;

const ABOUT: &str = "Drives, records and orchestrates terminal AI agents";

const LONG_ABOUT: &str = "\
Drives, records and orchestrates terminal AI agents such as Claude Code, Codex, Gemini CLI, opencode and GitHub Copilot CLI, and any
shell and REPL. 'nerve profile list' lists the known ones.

A node is one program in a terminal. A server runs nodes and listens on a Unix socket. A turn is one prompt and its answer.

The options --server, --session and --json may also precede the command: 'nerve -s work ls'.";

const EXAMPLES: &str = "\
EXAMPLES
  nerve demo                         try it: no key, no network
  nerve ask 'What does main.rs do?'  ask Claude Code one question
  nerve server start                 start a background server
  nerve new me -c claude             create a node that runs claude
  nerve send me 'Fix the test'       run a turn, print the answer
  nerve attach me                    use the agent yourself; ctrl+] d detaches

EXIT CODES
  0 done        1 failed               2 usage            3 not found
  4 timed out   5 blocked by a dialog  130 interrupted

ENVIRONMENT
  NERVE_HOME    directory for sockets, logs, histories and profiles
                [default: the XDG directories]
  NERVE_SERVER  server name, machine://NAME, ssh://HOST, tls://HOST:PORT
                or tcp://HOST:PORT [default: default]
  NERVE_SSH     ssh program for other machines [default: ssh]
  NERVE_SSH_SHARE=0  log in to a machine for each command, instead of once
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
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// Errors are printed as JSON, because the command prints JSON.
    #[arg(skip)]
    pub prints_json: bool,
}

/// All commands. `nerve --help` shows those of [`command_groups::GROUPS`], in their order; the others are hidden.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a node: start an agent or another program
    New(NodeShortcut<Box<CreateArgs>>),
    /// Send a prompt to a node and wait for the answer
    Send(NodeShortcut<ExecuteArgs>),
    /// List the nodes and their states
    Ls(NodeShortcut<node_command::ListArgs>),
    /// Watch all nodes: attach, answer, prompt, create and stop
    Top(top::TopArgs),
    /// See and use all nodes in a browser, also on a phone
    Web(web::WebArgs),
    /// Print a link with which others can look at a node
    Share(share::ShareArgs),
    /// Attach this terminal to a node or a recorded session
    Attach(attach::AttachArgs),
    /// Wait until a node is ready, or in another state
    Wait(NodeShortcut<WaitArgs>),
    /// Answer the dialog that blocks a node
    Answer(NodeShortcut<AnswerArgs>),
    /// Stop a node
    Stop(NodeShortcut<StopArgs>),
    /// Start a stopped node again: an agent resumes its conversation
    Start(NodeShortcut<StartArgs>),
    /// Remove a stopped node
    Rm(NodeShortcut<RemoveArgs>),
    /// Remove stopped nodes and old stored data
    Prune(prune::PruneArgs),
    /// Show the audit log of a node: prompts, answers, dialogs
    Logs(NodeShortcut<HistoryArgs>),
    /// Search prompts, answers, tools and screens of all nodes
    Search(search::SearchArgs),
    /// Print the prompts and answers of a node or a recording
    Transcript(transcript::TranscriptArgs),
    /// Print the tokens and the cost of nodes and recordings
    Usage(usage::UsageArgs),
    /// Show or set the budget of a node or a session
    Budget(NodeShortcut<BudgetArgs>),
    /// Notify when a node needs an answer, is done, or has failed
    Notify(notify::NotifyArgs),
    /// Print events as they happen, or run a command for each
    Events(events::EventsArgs),
    /// Ask a new agent one question, and stop it
    Ask(local_commands::AskArgs),
    /// Give several agents one task, each in its own git worktree
    FanOut(Box<fan_out::FanOutArgs>),

    /// Create and use nodes: agents, shells and other programs
    Node(node::NodeArgs),
    /// Run graphs: steps over nodes, ordered by their dependencies
    Graph(graph::GraphArgs),
    /// Create and use sessions: named groups of nodes
    Session(session::SessionArgs),
    /// List, show, convert and remove recordings
    #[command(alias = "recordings")]
    Recording(recording::RecordingArgs),
    /// Start, stop and list servers
    Server(server::ServerArgs),
    /// List and check your other machines, and use their nodes
    Machine(machine::MachineArgs),
    /// Join a cluster of machines, and list its members and runs
    Cluster(cluster::ClusterArgs),
    /// Run the server as a systemd user service
    Service(service::ServiceArgs),
    /// List and stop the host processes that own terminals
    Host(host::HostArgs),
    /// Show, await or cancel the result of a turn in the background
    Result(result::ResultArgs),
    /// List, print and test the descriptions of programs
    Profile(profile::ProfileArgs),

    /// Run a program in this terminal and record it
    Record(Box<record::RecordArgs>),
    #[command(flatten)]
    RecordingFile(recording::RecordingFileCommand),
    /// Parse an agent's answers (older name of 'recording extract')
    Parse(Box<extract::ExtractArgs>),
    /// Take, list and restore snapshots of a terminal and its files
    Snapshot(Box<snapshot::SnapshotArgs>),
    /// Continue from a snapshot in a new node
    Branch(Box<branch::BranchArgs>),
    /// Run a command in its own recorded terminal
    Exec(exec::ExecArgs),
    /// Show a command that an agent runs or ran, and type into it
    #[command(alias = "show-sandbox-execution")]
    Tools(exec::ShowArgs),

    /// Use nodes and graphs interactively, in this process
    Repl(repl::ReplArgs),
    /// Let two nodes cooperate: developer and coach, or a debate
    Pattern(pattern::PatternArgs),
    /// Connect standard input and output to a server (run by ssh)
    Connect(machine::ConnectArgs),
    /// Serve nodes as tools to a Model Context Protocol client
    Mcp(mcp::McpArgs),
    /// Serve an agent to an editor over the Agent Client Protocol
    Acp(acp::AcpArgs),
    /// Run a proxy between an agent and its model's API
    Proxy(Box<proxy::ProxyArgs>),
    /// List, create, use and close tmux panes
    Tmux(pane::PanesArgs),
    /// List, create, use and close WezTerm panes
    Wezterm(pane::PanesArgs),
    /// Run the built-in scripted agent in this terminal
    MockAgent(local_commands::MockAgentArgs),
    /// Run the built-in scripted model API on loopback
    MockModel(local_commands::MockModelArgs),

    /// Run a short demonstration with the built-in agent or a real one
    Demo(local_commands::DemoArgs),
    /// Check this machine for what nerve needs
    Doctor(local_commands::DoctorArgs),
    /// Show and check the settings
    Config(config::ConfigArgs),
    /// Show or renew the access token for TCP and HTTP clients
    Token(token::TokenArgs),
    /// Print a completion script for a shell
    Completions(local_commands::CompletionsArgs),
    /// Print the man page, or write all of them into a directory
    Man(local_commands::ManArgs),

    /// Forward an agent's hook input to its node (run by agents)
    Hook(local_commands::HookArgs),
    /// Print the whole command line as Markdown
    CliReference,
    /// Print the description of the HTTP interface (OpenAPI 3.1)
    #[command(name = "openapi")]
    OpenApi,
}

/// The short and the full name of each top-level command that is also in a group.
pub const SHORTCUTS: [(&str, &[&str]); 12] = [
    ("new", &["node", "create"]),
    ("send", &["node", "execute"]),
    ("ls", &["node", "list"]),
    ("wait", &["node", "wait"]),
    ("answer", &["node", "answer"]),
    ("stop", &["node", "stop"]),
    ("start", &["node", "start"]),
    ("rm", &["node", "remove"]),
    ("logs", &["node", "history"]),
    ("budget", &["node", "budget"]),
    ("view", &["recording", "view"]),
    ("replay", &["recording", "replay"]),
];

impl Cli {
    /// Parses the command line of this process. Exits with a message if it is invalid.
    pub fn parse_process_args() -> Cli {
        let args = leading_options::move_behind_command(std::env::args_os().collect());
        let args = dash_prompt::protect(args, <Cli as clap::CommandFactory>::command);
        if let Ok(cli) = Cli::parse_args(&mut <Cli as clap::CommandFactory>::command(), &args) {
            return cli;
        }
        // Arranging the help texts takes longer than parsing, and only errors show them.
        let mut command = Cli::build_command();
        Cli::parse_args(&mut command, &args).unwrap_or_else(|mut error| {
            let words: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
            suggestions::improve(&mut error, &command, &words);
            if error.use_stderr() && json_output::is_written(&words) {
                json_output::exit(&error)
            }
            error.exit()
        })
    }

    /// Parses a command line. Exits with a message if `--server` is in conflict with an argument.
    fn parse_args(command: &mut clap::Command, args: &[std::ffi::OsString]) -> clap::error::Result<Cli> {
        let mut matches = command.try_get_matches_from_mut(args)?;
        let prints_json = json_output::is_requested(&matches);
        server_conflict::exit_if_found(&matches, prints_json);
        let cli = <Cli as clap::FromArgMatches>::from_arg_matches_mut(&mut matches)
            .map_err(|error| error.format(command))?;
        Ok(Cli { prints_json, ..cli })
    }

    /// Returns the complete command line with its help texts arranged and wrapped for display.
    pub fn build_command() -> clap::Command {
        help_wrap::join_paragraphs(command_groups::group(<Cli as clap::CommandFactory>::command()))
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
        let mut cli = Cli::build_command().disable_help_subcommand(true);
        cli.build();
        for child in cli.get_subcommands().filter(|child| !child.is_hide_set()) {
            check(child, "nerve");
        }
    }
}
