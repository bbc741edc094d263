//! Programs that listen on an address they print.

use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStderr, ChildStdout, Command, Output, Stdio};

use rustix::process::Signal;

use super::output::CommandOutput;
use super::process::{KillOnDrop, signal};

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
