//! Commands that have ended, and commands that listen.

use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStderr, ChildStdout, Command, Output, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use super::process::{KillOnDrop, signal};

/// Exit code and output of a finished command.
#[derive(Debug)]
pub struct CommandOutput {
    /// The exit code; -1 after a signal.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl CommandOutput {
    /// Converts the output of a command.
    ///
    /// # Panics
    /// It is not UTF-8.
    #[track_caller]
    pub fn new(output: &Output) -> CommandOutput {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap_or_else(|error| panic!("{error}"));
        let code = output.status.code().unwrap_or(-1);
        CommandOutput { code, stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// Parses stdout as JSON.
    ///
    /// # Panics
    /// It is not JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts success and returns stdout.
    ///
    /// # Panics
    /// The command failed.
    #[track_caller]
    pub fn success(self) -> String {
        assert_eq!(self.code, 0, "{}\n{}", self.stdout, self.stderr);
        self.stdout
    }

    /// Asserts the exit code and that stderr contains these words.
    ///
    /// # Panics
    /// One of them differs.
    #[track_caller]
    pub fn assert_stderr(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "{self:?} lacks {word:?}");
        }
    }
}

/// A program that prints the URL where it listens. Killed on drop.
#[derive(Debug)]
pub struct Listener {
    program: KillOnDrop,
    url: String,
    stdout: BufReader<ChildStdout>,
    stderr: ChildStderr,
}

impl Listener {
    /// Starts the program and reads the URL from its first line.
    ///
    /// # Panics
    /// It does not start or prints no URL.
    #[track_caller]
    pub fn start(mut command: Command) -> Listener {
        let spawned = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            unreachable!("both are pipes")
        };
        let (mut stdout, mut line) = (BufReader::new(stdout), String::new());
        let read = stdout.read_line(&mut line);
        let from = line.find("http://").unwrap_or_else(|| panic!("{read:?}: no URL in {line:?}"));
        let is_in_url = |c: &char| c.is_ascii_alphanumeric() || "/.:".contains(*c);
        let url = line[from..].chars().take_while(is_in_url).collect();
        Listener { program: KillOnDrop(child), url, stdout, stderr }
    }

    /// Returns the URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns host and port of the URL.
    pub fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// Interrupts the program (SIGINT) and waits for its end; returns what it printed since the URL.
    ///
    /// # Panics
    /// Its output is not UTF-8.
    pub fn interrupt(mut self) -> CommandOutput {
        signal(self.program.0.id(), Signal::INT);
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let read = self.stdout.read_to_end(&mut stdout).and(self.stderr.read_to_end(&mut stderr));
        let status = read.and_then(|_| self.program.0.wait()).unwrap_or_else(|error| panic!("{error}"));
        CommandOutput::new(&Output { status, stdout, stderr })
    }
}
