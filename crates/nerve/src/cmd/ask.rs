//! `nerve ask`: asks an agent one question and stops it again. Needs no server.

use anyhow::{Context, Result};
use nerve_api::reply::{ExecuteReply, Turn};
use nerve_api::request::ExecuteInput;
use nerve_engine::{Engine, EngineConfig, RequestContext};
use nerve_node::command::{CommandLine, NodeRef, NodeSpec};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::factory::FactoryConfig;
use nerve_node::telemetry::TraceContext;
use nerve_repl::node_command::{execute, trace_tools};
use nerve_repl::prompt;
use nerve_server::paths::ServerPaths;

use crate::exit::{Failure, INTERRUPTED};
use crate::telemetry::TraceExport;
use crate::{out, trace};
use nerve_cli::local_commands::AskArgs;

const NAME: &str = "ask";

/// Asks, prints the answer, and stops the agent in any case.
pub(crate) async fn run(args: AskArgs) -> Result<()> {
    let text = prompt::read(&args.prompt)?;
    let paths = ServerPaths::from_env();
    let trace_export = TraceExport::from_env(NAME, None, |problem| out::warning(problem));
    let engine = Engine::new(EngineConfig {
        nodes: FactoryConfig {
            server: NAME.to_string(),
            history_dir: Some(paths.history.clone()),
            profile_dir: Some(paths.profiles()),
            hook_relay: crate::current_exe::path().ok(),
            ..FactoryConfig::default()
        },
        telemetry: trace_export.telemetry,
        ..EngineConfig::default()
    });
    let waiting = format!("asking {}", args.command);
    let stop = nerve_server::stop_signal();
    let answer = tokio::select! {
        answer = out::progress(&waiting, ask(&engine, &args, text)) => answer,
        () = stop => Err(Failure::new(INTERRUPTED, "interrupted").into()),
    };
    engine.shut_down(false).await;
    let printed = answer.and_then(|data| {
        execute::print(&data, args.json)?;
        execute::check(&data.response)
    });
    trace_export.finish().await;
    printed
}

async fn ask(engine: &Engine, args: &AskArgs, text: String) -> Result<Turn> {
    engine.create(spec(args)?).await.map_err(with_doctor_hint)?;
    let span = trace::context();
    let request = ExecuteInput {
        parser: args.parser,
        timeout: Some(args.timeout.0.into()),
        traceparent: span.as_ref().map(TraceContext::traceparent),
        tracestate: span.as_ref().and_then(TraceContext::tracestate),
        ..ExecuteInput::new(NAME, text)
    };
    match engine.execute_input(request, RequestContext::default()).await.map_err(with_dialog_hint)? {
        ExecuteReply::Turn(turn) => Ok(*turn),
        other => anyhow::bail!("unexpected reply of the engine: {other:?}"),
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
        force: args.force,
        env: trace_tools(args.trace_tools).into_iter().collect(),
        // The node exists only for this question.
        history: false,
        record: false,
        ready_timeout: args.timeout.0.into(),
        response_timeout: args.timeout.0.into(),
        command: Some(CommandLine::Text(args.command.clone())),
        ..NodeSpec::at(node())
    })
}

/// Adds a hint: an agent that cannot be started may not be installed.
fn with_doctor_hint(error: EngineError) -> EngineError {
    match error.hint {
        Some(_) => error,
        None => error.hint("list the installed agents: nerve doctor"),
    }
}

/// Replaces the hint of a blocked agent: its dialog cannot be answered after it was stopped.
fn with_dialog_hint(error: EngineError) -> EngineError {
    match error.kind {
        ErrorKind::Blocked => error
            .hint("use a node on a server to answer dialogs: nerve server start; nerve new NAME --command …"),
        _ => error,
    }
}
