//! The output of commands that have ended.

use std::process::Output;

use serde_json::Value;

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

    /// Asserts the exit code.
    ///
    /// # Panics
    /// It differs.
    #[track_caller]
    pub fn assert_code(&self, code: i32) {
        assert_eq!(self.code, code, "{self:?}");
    }

    /// Asserts the exit code, and that stderr contains each fact: a name, a number, an option, a command that helps.
    ///
    /// # Panics
    /// One of them differs.
    #[track_caller]
    pub fn assert_stderr(&self, code: i32, facts: &[&str]) {
        self.assert_code(code);
        for fact in facts {
            assert!(self.stderr.contains(fact), "{self:?} lacks {fact:?}");
        }
    }
}
