//! Receives the events of an agent's own hooks.
//!
//! The agent is started with settings that make it run a relay program on certain events. The relay sends a filtered copy of the
//! hook's input as one datagram to a socket of the node. Only its user can enter the socket's folder. Lost messages do no harm: the
//! screen shows the same, later.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nerve_agent::driver::Hook;
use nerve_agent::profile::{HookKind, Hooks};
use nerve_types::files::private_folder;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::UnixDatagram;

use nerve_record::executions::trace;

/// The events for which hooks are installed in Claude Code.
const CLAUDE_EVENTS: [&str; 3] = ["SessionStart", "UserPromptSubmit", "Stop"];
/// Arguments that mean that the user has their own settings, or that the agent is not interactive.
const OWN_SETTINGS: [&str; 3] = ["--settings", "-p", "--print"];
/// Name of the socket in a node's hook folder.
const SOCKET: &str = "socket";
/// Maximum size of a message in bytes. Messages hold names and ids, no text of the conversation.
const MESSAGE_LIMIT: usize = 16 * 1024;

/// The receiving end of one node's hooks. Dropping it removes the folder with the socket and the settings, unless the caller gave
/// it.
#[derive(Debug)]
pub(crate) struct HookSocket {
    socket: UnixDatagram,
    buffer: Vec<u8>,
    /// The agent's tools run in terminals of their own.
    traces_tools: bool,
    /// The temporary folder, if the caller gave none.
    _folder: Option<TempDir>,
}

/// The filtered input of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HookMessage {
    pub(super) hook: Hook,
    /// The path of the transcript, if the hook named it.
    pub(super) transcript: Option<PathBuf>,
    /// The id of the current conversation. It changes after `/clear` and `/resume`.
    pub(super) conversation_id: Option<String>,
}

impl HookSocket {
    /// Returns true if the agent's tools run in terminals of their own.
    pub(crate) fn traces_tools(&self) -> bool {
        self.traces_tools
    }

    /// Listens again on the socket of a previous process. `None` if the agent has no hooks.
    ///
    /// # Errors
    /// The socket cannot be created again.
    pub(crate) fn resume(folder: &Path) -> io::Result<Option<HookSocket>> {
        if !folder.try_exists()? {
            return Ok(None);
        }
        let path = folder.join(SOCKET);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = UnixDatagram::bind(path)?;
        Ok(Some(HookSocket { socket, buffer: vec![0; MESSAGE_LIMIT], traces_tools: false, _folder: None }))
    }

    /// Adds the hook settings to `argv` if the agent supports hooks, and listens. `folder` is a private folder that outlives this
    /// process, from which a successor can [resume](HookSocket::resume). With `traces`, the agent's tools run in terminals of their
    /// own.
    ///
    /// # Errors
    /// The socket or a file in the folder cannot be created.
    pub(crate) fn attach(
        hooks: &Hooks,
        relay: &Path,
        argv: &mut Vec<String>,
        folder: Option<&Path>,
        traces: bool,
    ) -> io::Result<Option<HookSocket>> {
        let HookKind::Claude = hooks.kind;
        let is_own =
            |word: &String| OWN_SETTINGS.iter().any(|own| word == own || word.starts_with("--settings="));
        let program = argv.iter().position(|word| {
            let name = word.rsplit('/').next().unwrap_or(word);
            hooks.programs.iter().any(|program| program == name)
        });
        let Some(program) = program.filter(|_| !argv.iter().any(is_own)) else { return Ok(None) };
        let mut temp = None;
        let folder = match folder {
            None => temp.insert(tempfile::Builder::new().prefix("nerve-hooks-").tempdir()?).path(),
            Some(folder) => {
                private_folder(folder)?;
                folder
            }
        };
        let path = folder.join(SOCKET);
        let socket = UnixDatagram::bind(&path)?;
        let settings = folder.join("settings.json");
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&settings)?;
        let prefix = traces.then(|| trace::prepare(folder, relay)).transpose()?;
        file.write_all(claude_settings(relay, &path, prefix.as_deref()).to_string().as_bytes())?;
        argv.splice(program + 1..program + 1, ["--settings".to_string(), settings.display().to_string()]);
        Ok(Some(HookSocket { socket, buffer: vec![0; MESSAGE_LIMIT], traces_tools: traces, _folder: temp }))
    }

    /// Returns the next valid message. Invalid ones are skipped.
    pub(super) async fn next(&mut self) -> io::Result<HookMessage> {
        loop {
            let size = self.socket.recv(&mut self.buffer).await?;
            if let Some(message) = serde_json::from_slice(&self.buffer[..size]).ok().as_ref().and_then(parse)
            {
                return Ok(message);
            }
        }
    }
}

/// Returns the fields of a hook's input that the relay forwards. They contain no text of the conversation.
pub fn filter_hook_input(input: &Value) -> Value {
    let keep = ["hook_event_name", "session_id", "transcript_path", "prompt_id"];
    keep.iter()
        .filter_map(|key| Some(((*key).to_string(), input.get(key)?.clone())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// `prefix`: the program that runs the commands of the agent's shells.
fn claude_settings(relay: &Path, socket: &Path, prefix: Option<&Path>) -> Value {
    // The agent runs this line in a shell, so every word is quoted.
    let command =
        shell_words::join([relay.display().to_string(), "hook".into(), socket.display().to_string()]);
    let entry = json!([{ "hooks": [{ "type": "command", "command": command, "timeout": 5 }] }]);
    let mut hooks: serde_json::Map<_, _> =
        CLAUDE_EVENTS.iter().map(|name| ((*name).to_string(), entry.clone())).collect();
    let Some(prefix) = prefix else { return json!({ "hooks": hooks }) };
    let mut shell_entry = entry;
    shell_entry[0]["matcher"] = "Bash".into();
    hooks.insert("PreToolUse".into(), shell_entry);
    json!({ "hooks": hooks, "env": { trace::PREFIX: prefix } })
}

fn parse(message: &Value) -> Option<HookMessage> {
    let text = |key: &str| message.get(key)?.as_str().map(str::to_string);
    let hook = match message.get("hook_event_name")?.as_str()? {
        "SessionStart" => Hook::SessionStarted,
        "UserPromptSubmit" => Hook::PromptSubmitted(text("prompt_id")),
        "Stop" => Hook::Stopped(text("prompt_id")),
        _ => return None,
    };
    Some(HookMessage {
        hook,
        transcript: text("transcript_path").map(PathBuf::from),
        conversation_id: text("session_id"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hooks() -> Hooks {
        Hooks { kind: HookKind::Claude, programs: vec!["claude".into()] }
    }

    fn argv(words: &[&str]) -> Vec<String> {
        words.iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn settings_follow_program_and_messages_arrive() {
        let mut command = argv(&["env", "A=b", "/x/claude", "--model", "m"]);
        let mut socket = HookSocket::attach(&hooks(), Path::new("/opt/my nerve"), &mut command, None, false)
            .unwrap()
            .unwrap();
        assert_eq!(command[..4], argv(&["env", "A=b", "/x/claude", "--settings"])[..]);
        let settings: Value = serde_json::from_str(&fs::read_to_string(&command[4]).unwrap()).unwrap();
        let line = settings["hooks"]["Stop"][0]["hooks"][0]["command"].as_str().unwrap();
        let words = shell_words::split(line).unwrap();
        assert_eq!(words[..2], argv(&["/opt/my nerve", "hook"])[..]);
        let peer = UnixDatagram::unbound().unwrap();
        peer.send_to(b"not json", &words[2]).await.unwrap();
        let input = json!({"hook_event_name": "Stop", "prompt_id": "p", "session_id": "s", "transcript_path": "/t", "last_assistant_message": "secret"});
        assert!(!filter_hook_input(&input).to_string().contains("secret"));
        peer.send_to(filter_hook_input(&input).to_string().as_bytes(), &words[2]).await.unwrap();
        let message = socket.next().await.unwrap();
        let hook = Hook::Stopped(Some("p".into()));
        assert_eq!(
            message,
            HookMessage { hook, transcript: Some("/t".into()), conversation_id: Some("s".into()) }
        );
        let folder = Path::new(&words[2]).parent().unwrap().to_path_buf();
        drop(socket);
        assert!(!folder.exists(), "the folder is removed");
    }

    #[tokio::test]
    async fn tools_are_traced_only_on_request() {
        let settings = |traces| {
            let dir = tempfile::tempdir().unwrap();
            let mut command = argv(&["claude"]);
            let folder = dir.path().join("hooks");
            let relay = Path::new("/opt/nerve");
            HookSocket::attach(&hooks(), relay, &mut command, Some(&folder), traces).unwrap().unwrap();
            let settings: Value = serde_json::from_str(&fs::read_to_string(&command[2]).unwrap()).unwrap();
            let link = fs::read_link(folder.join(trace::LINK)).ok();
            (settings, link, folder)
        };
        let (plain, link, _) = settings(false);
        assert!(plain["hooks"].get("PreToolUse").is_none() && plain.get("env").is_none() && link.is_none());
        let (traced, link, folder) = settings(true);
        assert_eq!(traced["hooks"]["PreToolUse"][0]["matcher"], "Bash");
        assert_eq!(
            traced["hooks"]["PreToolUse"][0]["hooks"][0]["command"],
            traced["hooks"]["Stop"][0]["hooks"][0]["command"]
        );
        assert!(traced["hooks"]["Stop"][0].get("matcher").is_none());
        assert_eq!(traced["env"][trace::PREFIX], folder.join(trace::LINK).to_str().unwrap());
        assert_eq!(link.unwrap(), Path::new("/opt/nerve"));
    }

    #[tokio::test]
    async fn other_programs_and_custom_settings_are_left_alone() {
        for words in [
            &["claude", "--settings", "x"][..],
            &["claude", "--settings=x"],
            &["claude", "-p"],
            &["nerve", "mock-agent"],
        ] {
            let mut command = argv(words);
            assert!(
                HookSocket::attach(&hooks(), Path::new("/n"), &mut command, None, false).unwrap().is_none()
            );
            assert_eq!(command, argv(words));
        }
    }
}
