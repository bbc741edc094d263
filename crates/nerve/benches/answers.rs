//! Latency from the last byte of an agent's answer to the reply: the real Claude Code against the scripted model, and
//! recorded sessions of all agents.
#![expect(clippy::print_stdout, reason = "the report goes to stdout")]

#[path = "support/agent_sessions.rs"]
mod agent_sessions;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
mod support;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nerve_agent::parse::ParserKind;
use nerve_agent::profile::Profiles;
use nerve_api::event::EventKind as Happened;
use nerve_api::request::NodeRef;
use nerve_api::value::{BackendKind, NodeState, ResponseSource};
use nerve_host::backend::Program;
use nerve_host::clock::Clock;
use nerve_host::tap::Tap;
use nerve_node::Node;
use nerve_node::events::Publisher;
use nerve_node::terminal::{AuditLog, Prompt, TerminalNode, TerminalSpec};
use nerve_node::usage_ledger::UsageLedger;
use nerve_testkit::mock_model::{Answer, Script, serve};
use nerve_testkit::{Hermetic, Renderer, find_agent};
use nerve_types::{Event, EventKind, Size, TsNs};
use nerve_vt::terminal::TerminalState;

use support::{Figure, Goal, Report, Samples};

const TURNS: usize = 100;
/// One of this many answers arrives in pieces, with pauses longer than any settle time.
const SLOW_EVERY: usize = 10;
const PAUSE: Duration = Duration::from_millis(400);
const LIMIT: Duration = Duration::from_secs(60);
const GOAL_MS: f64 = 80.0;

#[tokio::main]
async fn main() -> Result<()> {
    if support::is_debug_build() {
        return Ok(());
    }
    let mut report = Report::new(
        "Answers",
        &format!(
            "Live: {TURNS} turns of the real Claude Code on each renderer, the model scripted, on loopback; \
             every {SLOW_EVERY}th answer comes in five pieces with {} ms between them. A tap notes when \
             each byte came from the terminal. *From the last byte*: from the last output before the reply \
             to the reply. *From the last word*: from the output that put the answer's last word on the \
             screen; what Claude itself does between that and its ready prompt is in it. A turn is \
             premature if its last word was not on the screen yet, wrong if the reply's text is not the \
             model's to the letter. The socket's share is in \"Server and command line\" (`PING`).",
            PAUSE.as_millis()
        ),
    );
    if find_agent("claude").is_some() {
        live(&mut report, Renderer::Classic, true, "Claude Code, classic").await?;
        live(&mut report, Renderer::FullScreen, true, "Claude Code, full screen").await?;
        live(&mut report, Renderer::Classic, false, "Claude Code, classic, no hooks").await?;
    } else {
        report.note("Claude Code is not installed here: `cargo xtask setup` installs it.");
    }
    for session in agent_sessions::SESSIONS {
        let played = agent_sessions::play(session)?;
        let what = format!("recorded: {}", session.name);
        let latency = Samples::new(played.latencies);
        report.goal(
            &format!("{what}, from the last byte"),
            &latency.median("ms"),
            Goal::AtMost(session.goal_ms),
        );
        let premature = format!("{what}, premature of {} turns", latency.len());
        report.goal(&premature, &Figure::one(played.premature as f64, ""), Goal::AtMost(0.0));
    }
    report.print();
    Ok(())
}

/// Measures the turns of one renderer.
async fn live(report: &mut Report, renderer: Renderer, hooks: bool, what: &str) -> Result<()> {
    let home = Hermetic::new()?;
    let script =
        (1..=TURNS).fold(Script::default(), |script, turn| script.rule(question(turn), answer(turn)));
    let model = serve("127.0.0.1:0".parse()?, script).await?;
    let watch = Watch::default();
    let clock = Clock::start();
    let publisher = Publisher::new(clock);
    let mut events = publisher.subscribe();
    let node = start(&home, &model.url(), renderer, hooks, watch.clone(), publisher)?;
    node.wait(&[NodeState::Ready], Some(LIMIT)).await?;
    while events.try_recv().is_ok() {}

    let mut screen = TerminalState::new(Size::default());
    let (mut from_byte, mut from_word, mut from_ready) = (Vec::new(), Vec::new(), Vec::new());
    let (mut premature, mut wrong, mut screened) = (0, 0, 0);
    for turn in 1..=TURNS {
        if turn % 10 == 0 {
            eprintln!("{what}: turn {turn} of {TURNS}");
        }
        watch.show(&mut screen, None);
        let response =
            node.execute(prompt(question(turn))).await.map_err(|error| error_with_screen(&error))?;
        let (replied, now) = (Instant::now(), clock.now());
        while let Ok(event) = events.try_recv() {
            if let Happened::NodeReady { .. } = event.kind {
                from_ready.push((now.seconds() - event.emitted_at.seconds()).max(0.0) * 1e3);
            }
        }
        let (last, word) = watch.show(&mut screen, Some((&last_word(turn), replied)));
        if let Some(last) = last {
            let latency = replied.duration_since(last).as_secs_f64() * 1e3;
            if latency > GOAL_MS {
                eprintln!(
                    "{what}: turn {turn} took {latency:.0} ms after its last byte ({})",
                    response.source
                );
            }
            from_byte.push(latency);
        }
        match word {
            Some(word) => from_word.push(replied.duration_since(word).as_secs_f64() * 1e3),
            None => premature += 1,
        }
        if response.text.trim() != text(turn) {
            wrong += 1;
            eprintln!("{what}: turn {turn} was answered {:?} ({})", response.text, response.source);
        }
        screened += usize::from(response.source == ResponseSource::Screen);
    }
    node.stop("measured").await;
    model.shutdown().await?;

    let rows = [("the last byte", Samples::new(from_byte)), ("the last word", Samples::new(from_word))];
    for (from, samples) in rows {
        report.row(&format!("{what}: from {from}"), &samples.median("ms"));
        let p99 = Figure::one(samples.quantile(0.99), "ms");
        report.goal(&format!("{what}: from {from}, p99"), &p99, Goal::AtMost(GOAL_MS));
    }
    let what_for = format!("{what}: of that, from the ready state (the transcript is awaited)");
    report.row(&what_for, &Samples::new(from_ready).median("ms"));
    let counted = |count: usize| Figure::one(count as f64, "");
    report.goal(&format!("{what}: premature of {TURNS}"), &counted(premature), Goal::AtMost(0.0));
    report.goal(&format!("{what}: wrong texts of {TURNS}"), &counted(wrong), Goal::AtMost(0.0));
    report.row(&format!("{what}: texts from the screen, not the transcript"), &counted(screened));
    Ok(())
}

fn start(
    home: &Hermetic,
    model: &str,
    renderer: Renderer,
    hooks: bool,
    watch: Watch,
    events: Publisher,
) -> Result<TerminalNode> {
    let recipe = home.claude(&home.work(), model, renderer)?;
    let env: Vec<(String, String)> = home.env().into_iter().chain(recipe.env).collect();
    // The agent must not inherit the environment of this process.
    let foreign =
        std::env::vars().map(|(name, _)| name).filter(|name| !env.iter().any(|(own, _)| own == name));
    let env_remove = foreign.collect();
    let program =
        Program { argv: recipe.argv, cwd: Some(home.work()), env: env.into_iter().collect(), env_remove };
    let spec = TerminalSpec {
        proxy: None,
        ledger: UsageLedger::unlimited(),
        node: NodeRef { session: None, node: "claude".into() },
        program,
        size: Size::default(),
        profile: Profiles::builtin().get("claude").context("no profile for Claude Code")?,
        parser: ParserKind::Claude,
        ready_timeout: LIMIT,
        response_timeout: LIMIT,
        audit_log: AuditLog::disabled(),
        adopted: None,
        answers_queries: true,
        events,
        kind: BackendKind::Pty,
        log_start: false,
        conversation_id: None,
        agent_version: None,
    };
    // With hooks as a server's nodes have them.
    let relay = hooks.then(|| Path::new(env!("CARGO_BIN_EXE_nerve")));
    Ok(TerminalNode::start(spec, relay, vec![Box::new(watch)])?)
}

fn prompt(text: String) -> Prompt {
    Prompt {
        text: text.into(),
        parser: None,
        stream: false,
        tag: None,
        timeout: Some(LIMIT),
        fail_if_busy: true,
        at_dialog: Default::default(),
        detach_on_timeout: false,
        trace: None,
        origin: Default::default(),
    }
}

fn error_with_screen(error: &nerve_node::error::EngineError) -> anyhow::Error {
    anyhow::anyhow!("{error}\n{}", error.screen.as_deref().unwrap_or_default())
}

fn question(turn: usize) -> String {
    format!("Question {turn:03}.")
}

/// Returns the last word of an answer. The question does not contain it.
fn last_word(turn: usize) -> String {
    format!("END-OF-{turn:03}")
}

fn text(turn: usize) -> String {
    pieces(turn).concat()
}

fn pieces(turn: usize) -> Vec<String> {
    ["The answer ", "is short and ", "has a few words; ", "the last is "]
        .map(String::from)
        .into_iter()
        .chain([last_word(turn)])
        .collect()
}

fn answer(turn: usize) -> Answer {
    if turn.is_multiple_of(SLOW_EVERY) { Answer::slow(PAUSE, pieces(turn)) } else { Answer::text(text(turn)) }
}

/// A tap that collects terminal output with times.
#[derive(Clone, Default)]
struct Watch(Arc<Mutex<Chunks>>);

/// Output and its times.
type Chunks = Vec<(Instant, Vec<u8>)>;

impl Tap for Watch {
    fn name(&self) -> &str {
        "watch"
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), String> {
        if let EventKind::Output(bytes) = event.kind {
            let mut chunks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            chunks.push((Instant::now(), bytes.to_vec()));
        }
        Ok(())
    }
}

impl Watch {
    /// Applies the output since the last call to `screen`. With a word and a deadline, returns the times of the last output before the
    /// deadline and of the word's first appearance.
    fn show(
        &self,
        screen: &mut TerminalState,
        look: Option<(&str, Instant)>,
    ) -> (Option<Instant>, Option<Instant>) {
        let chunks = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let (mut last, mut found) = (None, None);
        for (at, bytes) in chunks {
            screen.process_data(TsNs(0), &bytes);
            let Some((word, _)) = look.filter(|(_, until)| at <= *until) else { continue };
            last = Some(at);
            if found.is_none() && screen.tail(60).join("\n").contains(word) {
                found = Some(at);
            }
        }
        (last, found)
    }
}
