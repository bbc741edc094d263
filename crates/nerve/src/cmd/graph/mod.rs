//! `nerve graph`: graphs and their runs.

mod dry_run;
mod outcome;
mod registry;
mod run;
mod runs;
mod source;
mod view;

use anyhow::Result;
use nerve_client::NerveClient;
use nerve_commands::run_display::graph_command;
use nerve_graph::file::json_schema;

use super::server::connect;
use crate::out;
use nerve_cli::graph::{GraphArgs, GraphCommand};

/// Options that all subcommands share.
#[derive(Debug, Clone)]
struct CommonOptions {
    server: String,
    session: Option<String>,
    json: bool,
}

/// Target options with a connection to the server.
#[derive(Debug)]
struct Target {
    client: NerveClient,
    server: String,
    session: Option<String>,
    json: bool,
}

/// Runs the subcommand, which handles Ctrl+C itself if [`GraphCommand::follows_run`].
pub(crate) async fn run(args: GraphArgs) -> Result<()> {
    let common = CommonOptions { server: args.server.server, session: args.session, json: args.server.json };
    match args.command {
        GraphCommand::Run(args) => run::run(&common, *args).await,
        GraphCommand::Resume(args) => run::resume(&common, args).await,
        GraphCommand::Validate(args) => view::validate(&args.files, common.json),
        GraphCommand::Show(args) => view::show(&common, &args).await,
        GraphCommand::List(args) if args.runs => runs::list(&common).await,
        GraphCommand::List(_) => registry::list(&common).await,
        GraphCommand::Status(args) => runs::status(&common, &args).await,
        GraphCommand::Cancel(args) => runs::cancel(&common, &args.id).await,
        GraphCommand::Answer(args) => runs::answer(&common, &args).await,
        GraphCommand::Create(args) => registry::create(&common, &args.file).await,
        GraphCommand::Delete(args) => registry::delete(&common, &args.id).await,
        GraphCommand::Schema => out::json(&json_schema()),
    }
}

impl CommonOptions {
    async fn connect(&self) -> Result<Target> {
        let CommonOptions { server, session, json } = self.clone();
        Ok(Target { client: connect(&server).await?, server, session, json })
    }
}

impl Target {
    fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Returns a `nerve graph` command line for this server.
    fn command(&self, rest: &str) -> String {
        graph_command(&self.server, rest)
    }
}
