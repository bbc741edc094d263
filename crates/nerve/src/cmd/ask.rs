//! `nerve ask`: one question to an agent that lives as long as the question. No server.

use anyhow::{Context, Result};
use nerve_api::reply::{ExecuteReply, Turn};
use nerve_api::request::ExecuteInput;
use nerve_core::command::{BackendKind, CommandLine, NodeRef, NodeSpec};
use nerve_core::engine::{Engine, EngineConfig, RequestContext};
use nerve_core::error::{EngineError, ErrorKind};
use nerve_core::node::factory::FactoryConfig;
use nerve_core::telemetry::TraceContext;
use nerve_server::paths::Places;

use super::node::execute;
use super::prompt;
use super::record::trace_tools;
use crate::cli::local::AskArgs;
use crate::cli::node::name_of;
use crate::exit::{Failure, INTERRUPTED};
use crate::telemetry::Exporting;
use crate::{out, trace};

const NAME: &str = "ask";

/// Asks, prints the answer, and stops the agent whatever came of it.
pub(crate) async fn run(args: AskArgs) -> Result<()> {
    let text = prompt::read(&args.prompt)?;
    let places = Places::from_env();
    let exporting = Exporting::from_env(NAME, |problem| out::warning(problem));
    let engine = Engine::new(EngineConfig {
        nodes: FactoryConfig {
            server: NAME.to_string(),
            history_dir: Some(places.history.clone()),
            profile_dir: Some(places.profiles()),
            hook_relay: crate::own::path().ok(),
            hosting: None,
            panes: Default::default(),
            proxies: Default::default(),
        },
        telemetry: exporting.telemetry.clone(),
        ..EngineConfig::default()
    });
    let waiting = format!("asking {}", args.command);
    let stop = nerve_server::stop_signal();
    let answer = tokio::select! {
        answer = out::progress(&waiting, ask(&engine, &args, text)) => answer,
        () = stop => Err(Failure::new(INTERRUPTED, "interrupted").into()),
    };
    engine.shut_down(false).await;
    let told = answer.and_then(|data| {
        execute::print(&data, args.json)?;
        execute::check(&data.response)
    });
    exporting.finish().await;
    told
}

async fn ask(engine: &Engine, args: &AskArgs, text: String) -> Result<Turn> {
    engine.create(spec(args)?).await.map_err(without_node)?;
    let span = trace::context();
    let request = ExecuteInput {
        parser: args.parser.map(|parser| name_of(parser).to_string()),
        timeout: Some(args.timeout.0.into()),
        traceparent: span.as_ref().map(TraceContext::traceparent),
        tracestate: span.as_ref().and_then(|span| span.tracestate().map(str::to_string)),
        ..ExecuteInput::new(NAME, text)
    };
    match engine.execute_input(request, RequestContext::default()).await.map_err(without_answer)? {
        ExecuteReply::Turn(turn) => Ok(*turn),
        other => anyhow::bail!("the engine answered with something else: {other:?}"),
    }
}

fn node() -> NodeRef {
    NodeRef { session: None, node: NAME.to_string() }
}

fn spec(args: &AskArgs) -> Result<NodeSpec> {
    let here = std::env::current_dir().context("cannot find the current directory")?;
    Ok(NodeSpec {
        cwd: Some(args.cwd.as_ref().map_or(here.clone(), |cwd| here.join(cwd))),
        profile: args.profile.clone(),
        env: trace_tools(args.trace_tools).into_iter().collect(),
        // The one who asks has the answer; there is no node to look up later.
        history: false,
        record: false,
        ready_timeout: args.timeout.0,
        response_timeout: args.timeout.0,
        ..NodeSpec::new(node(), BackendKind::Pty, CommandLine::Text(args.command.clone()))
    })
}

/// The node of `ask` is none of the user's: an agent that cannot be started may be missing.
fn without_node(error: EngineError) -> EngineError {
    match error.hint {
        Some(_) => error,
        None => error.hint("'nerve doctor' says which agents are found here"),
    }
}

/// A dialog of an agent that is gone with the question cannot be answered any more.
fn without_answer(error: EngineError) -> EngineError {
    match error.kind {
        ErrorKind::Blocked => error.hint(
            "a node on a server can be answered: 'nerve server start', then 'nerve server node create NAME --command …'",
        ),
        _ => error,
    }
}
