//! The release binary as a server in the foreground, with its own home.
#![allow(dead_code, reason = "shared by benchmarks, none uses all of it")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nerve_api::request::{CommandLine, CreateNode};
use nerve_api::value::NodeState;
use nerve_client::{NerveClient, RemoteNode};
use nerve_testkit::{Hermetic, wait_until};

const PATIENCE: Duration = Duration::from_secs(30);

/// A server and its home, both removed on drop.
pub(crate) struct LiveServer {
    pub(crate) home: Hermetic,
    pub(crate) process: Child,
}

impl LiveServer {
    /// Starts the server and waits until it listens.
    pub(crate) fn start() -> Result<LiveServer> {
        LiveServer::start_with(&[])
    }

    /// Starts the server with additional environment variables.
    pub(crate) fn start_with(env: &[(&str, &Path)]) -> Result<LiveServer> {
        LiveServer::launch(&[], env)
    }

    /// Starts the server with additional options of `server start`.
    pub(crate) fn start_listening(options: &[&str]) -> Result<LiveServer> {
        LiveServer::launch(options, &[])
    }

    /// Starts the server in a home that already has data.
    pub(crate) fn start_in(home: Hermetic) -> Result<LiveServer> {
        LiveServer::launch_in(home, &[], &[])
    }

    fn launch(options: &[&str], env: &[(&str, &Path)]) -> Result<LiveServer> {
        LiveServer::launch_in(Hermetic::new()?, options, env)
    }

    fn launch_in(home: Hermetic, options: &[&str], env: &[(&str, &Path)]) -> Result<LiveServer> {
        let mut command = nerve(&home, &["server", "start", "--foreground"]);
        command.args(options);
        let process = command.envs(env.iter().copied()).stderr(Stdio::null()).spawn()?;
        let server = LiveServer { home, process };
        ensure!(wait_until(PATIENCE, || server.socket().exists()), "the server does not listen");
        Ok(server)
    }

    /// Connects a client.
    pub(crate) async fn client(&self) -> Result<NerveClient> {
        Ok(NerveClient::connect(&self.socket()).await?)
    }

    /// Returns the path of the Unix socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.home.nerve_home().join("run/default.sock")
    }

    /// Runs a command against the server; an error if the command fails.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<Output> {
        run(&self.home, arguments)
    }
}

impl Drop for LiveServer {
    fn drop(&mut self) {
        // The server may already be stopped.
        let _ = self.run(&["server", "stop"]);
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Prepares the binary with these arguments in the environment of `home` only.
pub(crate) fn nerve(home: &Hermetic, arguments: &[&str]) -> Command {
    let mut command = home.command(env!("CARGO_BIN_EXE_nerve"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Runs a command to its end; an error if it fails.
pub(crate) fn run(home: &Hermetic, arguments: &[&str]) -> Result<Output> {
    let output = nerve(home, arguments).stdout(Stdio::piped()).output()?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "nerve {}: {stderr}", arguments.join(" "));
    Ok(output)
}

/// Creates a bash node without user settings and waits until it is ready.
pub(crate) async fn bash(client: &NerveClient, id: &str, prompt: &str) -> Result<RemoteNode> {
    bash_in(client, id, prompt, |_| ()).await
}

/// Like [`bash`], with changed parameters.
pub(crate) async fn bash_in(
    client: &NerveClient,
    id: &str,
    prompt: &str,
    configure: impl FnOnce(&mut CreateNode),
) -> Result<RemoteNode> {
    let mut params = CreateNode::new(id);
    params.command = Some(CommandLine::Argv(["bash", "--norc", "--noprofile"].map(String::from).to_vec()));
    params.env.insert("PS1".to_string(), prompt.to_string());
    configure(&mut params);
    let node = client.create_node(&params).await?;
    node.wait(&[NodeState::Ready], Some(PATIENCE))
        .await
        .with_context(|| format!("{id} does not become ready"))?;
    Ok(node)
}
