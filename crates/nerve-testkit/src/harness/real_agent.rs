//! A real agent with the scripted model, and commands that use it.

use std::ffi::OsStr;
use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::output::CommandOutput;
use crate::mock_model::{MockModel, Script};
use crate::{AgentRecipe, Hermetic, Renderer, find_agent, skip};

/// Limit for a turn of a real agent. A loaded machine makes agents ten times slower.
const TURN: Duration = Duration::from_secs(120);

/// A home with the settings of a real agent, and the scripted model that the agent talks to.
#[derive(Debug)]
pub struct RealAgent {
    /// The home.
    pub home: Hermetic,
    /// The command that starts the agent.
    pub recipe: AgentRecipe,
    /// The model.
    pub model: MockModel,
}

impl RealAgent {
    /// Prepares an agent. `configure` gets the home and the URL of the model. Returns `None`, and records a skip of
    /// `test`, if the pinned agent is not installed.
    ///
    /// # Panics
    /// Its settings cannot be written.
    pub async fn new(
        test: &str,
        agent: &str,
        script: Script,
        configure: impl FnOnce(&Hermetic, &str) -> io::Result<AgentRecipe>,
    ) -> Option<RealAgent> {
        if find_agent(agent).is_none() {
            skip(test, &format!("the pinned {agent} is not installed (cargo xtask setup)"));
            return None;
        }
        let prepare = async {
            let home = Hermetic::new()?;
            let model = MockModel::start(script).await;
            let recipe = configure(&home, &model.url())?;
            io::Result::Ok(RealAgent { home, recipe, model })
        };
        Some(prepare.await.unwrap_or_else(|error| panic!("cannot prepare {agent}: {error}")))
    }

    /// Prepares Claude Code for [`Hermetic::work`].
    pub async fn claude(test: &str, renderer: Renderer, script: Script) -> Option<RealAgent> {
        let configure = |home: &Hermetic, url: &str| home.claude(&home.work(), url, renderer);
        RealAgent::new(test, "claude", script, configure).await
    }

    /// Returns the agent's command line, for a shell.
    pub fn command_line(&self) -> String {
        self.recipe.argv.join(" ")
    }

    /// Prepares a command in the agent's environment.
    pub fn command(&self, program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
        let mut command = self.home.command(program);
        command.args(arguments).envs(self.recipe.env.iter().cloned());
        command
    }

    /// Runs a command to its end without input, while the model answers on this thread.
    ///
    /// # Panics
    /// It does not start, or it hangs for two minutes.
    pub async fn run(command: Command) -> CommandOutput {
        let words = format!("{command:?}");
        let mut command = tokio::process::Command::from(command);
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
        let ended = tokio::time::timeout(TURN, output).await;
        let Ok(Ok(output)) = ended else { panic!("{words}: {ended:?}") };
        CommandOutput::new(&output)
    }
}
