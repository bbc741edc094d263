//! Actions on nodes, performed by their servers.

use anyhow::{Context, Result};
use nerve_api::request::{CommandLine, CreateNode, NodeChoice, StartNode};
use nerve_client::{ClientError, NerveClient, Reconnect, RemoteNode, ServerError};
use nerve_commands::free_name::find_free_name;
use nerve_commands::node_command::shell_env;
use nerve_machine::address::is_on_machine;
use nerve_server::paths::ServerPaths;
use nerve_tui::dashboard::{Effect, NodeKey};

use super::server_watch::Update;
use crate::exit;

/// An effect of the dashboard that a server performs.
#[derive(Debug)]
pub(super) enum Action {
    Explain(NodeKey),
    ReadChoices(NodeKey),
    Answer(NodeKey, usize),
    Send(NodeKey, String),
    Start(NodeKey),
    Stop(NodeKey),
    Remove(NodeKey),
    /// Creates a node with this command on this server.
    Create(String, String),
}

impl Action {
    /// Returns the action of an effect. `server`: where new nodes are created.
    pub(super) fn from_effect(effect: Effect, server: String) -> Option<Action> {
        Some(match effect {
            Effect::Explain(key) => Action::Explain(key),
            Effect::ReadChoices(key) => Action::ReadChoices(key),
            Effect::Answer(key, number) => Action::Answer(key, number),
            Effect::Send(key, prompt) => Action::Send(key, prompt),
            Effect::Start(key) => Action::Start(key),
            Effect::Stop(key) => Action::Stop(key),
            Effect::Remove(key) => Action::Remove(key),
            Effect::Create(command) => Action::Create(command, server),
            Effect::Quit | Effect::Suspend | Effect::Attach(_) | Effect::OpenRecording(_) => return None,
        })
    }

    /// Performs the action and returns its update of the dashboard.
    pub(super) async fn run(self, paths: &ServerPaths) -> Result<Update> {
        match self {
            Action::Explain(key) => {
                let explanation = node(paths, &key).await?.explain().await?;
                let text = format!(
                    "{}: {}\n\n{}",
                    explanation.source.as_str(),
                    explanation.evidence,
                    explanation.screen.trim_end()
                );
                Ok(Update::Text(format!("{} is {}", key.node, explanation.state.as_str()), text))
            }
            Action::ReadChoices(key) => {
                let choices = node(paths, &key).await?.explain().await?.choices;
                Ok(match choices.is_empty() {
                    true => Update::Message(format!("node '{}' shows no dialog with choices", key.node)),
                    false => Update::Choices(key, choices),
                })
            }
            Action::Answer(key, number) => {
                node(paths, &key).await?.answer(NodeChoice::Number(number)).await?;
                Ok(Update::Message(format!("answered '{}' with choice {number}", key.node)))
            }
            Action::Send(key, prompt) => {
                let result = node(paths, &key).await?.execute_async(prompt.as_str()).await?;
                let server = match key.server.as_str() {
                    "default" => String::new(),
                    server => format!(" -s {server}"),
                };
                let sent =
                    format!("sent to '{}'; 'nerve result {result}{server}' prints the answer", key.node);
                Ok(Update::Message(sent))
            }
            Action::Start(key) => {
                let client = connect(paths, &key.server).await?;
                let shell_env = shell_env(&client);
                let (node_id, session_id) = (key.node.clone(), Some(key.session));
                client.request(&StartNode { node_id, session_id, fresh: false, shell_env }).await?;
                Ok(Update::Message(format!("node '{}' started", key.node)))
            }
            Action::Remove(key) => {
                match node(paths, &key).await?.remove().await {
                    // Another client has removed it.
                    Err(error) if error.server().is_some_and(is_not_found) => {}
                    removed => removed?,
                }
                Ok(Update::NodeRemoved(key))
            }
            Action::Stop(key) => {
                node(paths, &key).await?.stop().await?;
                Ok(Update::Message(format!("node '{}' stopped", key.node)))
            }
            Action::Create(command, server) => create(paths, &server, command).await,
        }
    }
}

fn is_not_found(error: &ServerError) -> bool {
    error.details.error_type == nerve_api::ErrorKind::NotFound
}

async fn node(paths: &ServerPaths, key: &NodeKey) -> Result<RemoteNode> {
    Ok(connect(paths, &key.server).await?.node(&key.node, Some(&key.session)))
}

async fn connect(paths: &ServerPaths, server: &str) -> Result<NerveClient> {
    if is_on_machine(server) {
        return crate::cmd::server::connect(server).await;
    }
    let client = NerveClient::connect(&paths.socket(server)?).await?;
    Ok(client.reconnect(Reconnect::Never))
}

/// Creates a node in this folder, named after the program. Starts the server if it is not running.
async fn create(paths: &ServerPaths, server: &str, command: String) -> Result<Update> {
    let client = match connect(paths, server).await {
        Err(error) if matches!(error.downcast_ref(), Some(ClientError::NotRunning { .. })) => {
            start_server(server).await?;
            connect(paths, server).await?
        }
        connected => connected?,
    };
    let words = shell_words::split(&command).context("the command cannot be split into words")?;
    let name = find_free_name(&client, words.first().map_or("", String::as_str)).await?;
    let mut request = CreateNode::new(name.clone());
    request.command = Some(CommandLine::Text(command));
    // A folder here need not exist on another machine.
    request.cwd = std::env::current_dir().ok().filter(|_| client.is_local());
    request.shell_env = shell_env(&client);
    client.create_node(&request).await?;
    Ok(Update::Message(format!("node '{name}' created")))
}

async fn start_server(server: &str) -> Result<()> {
    let mut command = tokio::process::Command::new(crate::current_exe::path()?);
    let output =
        command.args(["server", "start", server]).output().await.context("cannot start the server")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false => Err(exit::Failure::new(exit::FAILED, errors.trim().to_string()).into()),
    }
}
