//! `nerve server graph`: graphs and their runs.

mod dry_run;
mod event_format;
mod follower;
pub(crate) mod input;
mod keyboard;
pub(crate) mod missing_nodes;
mod outcome;
mod progress;
mod registry;
mod rows;
mod run;
mod runs;
mod screen;
pub(crate) mod source;
mod view;

use anyhow::Result;
use nerve_client::NerveClient;
use nerve_core::graph::file::json_schema;

use super::server::connect;
use crate::cli::graph::{GraphArgs, GraphCommand};
use crate::out;

/// Where a command goes, and how it prints.
#[derive(Debug, Clone)]
struct Asked {
    server: String,
    session: Option<String>,
    json: bool,
}

/// The same with a server that answers.
#[derive(Debug)]
struct Target {
    client: NerveClient,
    server: String,
    session: Option<String>,
    json: bool,
}

/// Does what the subcommand says. Ctrl+C is this command's own business where [`GraphCommand::follows_run`].
pub(crate) async fn run(args: GraphArgs) -> Result<()> {
    let asked = Asked { server: args.server.server, session: args.session, json: args.server.json };
    match args.command {
        GraphCommand::Run(args) => run::run(&asked, *args).await,
        GraphCommand::Resume(args) => run::resume(&asked, args).await,
        GraphCommand::Validate(args) => view::validate(&args.files, asked.json),
        GraphCommand::Show(args) => view::show(&asked, &args).await,
        GraphCommand::List(args) if args.runs => runs::list(&asked).await,
        GraphCommand::List(_) => registry::list(&asked).await,
        GraphCommand::Status(args) => runs::status(&asked, &args).await,
        GraphCommand::Cancel(args) => runs::cancel(&asked, &args.id).await,
        GraphCommand::Answer(args) => runs::answer(&asked, &args).await,
        GraphCommand::Create(args) => registry::create(&asked, &args.file).await,
        GraphCommand::Delete(args) => registry::delete(&asked, &args.id).await,
        GraphCommand::Schema => out::json(&json_schema()),
    }
}

impl Asked {
    async fn connect(&self) -> Result<Target> {
        let Asked { server, session, json } = self.clone();
        Ok(Target { client: connect(&server).await?, server, session, json })
    }
}

impl Target {
    fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// A command of this group to be typed, for this server.
    fn command(&self, rest: &str) -> String {
        let server = if self.server == "default" { String::new() } else { format!(" -s {}", self.server) };
        format!("nerve server graph{server} {rest}")
    }
}
