//! `nerve ask`: asks an agent one question and stops it again. Needs no server.

use std::io::IsTerminal;

use anyhow::{Context, Result};
use nerve_api::reply::{AnswerReply, ExecuteReply, Turn};
use nerve_api::request::{AnswerNode, CommandLine, ExecuteInput, NodeChoice, NodeRef, NodeSpec};
use nerve_commands::node_command::{execute, trace_tools};
use nerve_commands::prompt;
use nerve_engine::{Engine, EngineConfig, RequestContext};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::factory::FactoryConfig;
use nerve_node::telemetry::TraceContext;
use nerve_server::paths::ServerPaths;
use nerve_telemetry::TraceExport;

use crate::exit::Failure;
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
            history_dir: Some(paths.data.history.clone()),
            profile_dir: Some(paths.data.profiles.clone()),
            hook_relay: crate::current_exe::path().ok(),
            ..FactoryConfig::default()
        },
        telemetry: trace_export.telemetry,
        ..EngineConfig::default()
    });
    let stop = nerve_server::stop_signal();
    let answer = tokio::select! {
        answer = ask(&engine, &args, &text) => answer,
        () = stop => Err(Failure::interrupted().into()),
    };
    engine.shut_down(false).await;
    let result = answer.and_then(|data| {
        execute::print(&data, args.json)?;
        execute::check(&data.response)
    });
    trace_export.finish().await;
    result
}

/// Runs the turn. On a terminal, the user answers the agent's dialogs.
async fn ask(engine: &Engine, args: &AskArgs, text: &str) -> Result<Turn> {
    let waiting = format!("asking {}", args.command);
    out::progress(&waiting, engine.create(spec(args)?)).await.map_err(with_doctor_hint)?;
    // Dialogs are shown on standard error, so standard output may be a pipe.
    let can_answer = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    loop {
        let mut outcome = out::progress(&waiting, send(engine, args, text)).await.map(Some);
        while let Err(error) = &outcome
            && error.kind == ErrorKind::Blocked
            && can_answer
        {
            let Some(choice) = read_choice(error).await else { break };
            outcome = out::progress(&waiting, answer(engine, args, choice)).await;
        }
        // No turn has ended if the dialog came before the prompt, which was not sent.
        if let Some(turn) = outcome.map_err(with_dialog_hint)? {
            return Ok(turn);
        }
    }
}

/// Sends the prompt and waits for the answer.
async fn send(engine: &Engine, args: &AskArgs, text: &str) -> Result<Turn, EngineError> {
    let span = trace::context();
    let request = ExecuteInput {
        parser: args.parser,
        timeout: Some(args.timeout.0.into()),
        traceparent: span.as_ref().map(TraceContext::traceparent),
        tracestate: span.as_ref().and_then(TraceContext::tracestate),
        ..ExecuteInput::new(NAME, text)
    };
    match engine.execute_input(request, RequestContext::default()).await? {
        ExecuteReply::Turn(turn) => Ok(*turn),
        other => Err(EngineError::internal(format!("unexpected reply of the engine: {other:?}"))),
    }
}

/// Answers a dialog and waits for the end of the turn that it interrupted. Returns `None` if it interrupted none. An invalid
/// choice is an error of the kind Blocked, so that the user chooses again.
async fn answer(engine: &Engine, args: &AskArgs, choice: NodeChoice) -> Result<Option<Turn>, EngineError> {
    let request = AnswerNode {
        node_id: NAME.to_string(),
        choice: Some(choice),
        wait: true,
        timeout: Some(args.timeout.0.into()),
        ..AnswerNode::default()
    };
    match engine.answer_node(request, RequestContext::default()).await {
        Ok(AnswerReply::Turn(turn)) => Ok(Some(*turn)),
        Ok(AnswerReply::Done(_)) => Ok(None),
        Err(error) if error.kind == ErrorKind::InvalidRequest => {
            out::note(&error.message);
            Err(EngineError { kind: ErrorKind::Blocked, screen: None, ..error })
        }
        Err(error) => Err(error),
    }
}

/// Shows a dialog and reads the choice of the user: its number or a part of its label. Returns `None` at the end of input.
async fn read_choice(error: &EngineError) -> Option<NodeChoice> {
    out::dialog(error.screen.as_deref().unwrap_or_default(), &error.choices);
    loop {
        out::note_piece("choice: ");
        // A thread of its own: the runtime would wait for it at the end of the process.
        let (sender, line) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = std::io::stdin().read_line(&mut line);
            let _ = sender.send(read.ok().filter(|bytes| *bytes > 0).map(|_| line));
        });
        let line = line.await.ok().flatten()?;
        match (line.trim(), line.trim().parse()) {
            ("", _) => {}
            (_, Ok(number)) => return Some(NodeChoice::Number(number)),
            (label, Err(_)) => return Some(NodeChoice::Label(label.to_string())),
        }
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
        ErrorKind::Blocked => error.hint(
            "run 'nerve ask' in a terminal to answer dialogs, or use a node on a server: nerve new NAME",
        ),
        _ => error,
    }
}
