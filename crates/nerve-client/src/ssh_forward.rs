//! A socket here that a master connection forwards to the server's socket there. A command that uses it starts no process.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nerve_api::RequestName;
use nerve_api::framing::LineReader;
use nerve_api::request::Ping;
use serde_json::Value;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use crate::connection::{Connection, StreamSink, encode_request};
use crate::event_router::EventRouter;
use crate::ssh::{Start, skip_to_reply};
use crate::ssh_control::{LOCAL_TIMEOUT, run};
use crate::ssh_target::{SshSharing, SshTarget};

/// Age of a refusal at which nerve forwards a socket again.
const RETRY_AGE: Duration = Duration::from_secs(3600);
/// Time limit for nerve on the machine to print the path of the server's socket.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

impl SshTarget {
    /// Connects over the forwarded socket. Returns `None` if there is none, or the server does not reply: `nerve connect` tells why.
    pub(crate) async fn open_forwarded(&self, router: &Arc<EventRouter>, muted: bool) -> Option<Connection> {
        let path = self.forwarded_socket()?;
        let Ok(stream) = UnixStream::connect(&path).await else {
            // A master that was killed leaves its sockets.
            let _ = fs::remove_file(path);
            return None;
        };
        let (reading, mut writing) = stream.into_split();
        let line = encode_request(router, RequestName::Ping, &Ping {}).ok()?;
        writing.write_all(&line.bytes).await.ok()?;
        let mut reading = BufReader::new(reading);
        match skip_to_reply(&mut reading, &line).await {
            Ok(Start::Replied) => {
                Some(Connection::new(LineReader::new(reading), StreamSink(writing), router, muted))
            }
            Ok(Start::Ended | Start::Noise) | Err(_) => None,
        }
    }

    /// Forwards a socket to that of the server, unless the machine has refused it lately.
    pub(crate) async fn forward(&self, router: &Arc<EventRouter>) {
        let Some(path) = self.forwarded_socket() else { return };
        let refused = path.with_extension("refused");
        let age = || fs::metadata(&refused).ok()?.modified().ok()?.elapsed().ok();
        if path.exists() || age().is_some_and(|age| age < RETRY_AGE) {
            return;
        }
        if let Some(there) = self.server_socket().await {
            self.forward_to(&path, &there).await;
        }
        // sshd refuses connections, not the forwarding. Another command may have been faster.
        if self.open_forwarded(router, true).await.is_none() {
            self.remove_forwarded();
            // Without the file, the next command tries again.
            let _ = fs::write(refused, "");
        }
    }

    /// Removes the forwarded socket. Connections over it continue.
    pub(crate) fn remove_forwarded(&self) {
        if let Some(path) = self.forwarded_socket() {
            // There may be none.
            let _ = fs::remove_file(path);
        }
    }

    /// Returns the path of the socket for this server.
    fn forwarded_socket(&self) -> Option<PathBuf> {
        let name = format!("{}.sock", self.hash_with((&self.server, &self.nerve)));
        self.control_directory.as_ref().map(|directory| directory.join(name))
    }

    /// Asks nerve on the machine for the path of the server's socket.
    async fn server_socket(&self) -> Option<String> {
        let args = ["server", "status", &self.server, "--json"].map(str::to_string);
        let output = run(self.batch_command(&args, SshSharing::Master), STATUS_TIMEOUT).await?;
        // A login shell may greet before the object.
        let start = output.stdout.iter().position(|byte| *byte == b'{')?;
        let status: Value = serde_json::from_slice(&output.stdout[start..]).ok()?;
        status["socket"].as_str().filter(|path| is_plain(path)).map(str::to_string)
    }

    async fn forward_to(&self, here: &Path, there: &str) {
        let Some(here) = here.to_str().filter(|path| is_plain(path)) else { return };
        let Some(control) = self.control_socket().await else { return };
        // The user's configuration may have other forwardings.
        let mut command = tokio::process::Command::new(&self.ssh);
        command.args(["-F", "none", "-O", "forward", "-S"]).arg(control);
        command.arg("-L").arg(format!("{here}:{there}")).args(self.host_args());
        run(command, LOCAL_TIMEOUT).await;
    }
}

/// Returns true for an absolute path without characters that separate or quote paths for ssh.
fn is_plain(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_a_socket_of_its_own() {
        let mut target = SshTarget::parse("ssh://work").unwrap();
        assert_eq!(target.forwarded_socket(), None);
        target.control_directory = Some("/run/ssh".into());
        let first = target.forwarded_socket().unwrap();
        assert!(first.starts_with("/run/ssh") && first.as_os_str().len() < 30, "{first:?}");
        let mut other = target.clone();
        other.server = "night".to_string();
        assert_ne!(other.forwarded_socket(), Some(first.clone()));
        other = SshTarget::parse("ssh://home").unwrap();
        other.control_directory.clone_from(&target.control_directory);
        assert_ne!(other.forwarded_socket(), Some(first));
    }

    #[test]
    fn socket_that_ssh_would_interpret_is_not_forwarded() {
        assert!(is_plain("/run/user/1000/nerve/default.sock"));
        for path in ["run/x.sock", "/run/a:b", "/run/a b", "/run/%d", "/run/$HOME", ""] {
            assert!(!is_plain(path), "{path}");
        }
    }
}
