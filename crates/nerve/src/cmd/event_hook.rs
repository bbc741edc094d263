//! Runs a user's command for an event.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nerve_api::EventMessage;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

/// Time after which a command is killed.
const LIMIT: Duration = Duration::from_secs(30);

/// Kills the remaining processes of a command when dropped.
struct GroupGuard(Option<rustix::process::Pid>);

impl Drop for GroupGuard {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // An error means that all of them have ended.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

/// Runs a shell command and waits for its end. The command gets the event as JSON on its standard input, and a sentence about
/// the event in a variable, in addition to `variables`.
///
/// # Errors
/// The command cannot be started, fails, or takes longer than [`LIMIT`]; its children are killed in any case.
pub(crate) async fn run(
    command: &str,
    event: &EventMessage,
    text: &str,
    variables: &[(&str, &str)],
) -> Result<()> {
    let json = serde_json::to_vec(event)?;
    let mut child = Command::new("sh")
        .args(["-c", command])
        .env("NERVE_EVENT_TYPE", &event.event_type)
        .env("NERVE_EVENT_NODE", event.node_id.as_deref().unwrap_or_default())
        .env("NERVE_EVENT_SESSION", event.session_id.as_deref().unwrap_or_default())
        .env("NERVE_EVENT_TEXT", text)
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .context("cannot start the command")?;
    let _group = GroupGuard(child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed())));
    let execution = async {
        if let Some(mut stdin) = child.stdin.take() {
            // A command that does not read its input is not an error.
            let _ = stdin.write_all(&json).await;
        }
        child.wait().await
    };
    let status = match timeout(LIMIT, execution).await {
        Ok(status) => status?,
        Err(_) => bail!("the command was killed after {} s", LIMIT.as_secs()),
    };
    match status.success() {
        true => Ok(()),
        false => bail!("the command failed: {status}"),
    }
}
