//! An engine with one agent in a terminal, and the scripted model.

use std::io;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nerve_api::reply::{AnswerReply, TurnResponse};
use nerve_api::request::{AnswerNode, ExecuteInput, NodeChoice, States, WaitNode};
use nerve_engine::{Engine, EngineConfig};
use nerve_node::command::{
    BackendKind, CommandLine, EngineEvent, EventKind, NodeRef, NodeSpec, Response, StateName,
};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::factory::FactoryConfig;
use nerve_record::activity::Activity;
use nerve_testkit::mock_model::{Answer, MockModel, Script, serve};
use nerve_testkit::{AgentRecipe, Hermetic, wait_until_async};
use nerve_types::Size;
use tokio::sync::broadcast;

use super::Variant;

/// A prompt with this word gets an answer that takes a minute.
pub(super) const ENDLESS: &str = "ENDLESS";
/// The beginning of that answer.
pub(super) const ENDLESS_START: &str = "One word after the other";
/// A prompt with this word is answered with [`PASTE_ANSWER`].
pub(super) const PASTE_MARKER: &str = "PASTED-ROWS";
pub(super) const PASTE_ANSWER: &str = "I have got all rows.";

pub(super) struct Harness {
    pub(super) engine: Engine,
    pub(super) model: MockModel,
    pub(super) home: Hermetic,
    node: NodeRef,
    recipe: AgentRecipe,
    events: broadcast::Receiver<EngineEvent>,
    /// Timeout of each step.
    pub(super) step_timeout: Duration,
}

impl Harness {
    /// Creates the model, the home and the engine; does not start the agent.
    pub(super) async fn new(variant: &Variant, step_timeout: Duration) -> io::Result<Harness> {
        let home = Hermetic::new()?;
        std::fs::write(home.work().join("notes.txt"), "alpha note\nbeta note\n")?;
        let words = std::iter::once(ENDLESS_START.to_string()).chain((0..600).map(|n| format!(" {n}")));
        let script = Script::default()
            .rule(ENDLESS, Answer::slow(Duration::from_millis(100), words.collect()))
            .rule(PASTE_MARKER, Answer::text(PASTE_ANSWER));
        let model = serve(([127, 0, 0, 1], 0).into(), script).await?;
        let recipe = (variant.recipe)(&home, &model.url())?;
        let engine = Engine::new(EngineConfig {
            nodes: FactoryConfig {
                server: "trial".into(),
                history_dir: Some(home.root().join("history")),
                ..FactoryConfig::default()
            },
            ..EngineConfig::default()
        });
        let events = engine.subscribe();
        let node = NodeRef { session: None, node: variant.agent.into() };
        Ok(Harness { engine, model, home, node, recipe, events, step_timeout })
    }

    /// Returns the version reported by the program: its first number of three parts.
    pub(super) async fn version(&self) -> Option<String> {
        // Without the recipe's arguments, which conflict with `--version`.
        let mut command = self.home.command(self.recipe.argv.first()?);
        command.envs(self.recipe.env.iter().cloned()).arg("--version").stdin(Stdio::null());
        let mut command = tokio::process::Command::from(command);
        let output =
            tokio::time::timeout(self.step_timeout, command.kill_on_drop(true).output()).await.ok()?.ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_version =
            |word: &&str| word.split('.').count() == 3 && word.starts_with(|c: char| c.is_ascii_digit());
        text.split_whitespace().find(is_version).map(str::to_string)
    }

    /// Starts the agent and waits until it is ready; returns the time this took.
    pub(super) async fn start(&self) -> Result<Duration, EngineError> {
        let spec = NodeSpec {
            cwd: Some(self.home.work()),
            env: self.home.env().into_iter().chain(self.recipe.env.clone()).collect(),
            size: Size::new(120, 40),
            record: false,
            ready_timeout: self.step_timeout,
            response_timeout: self.step_timeout,
            ..NodeSpec::new(self.node.clone(), BackendKind::Pty, CommandLine::Argv(self.recipe.argv.clone()))
        };
        let began = Instant::now();
        self.engine.create(spec).await?;
        self.wait(StateName::Ready, self.step_timeout).await?;
        Ok(began.elapsed())
    }

    pub(super) async fn stop(&self) {
        // Fails if the agent has already exited, which is fine.
        let _ = self.engine.stop_node(self.node.clone().into(), Default::default()).await;
    }

    /// Waits until the agent is ready again after a failure, or restarts it.
    pub(super) async fn recover(&self) -> Result<(), EngineError> {
        for keys in [None, Some("\x1b")] {
            if let Some(keys) = keys {
                let _ = self.write(keys).await;
            }
            if self.wait(StateName::Ready, Duration::from_secs(5)).await.is_ok() {
                return Ok(());
            }
        }
        self.stop().await;
        self.start().await.map(drop)
    }

    pub(super) async fn wait(&self, state: StateName, limit: Duration) -> Result<(), EngineError> {
        let request = WaitNode {
            node_id: self.node.node.clone(),
            until: States(vec![state]),
            timeout: Some(limit.into()),
            ..WaitNode::default()
        };
        self.engine.wait_node(request, Default::default()).await.map(drop)
    }

    pub(super) async fn write(&self, keys: &str) -> Result<(), EngineError> {
        self.engine.write_bytes(&self.node, keys.into()).await.map(drop)
    }

    pub(super) async fn interrupt(&self) -> Result<(), EngineError> {
        self.engine.send_interrupt(self.node.clone().into(), Default::default()).await.map(drop)
    }

    pub(super) fn prompt(&self, text: &str) -> ExecuteInput {
        ExecuteInput { timeout: Some(self.step_timeout.into()), ..ExecuteInput::new(&*self.node.node, text) }
    }

    pub(super) async fn ask(&self, text: &str) -> Result<Response, EngineError> {
        self.engine.run_turn(self.prompt(text), Default::default()).await
    }

    pub(super) async fn answer(&self, choice: NodeChoice) -> Result<TurnResponse, EngineError> {
        let request = AnswerNode {
            node_id: self.node.node.clone(),
            choice: Some(choice),
            wait: true,
            timeout: Some(self.step_timeout.into()),
            ..AnswerNode::default()
        };
        match self.engine.answer_node(request, Default::default()).await? {
            AnswerReply::Turn(turn) => Ok(turn.response),
            other => Err(EngineError::new(ErrorKind::Internal, format!("no response: {other:?}"))),
        }
    }

    /// Returns the agent's state with its evidence, and the screen.
    pub(super) async fn screen(&self) -> String {
        match self.engine.explain_node(self.node.clone().into(), Default::default()).await {
            Ok(state) => {
                format!("{} ({}: {})\n{}", state.state, state.source, state.evidence, state.screen)
            }
            other => format!("{other:?}"),
        }
    }

    /// Waits until the terminal shows `words`.
    pub(super) async fn wait_for_text(&self, words: &str) -> Result<(), String> {
        let shows = async || self.screen().await.contains(words);
        let is_shown = wait_until_async(self.step_timeout, shows).await;
        is_shown.then_some(()).ok_or_else(|| format!("'{words}' did not appear"))
    }

    /// Returns the numbers of started and of finished tools since the last call.
    pub(super) fn take_tool_events(&mut self) -> (usize, usize) {
        let mut counts = (0, 0);
        while let Ok(event) = self.events.try_recv() {
            let EventKind::Activity(activity) = event.kind else { continue };
            match *activity {
                Activity::ToolStart { .. } => counts.0 += 1,
                Activity::ToolOutput { .. } => counts.1 += 1,
                _ => {}
            }
        }
        counts
    }
}
