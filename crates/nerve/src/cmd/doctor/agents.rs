//! `nerve doctor --agents`: starts each agent that is found, looks what it comes to, and ends it. Nothing is typed into it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nerve_api::reply::NodeExplanation;
use nerve_api::request::{ExplainNode, Seconds, States, WaitNode};
use nerve_core::command::{BackendKind, CommandLine, NodeRef, NodeSpec};
use nerve_core::engine::{Engine, EngineConfig, RequestContext};
use nerve_core::error::EngineError;
use nerve_core::node::factory::FactoryConfig;
use nerve_server::paths::Places;
use serde_json::{Value, json};

use super::{find, version};
use crate::exit::{FAILED, Failure, INTERRUPTED};
use crate::out;

/// Said before anything is started.
const NOTE: &str = "starts each agent found in PATH once, in an empty folder, with your own HOME and settings; \
                    types nothing, answers no dialog, asks no model, and ends it again";

/// The agents there are profiles for, with the arguments of a start that leaves nothing behind: without its own, a daemon of Codex
/// outlives the terminal. A version that does not know them is started without.
const AGENTS: [(&str, &[&str]); 4] =
    [("claude", &[]), ("codex", &["--no-daemon"]), ("gemini", &[]), ("opencode", &[])];

/// What came of one agent.
struct Tried {
    name: &'static str,
    program: PathBuf,
    version: Option<String>,
    profile: String,
    /// `ready`, `blocked (trust)` …; what went wrong, if it could not be driven.
    state: String,
    evidence: String,
    took: Duration,
    driven: bool,
}

/// Tries all of them, one after the other. `limit` is for each.
pub(super) async fn run(as_json: bool, limit: Duration) -> Result<()> {
    out::note(NOTE);
    let work = || async {
        let mut tried = Vec::new();
        for (name, arguments) in AGENTS {
            if let Some(program) = find(name, std::env::var_os("PATH").as_deref()) {
                tried.push(
                    out::progress(&format!("starting {name}"), attempt(name, program, arguments, limit))
                        .await?,
                );
            }
        }
        anyhow::Ok(tried)
    };
    let tried = work().await?;
    if as_json {
        let list: Vec<Value> = tried.iter().map(as_value).collect();
        out::json(&json!({ "ok": tried.iter().all(|tried| tried.driven), "note": NOTE, "agents": list }))?;
    } else {
        print(&tried)?;
    }
    let failed: Vec<&str> = tried.iter().filter(|tried| !tried.driven).map(|tried| tried.name).collect();
    if failed.is_empty() {
        return Ok(());
    }
    let message = format!("found, but could not be driven: {}", failed.join(", "));
    Err(Failure::new(FAILED, message)
        .hint("start it by hand and see what it shows; docs/agents.md says which versions are known")
        .into())
}

fn print(tried: &[Tried]) -> Result<()> {
    if tried.is_empty() {
        return out::line("no agent is found in PATH; 'nerve doctor' says how to get one");
    }
    for agent in tried {
        let mark = out::mark(agent.driven, true);
        let version = agent.version.as_deref().unwrap_or("version unknown");
        let (name, state, took) = (agent.name, &agent.state, agent.took.as_secs_f64());
        out::line(format_args!(
            "{mark} {name:<10} {state:<20} {took:>5.1} s   {version}, profile {}",
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

fn as_value(agent: &Tried) -> Value {
    json!({
        "name": agent.name, "program": agent.program, "version": agent.version, "profile": agent.profile,
        "state": agent.state, "evidence": agent.evidence, "seconds": agent.took.as_secs_f64(), "ok": agent.driven,
    })
}

/// Starts one agent; once more without the arguments, if with them it ends at once.
async fn attempt(name: &'static str, program: PathBuf, arguments: &[&str], limit: Duration) -> Result<Tried> {
    let version = version(&program).await;
    let tried = start(name, &program, arguments, limit).await?;
    let tried = match tried.state.as_str() {
        "stopped" if !arguments.is_empty() => start(name, &program, &[], limit).await?,
        _ => tried,
    };
    Ok(Tried { version, ..tried })
}

async fn start(name: &'static str, program: &Path, arguments: &[&str], limit: Duration) -> Result<Tried> {
    let folder =
        tempfile::Builder::new().prefix("nerve-doctor-").tempdir().context("cannot make a folder")?;
    let engine = Engine::new(EngineConfig {
        nodes: FactoryConfig {
            server: "doctor".to_string(),
            history_dir: Some(folder.path().join("history")),
            profile_dir: Some(Places::from_env().profiles()),
            ..FactoryConfig::default()
        },
        ..EngineConfig::default()
    });
    let work = folder.path().join("work");
    std::fs::create_dir(&work).with_context(|| format!("cannot make {}", work.display()))?;
    let node = NodeRef { session: None, node: name.to_string() };
    let argv = [program.to_string_lossy().into_owned()].into_iter();
    let argv = argv.chain(arguments.iter().map(ToString::to_string)).collect();
    let spec = NodeSpec {
        cwd: Some(work),
        history: false,
        record: false,
        ready_timeout: limit,
        ..NodeSpec::new(node.clone(), BackendKind::Pty, CommandLine::Argv(argv))
    };
    let began = Instant::now();
    let stop = nerve_server::stop_signal();
    let seen = tokio::select! {
        seen = watch(&engine, spec, &node, limit) => Ok(seen),
        () = stop => Err(Failure::new(INTERRUPTED, "interrupted")),
    };
    let took = began.elapsed();
    // Whatever came of it, it must not stay behind.
    engine.shut_down(false).await;
    let seen = seen?;
    let tried = Tried {
        name,
        program: program.to_path_buf(),
        version: None,
        profile: "?".to_string(),
        state: "failed".to_string(),
        evidence: String::new(),
        took,
        driven: false,
    };
    Ok(match seen {
        Ok(why) => judged(tried, &why),
        Err(error) => Tried { evidence: error.message, ..tried },
    })
}

/// Waits until it is in a state that says something.
async fn watch(
    engine: &Engine,
    spec: NodeSpec,
    node: &NodeRef,
    limit: Duration,
) -> Result<NodeExplanation, EngineError> {
    engine.create(spec).await?;
    let until = ["ready", "blocked", "suspended", "stopped"];
    let wait = WaitNode {
        node_id: node.node.clone(),
        session_id: node.session.clone(),
        until: States(until.map(str::to_string).into()),
        timeout: Some(Seconds::from(limit)),
    };
    // Of one that comes to nothing in time, its state says that.
    let _ = engine.wait_node(wait, RequestContext::default()).await;
    let explain = ExplainNode::new(&*node.node, node.session.clone());
    engine.explain_node(explain, RequestContext::default()).await
}

/// A known state is one that nerve can tell its user what to do about.
fn judged(tried: Tried, why: &NodeExplanation) -> Tried {
    let fact = |name: &str| why.metadata.get(name).and_then(Value::as_str).map(str::to_string);
    let kind = fact("blocked").filter(|_| why.state == "blocked");
    let driven = match why.state.as_str() {
        "ready" | "suspended" => true,
        "blocked" => kind.as_deref().is_some_and(|kind| kind != "other"),
        _ => false,
    };
    let state = why.state.as_str();
    Tried {
        profile: fact("profile").unwrap_or(tried.profile),
        state: kind.map_or_else(|| state.to_string(), |kind| format!("{state} ({kind})")),
        evidence: match last_row(&why.screen).filter(|_| !driven) {
            Some(row) => format!("{}: {}; its last words: {row}", why.source, why.evidence),
            None => format!("{}: {}", why.source, why.evidence),
        },
        driven,
        ..tried
    }
}

fn last_row(screen: &str) -> Option<String> {
    let row = screen.lines().rev().find(|row| !row.trim().is_empty())?;
    Some(out::preview(row.trim(), 100))
}
