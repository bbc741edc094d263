//! `nerve pattern`: conversations between two nodes of a server.

use clap::{Args, Subcommand};
use nerve_api::value::ParserKind;

use nerve_commands::node_command::{DurationArg, one_of};

use super::node::ServerOption;

#[derive(Debug, Args)]
pub struct PatternArgs {
    #[command(flatten)]
    pub server: ServerOption,
    /// Session of the nodes [default: the server's default session]
    #[arg(long, global = true, value_name = "NAME")]
    pub session: Option<String>,
    /// Time limit of a turn in seconds [default: the node's limit]
    #[arg(short, long, global = true, value_name = "SECONDS", allow_negative_numbers = true)]
    pub timeout: Option<DurationArg>,
    /// Answer parser [default: the node's]
    #[arg(short, long, global = true, value_parser = one_of::<ParserKind>(ParserKind::names()))]
    pub parser: Option<ParserKind>,
    #[command(subcommand)]
    pub command: PatternCommand,
}

#[derive(Debug, Subcommand)]
pub enum PatternCommand {
    /// A developer works on a task until a coach accepts the result
    DevCoach(Box<DevCoachArgs>),
    /// Two agents argue for two positions
    Debate(Box<DebateArgs>),
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
In each round the developer receives the task and the coach's last message, then the coach receives the developer's answer. The coach
accepts by writing the phrase on its own line. Each turn is reported on stderr when it ends; the developer's last answer goes to stdout.
Ctrl+C interrupts the working node. Exits with 1 if the coach does not accept within the rounds.

Texts can be '@FILE' to read a file or '-' to read standard input. Template variables: {task}, {coach_message} (developer),
{dev_message} and {acceptance_phrase} (coach), and {round}.

EXAMPLES
  nerve new dev -c claude --cwd ~/project
  nerve new coach -c claude --cwd ~/project
  nerve pattern dev-coach --dev dev --coach coach --task 'Make the tests pass'
  nerve pattern dev-coach --dev dev --coach coach --task @task.md \\
      --max-rounds 5 --accept LGTM --json")]
pub struct DevCoachArgs {
    /// Developer node
    #[arg(long, value_name = "NODE")]
    pub dev: String,
    /// Coach node
    #[arg(long, value_name = "NODE")]
    pub coach: String,
    /// Task
    #[arg(long, value_name = "TEXT|@FILE|-")]
    pub task: String,
    /// Maximum number of rounds
    #[arg(long, default_value = "50", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_rounds: u32,
    /// Acceptance phrase of the coach; repeatable [default: I ACCEPT TASK COMPLETION]
    #[arg(long, value_name = "PHRASE")]
    pub accept: Vec<String>,
    /// Prompt template of the developer
    #[arg(long, value_name = "TEXT|@FILE")]
    pub dev_template: Option<String>,
    /// Prompt template of the coach
    #[arg(long, value_name = "TEXT|@FILE")]
    pub coach_template: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
In each round A answers B, then B answers A; A begins. Each turn is reported on stderr when it ends. The last answer of each node goes to
stdout, with --json all answers. Ctrl+C interrupts the working node.

Texts can be '@FILE' to read a file or '-' to read standard input. Template variables: {topic}, {position}, {opponent_position},
{opponent_message}, {round}, {rounds} and {max_words}.

EXAMPLES
  nerve pattern debate --a one --b two --topic 'Tabs or spaces' \\
      --position-a tabs --position-b spaces
  nerve pattern debate --a one --b two --topic @topic.md --rounds 2 --json \\
      --position-a 'ship now' --position-b 'test first'")]
pub struct DebateArgs {
    /// Node that argues for the first position
    #[arg(long, value_name = "NODE")]
    pub a: String,
    /// Node that argues for the second position
    #[arg(long, value_name = "NODE")]
    pub b: String,
    /// Topic
    #[arg(long, value_name = "TEXT|@FILE|-")]
    pub topic: String,
    /// Position of A
    #[arg(long, value_name = "TEXT")]
    pub position_a: String,
    /// Position of B
    #[arg(long, value_name = "TEXT")]
    pub position_b: String,
    /// Number of rounds; each node has one turn per round
    #[arg(long, default_value = "5", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Words per answer, as requested from the agents
    #[arg(long, default_value = "100", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_words: u32,
    /// Prompt template of each turn
    #[arg(long, value_name = "TEXT|@FILE")]
    pub template: Option<String>,
}
