//! `nerve` in a hermetic environment.

use std::process::{Command, Output};
use std::time::Duration;

use nerve_testkit::Hermetic;
use serde_json::Value;

/// No command here takes that long, unless it hangs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) const NERVE: &str = env!("CARGO_BIN_EXE_nerve");

/// A home; its servers are ended when it is dropped.
pub(crate) struct Home {
    pub(crate) hermetic: Hermetic,
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = self.command(&["server", "stop", "--all", "--force", "--timeout", "5"]).output();
    }
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    fn new(output: &Output) -> Done {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("output is UTF-8");
        // Ended by a signal: no code.
        let code = output.status.code().unwrap_or(-1);
        Done { code, stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// The data on stdout.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// It ended with this code, and said these words on stderr.
    pub(crate) fn says(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "{self:?} lacks {word:?}");
        }
    }
}

impl Home {
    pub(crate) fn new() -> Home {
        Home { hermetic: Hermetic::new().unwrap() }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.hermetic.command(NERVE);
        command.args(args);
        command
    }

    /// Runs it to its end.
    pub(crate) fn nerve(&self, args: &[&str]) -> Done {
        self.nerve_with(args, "")
    }

    /// The same, with something on standard input.
    pub(crate) fn nerve_with(&self, args: &[&str], stdin: &str) -> Done {
        let mut command = assert_cmd::Command::from_std(self.command(args));
        Done::new(&command.timeout(DEADLINE).write_stdin(stdin).output().unwrap())
    }

    /// Runs it; it must succeed. Gives back stdout.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let done = self.nerve(args);
        assert_eq!(done.code, 0, "{args:?}: {done:?}");
        done.stdout
    }

    /// A server with a shell named `sh`.
    pub(crate) fn with_shell() -> Home {
        let home = Home::new();
        home.ok(&["server", "start"]);
        home.ok(&["server", "node", "create", "sh", "-c", "bash --norc", "--env", "PS1=$ "]);
        home
    }

    /// The pid of a server.
    pub(crate) fn pid(&self, server: &str) -> u32 {
        let status = self.nerve(&["server", "status", server, "--json"]).json();
        u32::try_from(status["pid"].as_u64().unwrap()).unwrap()
    }
}
