//! An engine with one agent on a terminal of our own, and the model it speaks to.

use std::io;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nerve_api::reply::{AnswerReply, TurnResponse};
use nerve_api::request::{AnswerNode, ExecuteInput, NodeChoice, States, WaitNode};
use nerve_core::command::{
    BackendKind, CommandLine, EngineEvent, EventKind, NodeRef, NodeSpec, Response, StateName,
};
use nerve_core::engine::{Engine, EngineConfig};
use nerve_core::error::{EngineError, ErrorKind};
use nerve_core::node::factory::FactoryConfig;
use nerve_record::activity::Activity;
use nerve_testkit::mock_model::{Answer, MockModel, Script, serve};
use nerve_testkit::{AgentRecipe, Hermetic};
use nerve_types::Size;
use tokio::sync::broadcast;

use super::Way;

/// A prompt with this word is answered for a minute, a few words at a time.
pub(super) const ENDLESS: &str = "ENDLESS";
/// What that answer begins with.
pub(super) const ENDLESS_WORDS: &str = "One word after the other";
/// A prompt with this word is answered with [`GOT_IT`], however long it is.
pub(super) const PASTED: &str = "PASTED-ROWS";
pub(super) const GOT_IT: &str = "I have got all rows.";

/// How often what has no event is looked at.
const LOOK: Duration = Duration::from_millis(20);

pub(super) struct Stage {
    pub(super) engine: Engine,
    pub(super) model: MockModel,
    pub(super) home: Hermetic,
    node: NodeRef,
    recipe: AgentRecipe,
    events: broadcast::Receiver<EngineEvent>,
    /// For each thing that is waited for.
    pub(super) patience: Duration,
}

impl Stage {
    /// The model, the home and the engine; the agent is not started.
    pub(super) async fn set(way: &Way, patience: Duration) -> io::Result<Stage> {
        let home = Hermetic::new()?;
        std::fs::write(home.work().join("notes.txt"), "alpha note\nbeta note\n")?;
        let words = std::iter::once(ENDLESS_WORDS.to_string()).chain((0..600).map(|n| format!(" {n}")));
        let script = Script::default()
            .rule(ENDLESS, Answer::slow(Duration::from_millis(100), words.collect()))
            .rule(PASTED, Answer::text(GOT_IT));
        let model = serve(([127, 0, 0, 1], 0).into(), script).await?;
        let recipe = (way.recipe)(&home, &model.url())?;
        let engine = Engine::new(EngineConfig {
            nodes: FactoryConfig {
                server: "trial".into(),
                history_dir: Some(home.root().join("history")),
                ..FactoryConfig::default()
            },
            ..EngineConfig::default()
        });
        let events = engine.subscribe();
        let node = NodeRef { session: None, node: way.agent.into() };
        Ok(Stage { engine, model, home, node, recipe, events, patience })
    }

    /// The version the program names, its first number of three parts.
    pub(super) async fn version(&self) -> Option<String> {
        // Without the recipe's arguments, which would ask for something else than the version.
        let mut command = self.home.command(self.recipe.argv.first()?);
        command.envs(self.recipe.env.iter().cloned()).arg("--version").stdin(Stdio::null());
        let mut command = tokio::process::Command::from(command);
        let output =
            tokio::time::timeout(self.patience, command.kill_on_drop(true).output()).await.ok()?.ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_version =
            |word: &&str| word.split('.').count() == 3 && word.starts_with(|c: char| c.is_ascii_digit());
        text.split_whitespace().find(is_version).map(str::to_string)
    }

    /// Starts the agent and waits until it is ready; how long that took.
    pub(super) async fn start(&self) -> Result<Duration, EngineError> {
        let spec = NodeSpec {
            cwd: Some(self.home.work()),
            env: self.home.env().into_iter().chain(self.recipe.env.clone()).collect(),
            size: Size::new(120, 40),
            record: false,
            ready_timeout: self.patience,
            response_timeout: self.patience,
            ..NodeSpec::new(self.node.clone(), BackendKind::Pty, CommandLine::Argv(self.recipe.argv.clone()))
        };
        let began = Instant::now();
        self.engine.create(spec).await?;
        self.wait(StateName::Ready, self.patience).await?;
        Ok(began.elapsed())
    }

    pub(super) async fn stop(&self) {
        // One that has ended by itself is what is wanted.
        let _ = self.engine.stop_node(self.node.clone().into(), Default::default()).await;
    }

    /// A stage whose agent did something unforeseen is ready for the next thing again, or the agent is started anew.
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
            until: States(vec![state.as_str().to_string()]),
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
        ExecuteInput { timeout: Some(self.patience.into()), ..ExecuteInput::new(&*self.node.node, text) }
    }

    pub(super) async fn ask(&self, text: &str) -> Result<Response, EngineError> {
        self.engine.run_turn(self.prompt(text), Default::default()).await
    }

    pub(super) async fn answer(&self, choice: NodeChoice) -> Result<TurnResponse, EngineError> {
        let request = AnswerNode {
            node_id: self.node.node.clone(),
            choice: Some(choice),
            wait: true,
            timeout: Some(self.patience.into()),
            ..AnswerNode::default()
        };
        match self.engine.answer_node(request, Default::default()).await? {
            AnswerReply::Turn(turn) => Ok(turn.response),
            other => Err(EngineError::new(ErrorKind::Internal, format!("no response: {other:?}"))),
        }
    }

    /// What the terminal shows, and what the agent's state rests on.
    pub(super) async fn screen(&self) -> String {
        match self.engine.explain_node(self.node.clone().into(), Default::default()).await {
            Ok(why) => {
                format!("{} ({}: {})\n{}", why.state, why.source, why.evidence, why.screen)
            }
            other => format!("{other:?}"),
        }
    }

    /// Waits until the terminal shows `words`.
    pub(super) async fn until_shown(&self, words: &str) -> Result<(), String> {
        let end = Instant::now() + self.patience;
        while !self.screen().await.contains(words) {
            if Instant::now() >= end {
                return Err(format!("'{words}' never showed"));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// The tools that were told since the last call: the runs that began, and those that ended.
    pub(super) fn tools_told(&mut self) -> (usize, usize) {
        let mut told = (0, 0);
        while let Ok(event) = self.events.try_recv() {
            let EventKind::Activity(activity) = event.kind else { continue };
            match *activity {
                Activity::ToolStart { .. } => told.0 += 1,
                Activity::ToolOutput { .. } => told.1 += 1,
                _ => {}
            }
        }
        told
    }
}
