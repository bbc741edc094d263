//! `nerve pattern`: two nodes of a server that talk to each other.

use clap::{Args, Subcommand};

use super::node::{ParserName, Seconds, ServerOption};

#[derive(Debug, Args)]
pub(crate) struct PatternArgs {
    #[command(flatten)]
    pub(crate) server: ServerOption,
    /// The session the nodes are in; the server's default session if not given
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// Seconds one turn may take; the node's limit if not given
    #[arg(short, long, global = true, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) timeout: Option<Seconds>,
    /// How answers are taken apart; the node's way if not given
    #[arg(short, long, global = true, value_enum)]
    pub(crate) parser: Option<ParserName>,
    #[command(subcommand)]
    pub(crate) command: PatternCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PatternCommand {
    /// A developer works on a task until a coach accepts what it has done
    DevCoach(Box<DevCoachArgs>),
    /// Two agents argue for two positions
    Debate(Box<DebateArgs>),
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
A round: the developer is told the task and what the coach said, then the coach is told what the developer said. The coach accepts with
the phrase on a line of its own. Each turn is said on stderr as it ends; the developer's last answer goes to stdout. Ctrl+C interrupts the
node that works. Not accepted within the rounds is exit code 1.

Texts can be '@FILE', to read a file, or '-', to read standard input. Templates know {task}, {coach_message} (developer), {dev_message} and
{acceptance_phrase} (coach), and {round}.

EXAMPLES
  nerve server node create dev -c claude --cwd ~/project
  nerve server node create coach -c claude --cwd ~/project
  nerve pattern dev-coach --dev dev --coach coach --task 'Make the tests pass'
  nerve pattern dev-coach --dev dev --coach coach --task @task.md \\
      --max-rounds 5 --accept LGTM --json")]
pub(crate) struct DevCoachArgs {
    /// The node that works
    #[arg(long, value_name = "NODE")]
    pub(crate) dev: String,
    /// The node that looks at what was done
    #[arg(long, value_name = "NODE")]
    pub(crate) coach: String,
    /// What is to be done
    #[arg(long, value_name = "TEXT|@FILE|-")]
    pub(crate) task: String,
    /// Rounds at most
    #[arg(long, default_value = "50", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_rounds: u32,
    /// What the coach says to accept; may be given more than once [default: I ACCEPT TASK COMPLETION]
    #[arg(long, value_name = "PHRASE")]
    pub(crate) accept: Vec<String>,
    /// What the developer is told each round
    #[arg(long, value_name = "TEXT|@FILE")]
    pub(crate) dev_template: Option<String>,
    /// What the coach is told each round
    #[arg(long, value_name = "TEXT|@FILE")]
    pub(crate) coach_template: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
A round: A answers B, then B answers A; A begins. Each turn is said on stderr as it ends; the last words of both go to stdout, with --json
all of them. Ctrl+C interrupts the node that works.

Texts can be '@FILE', to read a file, or '-', to read standard input. The template knows {topic}, {position}, {opponent_position},
{opponent_message}, {round}, {rounds} and {max_words}.

EXAMPLES
  nerve pattern debate --a one --b two --topic 'Tabs or spaces' \\
      --position-a tabs --position-b spaces
  nerve pattern debate --a one --b two --topic @topic.md --rounds 2 --json \\
      --position-a 'ship now' --position-b 'test first'")]
pub(crate) struct DebateArgs {
    /// The node that argues for the first position
    #[arg(long, value_name = "NODE")]
    pub(crate) a: String,
    /// The node that argues for the second position
    #[arg(long, value_name = "NODE")]
    pub(crate) b: String,
    /// What it is about
    #[arg(long, value_name = "TEXT|@FILE|-")]
    pub(crate) topic: String,
    /// What A argues for
    #[arg(long, value_name = "TEXT")]
    pub(crate) position_a: String,
    /// What B argues for
    #[arg(long, value_name = "TEXT")]
    pub(crate) position_b: String,
    /// Rounds, each a turn of both
    #[arg(long, default_value = "5", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// How long an answer is to be; the agents are told
    #[arg(long, default_value = "100", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_words: u32,
    /// What an agent is told each turn
    #[arg(long, value_name = "TEXT|@FILE")]
    pub(crate) template: Option<String>,
}
