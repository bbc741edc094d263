//! `nerve pattern`: runs a conversation between two nodes of a server.

mod debate;
mod dev_coach;
mod server_node;
mod turn_display;

use std::future::Future;
use std::sync::Arc;

use anyhow::Result;
use nerve_client::NerveClient;
use nerve_commands::node_command::DurationArg;
use nerve_commands::prompt::{self, Prompt};
use nerve_graph::context::RunContext;
use nerve_graph::session::Session;
use nerve_node::NodeHandle;
use nerve_node::error::{EngineError, ErrorKind};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::server_node::ServerNode;
use self::turn_display::TurnDisplay;
use super::server::connect;
use crate::exit::Failure;
use crate::out;
use nerve_cli::pattern::{PatternArgs, PatternCommand};

/// Connection, options and display that both patterns share.
struct LoopContext {
    client: NerveClient,
    session: Option<String>,
    timeout: Option<DurationArg>,
    display: Arc<TurnDisplay>,
    cancellation: CancellationToken,
    run: RunContext,
    json: bool,
}

/// Runs the subcommand.
pub(crate) async fn run(args: PatternArgs) -> Result<()> {
    let client = connect(&args.server.server).await?;
    let cancellation = CancellationToken::new();
    let display = Arc::new(TurnDisplay::new());
    let mut run = RunContext::new(&Session::new("pattern")).with_cancellation(cancellation.clone());
    run.turn.parser = args.parser;
    if display.streams() {
        let display = Arc::clone(&display);
        run = run.with_chunks(Arc::new(move |chunk| display.chunk(chunk)));
    }
    let (session, timeout, json) = (args.session, args.timeout, args.server.json);
    let context = LoopContext { client, session, timeout, display, cancellation, run, json };
    match args.command {
        PatternCommand::DevCoach(args) => dev_coach::run(&context, *args).await,
        PatternCommand::Debate(args) => debate::run(&context, *args).await,
    }
}

impl LoopContext {
    /// Returns a node of the server. Fails if it does not exist, before the other node starts to work.
    async fn node(&self, id: &str, role: &str) -> Result<NodeHandle> {
        let node = self.client.node(id, self.session.as_deref());
        node.info().await?;
        Ok(Arc::new(ServerNode::new(node, role, Arc::clone(&self.display))))
    }

    /// Waits for the end of a loop. The first stop signal cancels the loop and interrupts the turn; the second one stops waiting.
    async fn run_loop<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        // Registered before the work starts.
        let stop = nerve_server::stop_signal();
        tokio::pin!(work);
        tokio::select! {
            done = &mut work => return Ok(done),
            () = stop => {}
        }
        let leave = nerve_server::stop_signal();
        self.cancellation.cancel();
        out::note("interrupting …");
        tokio::select! {
            done = work => Ok(done),
            () = leave => Err(interrupt_failure().into()),
        }
    }

    /// Handles a loop that failed: prints the partial result with --json and returns the error.
    fn fail(&self, error: EngineError, mut partial_result: Value) -> Result<()> {
        if self.json
            && let Some(fields) = partial_result.as_object_mut()
        {
            fields.insert("error".to_string(), Value::from(error.message.as_str()));
            fields.insert("error_type".to_string(), Value::from(error.kind.as_str()));
            out::json(&partial_result)?;
        }
        match error.kind {
            ErrorKind::Cancelled => Err(interrupt_failure().into()),
            _ => Err(Failure::from(error).into()),
        }
    }
}

fn interrupt_failure() -> Failure {
    Failure::interrupted().hint("the nodes keep running, with their conversations")
}

/// Reads a text argument: verbatim, from a file (`@FILE`) or from standard input (`-`).
fn read_text(argument: &str) -> Result<String> {
    match argument.strip_prefix('@') {
        Some(path) => prompt::read(&Prompt { text: None, file: Some(path.into()) }),
        None => prompt::read(&Prompt { text: Some(argument.to_string()), file: None }),
    }
}
