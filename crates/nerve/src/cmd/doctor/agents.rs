//! `nerve doctor --agents`: starts each installed agent, reports the state it reaches, and stops it. Types nothing.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nerve_api::reply::NodeExplanation;
use nerve_api::request::{CommandLine, ExplainNode, NodeRef, NodeSpec, Seconds, States, WaitNode};
use nerve_api::value::NodeState;
use nerve_engine::{Engine, EngineConfig, RequestContext};
use nerve_node::error::EngineError;
use nerve_node::factory::FactoryConfig;
use nerve_server::paths::ServerPaths;
use serde_json::{Value, json};

use super::programs::{find_program, known_agents, read_version};
use crate::exit::{FAILED, Failure};
use crate::out;

/// Printed before any agent is started.
const NOTE: &str = "starting each agent found in PATH once, in an empty folder, with your own HOME and settings; \
                    typing nothing, answering no dialog, sending no model request";

/// Returns arguments that prevent leftover processes: Codex would leave a daemon behind. Versions that reject the arguments
/// are started without them.
fn arguments_of(agent: &str) -> &'static [&'static str] {
    if agent == "codex" { &["--no-daemon"] } else { &[] }
}

/// Result of one agent.
struct AgentResult {
    name: String,
    program: PathBuf,
    version: Option<String>,
    profile: String,
    /// `ready`, `blocked` …, or the failure.
    state: String,
    /// Kind of the dialog that blocks the agent.
    dialog: Option<String>,
    evidence: String,
    duration: Duration,
    is_driven: bool,
}

/// Tries all agents one after the other, each with the time limit `limit`.
pub(super) async fn run(as_json: bool, limit: Duration) -> Result<()> {
    out::note(NOTE);
    let mut results = Vec::new();
    for (name, _) in known_agents() {
        if let Some(program) = find_program(&name, std::env::var_os("PATH").as_deref()) {
            let attempt = try_agent(&name, program, arguments_of(&name), limit);
            results.push(out::progress(&format!("starting {name}"), attempt).await?);
        }
    }
    let failed: Vec<&str> =
        results.iter().filter(|result| !result.is_driven).map(|result| result.name.as_str()).collect();
    if as_json {
        let list: Vec<Value> = results.iter().map(as_value).collect();
        out::json(&json!({ "ok": failed.is_empty(), "note": NOTE, "agents": list }))?;
    } else {
        print(&results)?;
    }
    if failed.is_empty() {
        return Ok(());
    }
    let message = format!("found, but could not be driven: {}", failed.join(", "));
    Err(Failure::new(FAILED, message)
        .hint("start it by hand and look at its screen; docs/agents.md lists the supported versions")
        .into())
}

fn print(results: &[AgentResult]) -> Result<()> {
    if results.is_empty() {
        return out::line("no agent found in PATH; 'nerve doctor' shows how to install one");
    }
    for agent in results {
        let mark = out::mark(agent.is_driven, true);
        let version = agent.version.as_deref().unwrap_or("version unknown");
        let state = match &agent.dialog {
            Some(dialog) => format!("{}: {dialog}", agent.state),
            None => agent.state.clone(),
        };
        let (name, duration) = (&agent.name, agent.duration.as_secs_f64());
        out::line(format_args!(
            "{mark} {name:<10} {state:<20} {duration:>5.1} s   {version}, profile {}",
            agent.profile
        ))?;
        out::line(format_args!(
            "     {}{}: {}{:#}",
            out::FAINT,
            agent.program.display(),
            agent.evidence,
            out::FAINT
        ))?;
    }
    Ok(())
}

fn as_value(agent: &AgentResult) -> Value {
    json!({
        "name": agent.name, "program": agent.program, "version": agent.version, "profile": agent.profile,
        "state": agent.state, "dialog": agent.dialog, "evidence": agent.evidence, "duration_ms": nerve_types::millis(agent.duration), "ok": agent.is_driven,
    })
}

/// Starts one agent. Repeats without the arguments if it stops immediately.
async fn try_agent(name: &str, program: PathBuf, arguments: &[&str], limit: Duration) -> Result<AgentResult> {
    let version = read_version(&program).await;
    let result = start_agent(name, &program, arguments, limit).await?;
    let result = match result.state.as_str() {
        "stopped" if !arguments.is_empty() => start_agent(name, &program, &[], limit).await?,
        _ => result,
    };
    Ok(AgentResult { version, ..result })
}

async fn start_agent(name: &str, program: &Path, arguments: &[&str], limit: Duration) -> Result<AgentResult> {
    let folder =
        tempfile::Builder::new().prefix("nerve-doctor-").tempdir().context("cannot create a folder")?;
    let engine = Engine::new(EngineConfig {
        nodes: FactoryConfig {
            server: "doctor".to_string(),
            history_dir: Some(folder.path().join("history")),
            profile_dir: Some(ServerPaths::from_env().data.profiles),
            ..FactoryConfig::default()
        },
        ..EngineConfig::default()
    });
    let work = folder.path().join("work");
    std::fs::create_dir(&work).with_context(|| format!("cannot create {}", work.display()))?;
    let node = NodeRef { session: None, node: name.to_string() };
    let argv = [program.to_string_lossy().into_owned()].into_iter();
    let argv = argv.chain(arguments.iter().map(ToString::to_string)).collect();
    let spec = NodeSpec {
        cwd: Some(work),
        history: false,
        record: false,
        ready_timeout: limit.into(),
        command: Some(CommandLine::Argv(argv)),
        ..NodeSpec::at(node.clone())
    };
    let start = Instant::now();
    let stop = nerve_server::stop_signal();
    let outcome = tokio::select! {
        outcome = watch(&engine, spec, &node, limit) => Ok(outcome),
        () = stop => Err(Failure::interrupted()),
    };
    let duration = start.elapsed();
    // Stops the agent in any case.
    engine.shut_down(false).await;
    let outcome = outcome?;
    let result = AgentResult {
        name: name.to_string(),
        program: program.to_path_buf(),
        version: None,
        profile: "?".to_string(),
        state: "failed".to_string(),
        dialog: None,
        evidence: String::new(),
        duration,
        is_driven: false,
    };
    Ok(match outcome {
        Ok(explanation) => evaluate(result, &explanation),
        Err(error) => AgentResult { evidence: error.message, ..result },
    })
}

/// Waits until the agent has reached a stable state.
async fn watch(
    engine: &Engine,
    spec: NodeSpec,
    node: &NodeRef,
    limit: Duration,
) -> Result<NodeExplanation, EngineError> {
    engine.create(spec).await?;
    let until = vec![NodeState::Ready, NodeState::Blocked, NodeState::Suspended, NodeState::Stopped];
    let wait = WaitNode {
        node_id: node.node.clone(),
        session_id: node.session.clone(),
        until: States(until),
        timeout: Some(Seconds::from(limit)),
    };
    // After a timeout the state explains the failure.
    let _ = engine.wait_node(wait, RequestContext::default()).await;
    let explain = ExplainNode::new(&*node.node, node.session.clone());
    engine.explain_node(explain, RequestContext::default()).await
}

/// Evaluates the state. A known dialog counts as driven, because nerve can report how to answer it.
fn evaluate(result: AgentResult, explanation: &NodeExplanation) -> AgentResult {
    let metadata = |name: &str| explanation.metadata.known_text(name).map(str::to_string);
    let dialog = metadata("blocked").filter(|_| explanation.state == NodeState::Blocked);
    let is_driven = match explanation.state {
        NodeState::Ready | NodeState::Suspended => true,
        NodeState::Blocked => dialog.as_deref().is_some_and(|kind| kind != "other"),
        _ => false,
    };
    AgentResult {
        profile: metadata("profile").unwrap_or(result.profile),
        state: explanation.state.to_string(),
        dialog,
        evidence: match last_row(&explanation.screen).filter(|_| !is_driven) {
            Some(row) => format!("{}: {}; last row: {row}", explanation.source, explanation.evidence),
            None => format!("{}: {}", explanation.source, explanation.evidence),
        },
        is_driven,
        ..result
    }
}

fn last_row(screen: &str) -> Option<String> {
    let row = screen.lines().rev().find(|row| !row.trim().is_empty())?;
    Some(out::preview(row.trim(), 100))
}
