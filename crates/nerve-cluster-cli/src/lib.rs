//! `nerve cluster` and `nerve graph run --cluster`, and the part of a server that makes its machine a member. Only in a build with the
//! feature `cluster`.
#![warn(missing_docs)]

mod drain;
mod graph;
mod membership;
mod run_view;
mod runs;
mod server_membership;
mod status;

use anyhow::Result;
use nerve_cli::cluster::{ClusterArgs, ClusterCommand};
use nerve_commands::failure::{Failure, exit_code_of};
use nerve_commands::out;
use nerve_member::{ClusterRuns, Creation, MemberError, MemberPaths, StreamSettings};
use nerve_server::paths::ServerPaths;

pub use drain::{drain, undrain};
pub use graph::run_graph;
pub use membership::diagnose;
pub use server_membership::ServerMembership;

/// Runs a subcommand of `nerve cluster`.
///
/// # Errors
/// [`Failure`] with an exit code and a hint.
pub async fn run(args: ClusterArgs) -> Result<()> {
    let (paths, json) = (ServerPaths::from_env(), args.json);
    let commands = membership::commands(&paths);
    match args.command {
        ClusterCommand::Init(init) => {
            let settings = StreamSettings { replicas: init.replicas, max_bytes: None };
            membership::join(&paths, &commands, init.join, Creation::Create(settings), json).await
        }
        ClusterCommand::Join(args) => membership::join(&paths, &commands, args, Creation::Refuse, json).await,
        ClusterCommand::Leave => membership::leave(&commands, json).await,
        ClusterCommand::Remove(args) => membership::remove(&commands, &args.name, json).await,
        ClusterCommand::Status => {
            let status = out::progress("asking the broker", commands.status()).await.map_err(failure)?;
            status::print(&status, json)
        }
        ClusterCommand::Runs(args) => runs::show(&open_runs(&paths).await?, args.run.as_deref(), json).await,
        ClusterCommand::Decide(args) => runs::decide(&open_runs(&paths).await?, &args, json).await,
        ClusterCommand::Cancel(args) => runs::cancel(&open_runs(&paths).await?, &args.run, json).await,
        ClusterCommand::Resume(args) => graph::resume(&open_runs(&paths).await?, &args, json).await,
    }
}

/// Connects to the broker of this machine's cluster.
async fn open_runs(paths: &ServerPaths) -> Result<ClusterRuns, Failure> {
    let paths = MemberPaths::new(&paths.config, &paths.state);
    out::progress("asking the broker", ClusterRuns::open(&paths)).await.map_err(failure)
}

/// Converts an error to its exit code and hint.
fn failure(error: MemberError) -> Failure {
    let kind = error.kind();
    let failure = Failure { error_type: kind, ..Failure::new(exit_code_of(kind), error.to_string()) };
    failure.without_model().hint(error.hint())
}
