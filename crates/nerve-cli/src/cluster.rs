//! `nerve cluster`: membership of this machine in a cluster.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

/// Arguments of `nerve cluster`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Needs a nerve that was built with '--features cluster'. The configuration is ~/.config/nerve/cluster.toml, or $NERVE_HOME/cluster.toml.

EXAMPLES
  nerve cluster init team --broker nats://127.0.0.1:4222 --name laptop
  nerve cluster status")]
pub struct ClusterArgs {
    #[command(subcommand)]
    pub command: ClusterCommand,
    /// Print as JSON
    #[arg(short, long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Create a cluster at a broker, and join it with this machine
    Init(InitArgs),
    /// Join a cluster with this machine
    #[command(after_long_help = "\
Checks the broker and the name, and saves the configuration with mode 0600. A running server joins at once, a later one when it starts.

EXAMPLES
  nerve cluster join team --broker nats://127.0.0.1:4222 --name laptop
  nerve cluster join team --name build --broker tls://nats.example.com:4222 \\
      --credentials ~/.config/nerve/nats.toml")]
    Join(JoinArgs),
    /// Leave the cluster; the nodes of this machine stay
    #[command(after_long_help = "EXAMPLES\n  nerve cluster leave")]
    Leave,
    /// Remove a machine that no longer exists, so that its name is free
    #[command(after_long_help = "\
A machine keeps its name while it is away. Steps that ran there stay in doubt until you decide on them.

EXAMPLES
  nerve cluster remove build")]
    Remove(RemoveArgs),
    /// List the members, and show the state of this machine
    #[command(after_long_help = "\
Reads the members from the broker. If it does not reply, prints the last members that this machine's server saw; in JSON they are in
'server.members', and 'members' is null. Exits with 1 unless this machine is a member.

EXAMPLES
  nerve cluster status
  nerve cluster status --json | jq '.members[]?.machine_name'")]
    Status,
    /// List the runs of the cluster, or show one of them
    #[command(after_long_help = "\
Shows the machine of each step, and the reason for its choice. Needs no server.

EXAMPLES
  nerve cluster runs
  nerve cluster runs r-0abcdefgh-123456 --json | jq .results")]
    Runs(RunsArgs),
    /// Decide on a step whose machine was lost while it ran
    #[command(after_long_help = "\
A step with 'on_host_lost: wait' stays in doubt until its machine returns, or until you decide. 'retry' runs it again on a member that
matches, so that it may run more than once; 'fail' fails it, and the run.

EXAMPLES
  nerve cluster decide r-0abcdefgh-123456 build retry")]
    Decide(DecideArgs),
    /// Cancel a run of the cluster
    #[command(after_long_help = "\
No more steps begin. Steps that run are interrupted; a machine that is away interrupts its step when it is back. Completed steps are kept:
'nerve cluster resume' continues after them.

EXAMPLES
  nerve cluster cancel r-0abcdefgh-123456")]
    Cancel(RunArgs),
    /// Resume a failed or cancelled run of the cluster; completed steps are not repeated
    #[command(after_long_help = "\
The exit codes are those of 'nerve graph run'. Ctrl+C ends only the command.

EXAMPLES
  nerve cluster resume r-0abcdefgh-123456")]
    Resume(ResumeArgs),
}

/// Arguments of `nerve cluster cancel`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Id of the run
    pub run: String,
}

/// Arguments of `nerve cluster resume`.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Id of the run
    pub run: String,
    /// Print the run's id and return at once
    #[arg(long = "no-wait")]
    pub no_wait: bool,
}

/// Arguments of `nerve cluster remove`.
#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// Name in 'nerve cluster status'
    pub name: String,
}

/// Arguments of `nerve cluster runs`.
#[derive(Debug, Args)]
pub struct RunsArgs {
    /// Run to show [default: list all]
    pub run: Option<String>,
}

/// Arguments of `nerve cluster decide`.
#[derive(Debug, Args)]
pub struct DecideArgs {
    /// Id of the run
    pub run: String,
    /// Id of the step
    pub step: String,
    /// Decision
    #[arg(value_enum)]
    pub decision: DoubtDecision,
}

/// A decision on a step in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DoubtDecision {
    /// Run it again on a member that matches
    Retry,
    /// Fail it
    Fail,
}

/// Arguments of `nerve cluster init`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Creates the cluster's streams at the broker, unless they exist with the same settings. The other machines then join it.

EXAMPLES
  nerve cluster init team --broker nats://127.0.0.1:4222 --name laptop
  nerve cluster init team --name hub --replicas 3 --broker tls://n1:4222 \\
      --broker tls://n2:4222 --broker tls://n3:4222")]
pub struct InitArgs {
    #[command(flatten)]
    pub join: JoinArgs,
    /// Brokers that store each message: 1, 3 or 5
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_replicas)]
    pub replicas: u8,
}

/// The cluster, its broker, and this machine.
#[derive(Debug, Args)]
pub struct JoinArgs {
    /// Cluster: 1-32 of a-z, 0-9 and '-'
    pub cluster: String,
    /// Broker: nats://HOST:PORT or tls://HOST:PORT; repeat for several
    #[arg(long = "broker", value_name = "URL", required = true)]
    pub brokers: Vec<String>,
    /// Name of this machine in the cluster
    #[arg(long, value_name = "NAME")]
    pub name: String,
    /// File of mode 0600 with the user and password of the broker
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub credentials: Option<PathBuf>,
    /// PEM file of the certificate authorities to trust, for tls:// [default: the usual authorities]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ca: Option<PathBuf>,
    /// PEM file of this machine's certificate
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "key")]
    pub certificate: Option<PathBuf>,
    /// PEM file of its key
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "certificate")]
    pub key: Option<PathBuf>,
    /// Seconds after which a lost machine is no longer a member
    #[arg(long, value_name = "SECONDS", default_value_t = 15)]
    pub lease: u64,
    /// Steps of runs that this machine executes at the same time; 0 accepts none
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub slots: u32,
    /// Label that steps can require; repeat for several
    #[arg(long = "label", value_name = "LABEL")]
    pub labels: Vec<String>,
    /// Server of this machine that is the member
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub server: String,
}

fn parse_replicas(text: &str) -> Result<u8, String> {
    match text.parse() {
        Ok(replicas @ (1 | 3 | 5)) => Ok(replicas),
        _ => Err("must be 1, 3 or 5".to_string()),
    }
}
