//! Servers of tmux and of the fake WezTerm, private to a test.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::process::KillOnDrop;
use crate::{DEADLINE, Hermetic, skip, wait_until};

/// A private tmux server, which starts with its first session and is killed on drop.
#[derive(Debug)]
pub struct TmuxServer {
    socket: PathBuf,
    env: Vec<(String, String)>,
    work: PathBuf,
}

impl TmuxServer {
    /// Prepares a server with its socket at `name` in `home`. Returns `None`, and records a skip of `test`, without tmux.
    pub fn new(test: &str, home: &Hermetic, name: &str) -> Option<TmuxServer> {
        if Command::new("tmux").arg("-V").output().is_err() {
            skip(test, "tmux is not installed");
            return None;
        }
        Some(TmuxServer { socket: home.root().join(name), env: home.env(), work: home.work() })
    }

    /// Returns the path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Prepares a tmux command for this server, in the environment and the working directory of its home.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-u", "-f", "/dev/null", "-S"]).arg(&self.socket).args(args);
        command.env_clear().envs(self.env.iter().cloned()).current_dir(&self.work);
        command
    }

    /// Runs a tmux command; returns its output.
    ///
    /// # Errors
    /// The message of tmux.
    pub fn run(&self, args: &[&str]) -> Result<String, String> {
        let output = self.command(args).output().map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_string();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// Runs a tmux command that must succeed.
    ///
    /// # Panics
    /// It fails.
    #[track_caller]
    pub fn ok(&self, args: &[&str]) -> String {
        self.run(args).unwrap_or_else(|error| panic!("tmux {args:?}: {error}"))
    }

    /// Presses keys by tmux's names for them; other words are typed.
    #[track_caller]
    pub fn press(&self, keys: &[&str]) {
        self.ok(&[&["send-keys"], keys].concat());
    }

    /// Types text.
    #[track_caller]
    pub fn type_text(&self, text: &str) {
        self.ok(&["send-keys", "-l", text]);
    }

    /// Returns the text of the current pane; empty if there is none.
    pub fn screen(&self) -> String {
        self.run(&["capture-pane", "-p"]).unwrap_or_default()
    }

    /// Waits until the current pane shows `words`.
    ///
    /// # Panics
    /// It does not within [`DEADLINE`].
    #[track_caller]
    pub fn expect(&self, words: &str) {
        let shows = || self.screen().contains(words);
        assert!(wait_until(DEADLINE, shows), "no {words:?} in\n{}", self.screen());
    }

    /// Waits until the server has ended with its last pane.
    ///
    /// # Panics
    /// It does not within [`DEADLINE`].
    #[track_caller]
    pub fn wait_for_end(&self) {
        let has_ended = || self.run(&["list-sessions"]).is_err();
        assert!(wait_until(DEADLINE, has_ended), "{}", self.screen());
    }
}

impl Drop for TmuxServer {
    fn drop(&mut self) {
        // It may have ended with its last pane.
        let _ = self.run(&["kill-server"]);
    }
}

/// A server of the fake WezTerm, the testkit's example `fake_wezterm`. Killed on drop with its panes.
#[derive(Debug)]
pub struct FakeWezterm {
    server: KillOnDrop,
    socket: PathBuf,
}

impl FakeWezterm {
    /// Starts a server in `home` and waits until it listens.
    ///
    /// # Panics
    /// The example is not built, or the server does not listen within [`DEADLINE`].
    pub fn start(home: &Hermetic) -> FakeWezterm {
        let socket = home.root().join("wez.sock");
        let mut server = home.command(FakeWezterm::program());
        server.arg("mux-server").env("WEZTERM_UNIX_SOCKET", &socket).stdin(Stdio::piped());
        let server = server.spawn().unwrap_or_else(|error| panic!("fake_wezterm: {error}"));
        let wezterm = FakeWezterm { server: KillOnDrop(server), socket };
        let listens = || UnixStream::connect(&wezterm.socket).is_ok();
        assert!(wait_until(DEADLINE, listens), "the fake WezTerm does not listen");
        wezterm
    }

    /// Returns the path of the fake `wezterm`.
    pub fn program() -> PathBuf {
        super::example("fake_wezterm")
    }

    /// Returns the path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns the process of the server.
    pub fn server(&mut self) -> &mut Child {
        &mut self.server.0
    }
}
