//! An engine with one agent in a terminal, and the scripted model.

use std::io;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nerve_agent::profile::Version;
use nerve_api::event::EventKind;
use nerve_api::reply::TurnResponse;
use nerve_api::request::{ExecuteInput, NodeSpec};
use nerve_api::value::NodeState;
use nerve_node::dialog_answer::Choice;
use nerve_node::error::EngineError;
use nerve_node::response::Response;
use nerve_record::activity::Activity;
use nerve_testkit::harness::{CommandOutput, EngineHarness, RealAgent, node_ref};
use nerve_testkit::mock_model::{Answer, BodyEnd, MockModel, Script};
use nerve_testkit::{AgentRecipe, Hermetic, wait_until_async};

use super::variants::{GEMINI_SESSION, Variant};

/// A prompt with this word gets an answer that takes a minute.
pub(super) const ENDLESS: &str = "ENDLESS";
/// The beginning of that answer.
pub(super) const ENDLESS_START: &str = "One word after the other";
/// A prompt with this word is answered with [`PASTE_ANSWER`].
pub(super) const PASTE_MARKER: &str = "PASTED-ROWS";
pub(super) const PASTE_ANSWER: &str = "I have got all rows.";
/// A prompt with these words is answered by a connection that is reset at once.
pub(super) const CUT_BEFORE: &str = "CUT-BEFORE the answer";
/// A prompt with these words is answered with [`CUT_TEXT`] on a connection that is reset then.
pub(super) const CUT_AFTER: &str = "CUT-AFTER some words";
pub(super) const CUT_TEXT: &str = "The first half";
/// The prompt with which Qwen Code has the model continue that answer. The connection is reset again.
const CONTINUATION: &str = "The connection dropped mid-response.";

pub(super) struct Harness {
    pub(super) nodes: EngineHarness,
    pub(super) model: MockModel,
    pub(super) home: Hermetic,
    variant: &'static Variant,
    /// Columns and rows of the terminals.
    size: (u16, u16),
    recipe: AgentRecipe,
}

impl Harness {
    /// Creates the model, the home and the engine; does not start the agent.
    pub(super) async fn new(
        variant: &'static Variant,
        size: (u16, u16),
        step_timeout: Duration,
    ) -> io::Result<Harness> {
        let home = Hermetic::new()?;
        std::fs::write(home.work().join("notes.txt"), "alpha note\nbeta note\n")?;
        let words = std::iter::once(ENDLESS_START.to_string()).chain((0..600).map(|n| format!(" {n}")));
        // Qwen Code sends a prompt without an answer again, in one text with the next one.
        let next = ["interrupt", "refusal", "error"].map(|event| format!("hello after the {event}"));
        let script = next.into_iter().fold(Script::default(), |script, prompt| {
            let answer = Answer::text(format!("You said: {prompt}"));
            script.rule(prompt, answer)
        });
        let script = script
            .rule(ENDLESS, Answer::slow(Duration::from_millis(100), words.collect()))
            .rule(PASTE_MARKER, Answer::text(PASTE_ANSWER))
            .rule(CUT_BEFORE, Answer::stream("", BodyEnd::Broken))
            .rule(CUT_AFTER, Answer::cut(CUT_TEXT))
            .rule(CONTINUATION, Answer::cut(" and more"));
        let model = MockModel::start(script).await;
        let recipe = (variant.recipe)(&home, &model.url())?;
        let nodes = EngineHarness::new(EngineHarness::config(home.root()), step_timeout);
        Ok(Harness { nodes, model, home, variant, size, recipe })
    }

    /// Returns the version reported by the program.
    pub(super) async fn version(&self) -> Option<String> {
        // Without the recipe's arguments, which conflict with `--version`.
        let mut command = self.home.command(self.recipe.argv.first()?);
        command.envs(self.recipe.env.iter().cloned()).arg("--version").stdin(Stdio::null());
        let mut command = tokio::process::Command::from(command);
        let output =
            tokio::time::timeout(self.nodes.limit, command.kill_on_drop(true).output()).await.ok()?.ok()?;
        Version::in_text(&String::from_utf8_lossy(&output.stdout)).map(|version| version.to_string())
    }

    /// Starts the agent and waits until it is ready; returns the time this took.
    pub(super) async fn start(&self) -> Result<Duration, EngineError> {
        let began = Instant::now();
        self.nodes.engine.create(self.spec(self.node(), &self.recipe)).await?;
        self.nodes.wait(self.node(), NodeState::Ready).await?;
        Ok(began.elapsed())
    }

    /// Returns the name of the cell's node.
    pub(super) fn node(&self) -> &'static str {
        self.variant.agent
    }

    fn spec(&self, node: &str, recipe: &AgentRecipe) -> NodeSpec {
        let (cols, rows) = self.size;
        let spec = self.nodes.agent_spec(node, &self.home, recipe);
        NodeSpec { cols: Some(cols), rows: Some(rows), force: true, ..spec }
    }

    /// Returns the command line of an agent with a conversation of its own.
    fn numbered_recipe(&self, number: usize) -> AgentRecipe {
        let mut recipe = self.recipe.clone();
        for argument in recipe.argv.iter_mut().filter(|argument| *argument == GEMINI_SESSION) {
            *argument = format!("{number:08x}{}", &GEMINI_SESSION[8..]);
        }
        recipe
    }

    /// Describes the node `nNUMBER`, with a conversation of its own.
    pub(super) fn numbered_spec(&self, number: usize) -> NodeSpec {
        self.spec(&format!("n{number}"), &self.numbered_recipe(number))
    }

    pub(super) fn size(&self) -> (u16, u16) {
        self.size
    }

    /// Returns the memory of one agent.
    pub(super) fn memory_mib(&self) -> usize {
        self.variant.memory_mib
    }

    /// Returns true if the whole conversation stays in the scrollback.
    pub(super) fn keeps_conversation_on_screen(&self) -> bool {
        self.variant.is_inline
    }

    /// Returns the command line of an agent with a conversation of its own, for a shell.
    pub(super) fn command_line(&self, number: usize) -> String {
        self.numbered_recipe(number).argv.join(" ")
    }

    /// Runs nerve in the agent's environment while the model answers.
    pub(super) async fn nerve(&self, arguments: &[&str]) -> CommandOutput {
        let mut command = self.home.command(env!("CARGO_BIN_EXE_nerve"));
        command.args(arguments).envs(self.recipe.env.iter().cloned());
        RealAgent::run(command).await
    }

    pub(super) async fn stop(&self) {
        // Fails if the agent has already exited, which is fine.
        let _ = self.nodes.engine.stop_node(node_ref(self.node()).into(), Default::default()).await;
    }

    /// Waits until the agent is ready again after a failure, or restarts it.
    pub(super) async fn recover(&self) -> Result<(), EngineError> {
        for keys in [None, Some("\x1b")] {
            if let Some(keys) = keys {
                let _ = self.write(keys).await;
            }
            if self.wait(NodeState::Ready, Duration::from_secs(5)).await.is_ok() {
                return Ok(());
            }
        }
        self.stop().await;
        self.start().await.map(drop)
    }

    pub(super) async fn wait(&self, state: NodeState, limit: Duration) -> Result<(), EngineError> {
        self.nodes.wait_within(self.node(), state, limit).await.map(drop)
    }

    pub(super) async fn write(&self, keys: &str) -> Result<(), EngineError> {
        self.nodes.engine.write_bytes(&node_ref(self.node()), keys.into()).await.map(drop)
    }

    pub(super) async fn interrupt(&self) -> Result<(), EngineError> {
        self.nodes.interrupt(self.node()).await
    }

    pub(super) fn prompt(&self, text: &str) -> ExecuteInput {
        self.nodes.execute(self.node(), text)
    }

    pub(super) async fn ask(&self, text: &str) -> Result<Response, EngineError> {
        self.nodes.send(self.node(), text).await
    }

    /// Answers a dialog, whether it belongs to a turn or not.
    pub(super) async fn answer_dialog(&self, choice: Choice) -> Result<(), EngineError> {
        self.nodes.answer(self.node(), choice).await.map(drop)
    }

    /// Answers a dialog of a turn; returns the turn's response.
    pub(super) async fn answer(&self, choice: Choice) -> Result<TurnResponse, EngineError> {
        let response = self.nodes.answer(self.node(), choice).await?;
        response.ok_or_else(|| EngineError::internal("no turn was answered"))
    }

    /// Returns the agent's state with its evidence, and the screen.
    pub(super) async fn screen(&self) -> String {
        self.nodes.screen(self.node()).await
    }

    /// Waits until the terminal shows `words`.
    pub(super) async fn wait_for_text(&self, words: &str) -> Result<(), String> {
        let shows = async || self.screen().await.contains(words);
        let is_shown = wait_until_async(self.nodes.limit, shows).await;
        is_shown.then_some(()).ok_or_else(|| format!("'{words}' did not appear"))
    }

    /// Returns the numbers of started and of finished tools since the last call.
    pub(super) fn take_tool_events(&mut self) -> (usize, usize) {
        let mut counts = (0, 0);
        for event in self.nodes.take_events() {
            let EventKind::NodeActivity(activity) = event else { continue };
            match *activity {
                Activity::ToolStart { .. } => counts.0 += 1,
                Activity::ToolOutput { .. } => counts.1 += 1,
                _ => {}
            }
        }
        counts
    }
}
