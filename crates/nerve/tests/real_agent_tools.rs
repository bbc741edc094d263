//! The executions of the real Claude Code (pinned by xtask) against the scripted model API on loopback: listed under its own ids,
//! and with `--trace-tools` each in a terminal of its own.
#![expect(clippy::unwrap_used, reason = "a failed setup step panics and fails the test")]

use std::path::PathBuf;
use std::time::Duration;

use nerve_host::executions::follow::ExecutionFollower;
use nerve_record::executions::ExecutionLine;
use nerve_testkit::Renderer;
use nerve_testkit::harness::{CommandOutput, RealAgent};
use nerve_testkit::mock_model::{Answer, Script, ToolCall};

/// A pipeline, quotes, a folder that is left behind, and the terminal that it is run on.
const ODD_COMMAND: &str = "mkdir -p sub && cd sub && printf '%s\\n' \"it's $((6 * 7))\" b | sort -r; test -t 1 && echo on-a-terminal; cat";

/// Lines with quotes of every kind.
const HEREDOC_COMMAND: &str = "cat <<'EOF' | tee made.txt\nit's \"$x\" `y` \\ # z\nEOF";

struct Fixture {
    agent: RealAgent,
}

impl Fixture {
    async fn new() -> Option<Fixture> {
        let run = |command: &str| {
            Answer::tool(
                "I will run it.",
                ToolCall::Shell { command: command.to_string(), outside_sandbox: false },
            )
        };
        let script = Script::default()
            .rule("ODDTOOL", run(ODD_COMMAND))
            .rule("HERETOOL", run(HEREDOC_COMMAND))
            .rule("FOLDERTOOL", run("pwd; exit 3"));
        let agent = RealAgent::claude("real_agent_tools", Renderer::Classic, script).await?;
        let fixture = Fixture { agent };
        fixture.ok(&["server", "start"]).await;
        Some(fixture)
    }

    /// Runs nerve while the model answers.
    async fn nerve(&self, arguments: &[&str]) -> CommandOutput {
        RealAgent::run(self.agent.command(env!("CARGO_BIN_EXE_nerve"), arguments)).await
    }

    async fn ok(&self, arguments: &[&str]) -> String {
        self.nerve(arguments).await.success()
    }

    async fn create(&self, more: &[&str]) {
        let command = self.agent.command_line();
        let create = ["server", "node", "create", "c", "--command", &command, "--cols", "160"];
        self.ok(&[&create[..], more].concat()).await;
    }

    async fn recording(&self) -> PathBuf {
        let info = self.nerve(&["server", "node", "info", "c", "--json"]).await.json();
        PathBuf::from(info["metadata"]["recording_path"].as_str().unwrap())
    }

    /// Sends a prompt and allows the command that the agent requests. Returns the dialog and the answer.
    async fn run_allowed(&self, prompt: &str) -> (String, String) {
        let blocked = self.nerve(&["server", "node", "execute", "c", prompt]).await;
        assert_eq!(blocked.code, 5, "{blocked:?}");
        (blocked.stderr, self.ok(&["server", "node", "answer", "c", "1", "--wait"]).await)
    }

    /// Waits for the end of the last execution and returns its entry in the list.
    async fn last_execution(&self) -> ExecutionLine {
        let mut follow = ExecutionFollower::new(&self.recording().await).unwrap();
        loop {
            let last = follow.known().iter().last().cloned();
            // Two processes write the entry: the one that runs the command, and the reader of the transcript.
            if let Some(line) = last.filter(|line| line.has_ended() && line.tool.is_some()) {
                return line;
            }
            let changed = tokio::time::timeout(Duration::from_secs(60), follow.changed()).await;
            changed.expect("the end of it is listed").unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_tools_are_listed_with_their_results() {
    let Some(fixture) = Fixture::new().await else { return };
    fixture.create(&[]).await;
    fixture.run_allowed("TOUCHTOOL please").await;
    let line = fixture.last_execution().await;
    assert!(line.id.starts_with("toolu_") && !line.has_terminal(), "{line:?}");
    assert_eq!(line.command.as_deref(), Some("touch made-by-tool.txt && ls -la made-by-tool.txt"));
    assert_eq!((line.tool.as_deref(), line.status.as_deref()), (Some("Bash"), Some("completed")));
    assert!(line.anchor_byte.is_some_and(|anchor| anchor > 0));
    let shown = fixture.ok(&["show-sandbox-execution", &line.command.unwrap(), "--id", &line.id]).await;
    assert!(shown.contains("made-by-tool.txt"), "{shown}");
    fixture.ok(&["server", "stop"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn traced_tools_run_unchanged_in_own_terminals() {
    let Some(fixture) = Fixture::new().await else { return };
    fixture.create(&["--trace-tools"]).await;
    let (dialog, answer) = fixture.run_allowed("ODDTOOL please").await;
    assert!(dialog.contains("mkdir -p sub && cd sub"), "the dialog shows another command: {dialog}");
    assert!(!dialog.contains("nerve exec") && !dialog.contains("nerve-tool"), "{dialog}");
    assert!(answer.contains("on-a-terminal") && answer.contains("it's 42"), "{answer}");
    let line = fixture.last_execution().await;
    assert!(line.id.starts_with("toolu_") && line.has_terminal(), "{line:?}");
    assert_eq!((line.command.as_deref(), line.exit_code), (Some(ODD_COMMAND), Some(0)));
    let shown = fixture.ok(&["show-sandbox-execution", ODD_COMMAND, "--id", &line.id]).await;
    assert_eq!(shown, "it's 42\r\nb\r\non-a-terminal\r\n");

    fixture.run_allowed("HERETOOL please").await;
    let line = fixture.last_execution().await;
    assert_eq!((line.command.as_deref(), line.exit_code), (Some(HEREDOC_COMMAND), Some(0)));
    let shown = fixture.ok(&["show-sandbox-execution", HEREDOC_COMMAND, "--id", &line.id]).await;
    assert_eq!(shown, "it's \"$x\" `y` \\ # z\r\n");

    // The folder that the first left behind is the second's.
    let (_, answer) = fixture.run_allowed("FOLDERTOOL please").await;
    assert!(answer.contains("/sub"), "{answer}");
    let line = fixture.last_execution().await;
    assert_eq!((line.command.as_deref(), line.exit_code), (Some("pwd; exit 3"), Some(3)));
    fixture.ok(&["server", "stop"]).await;
}
