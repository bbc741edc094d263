//! The commands a person would type, with the real Claude Code (pinned by xtask) behind them and the scripted model API on
//! loopback: demo, ask, a node on a server.
#![expect(clippy::unwrap_used, reason = "a failed setup step panics and fails the test")]

use std::path::{Path, PathBuf};
use std::process::Command;

use nerve_host::connection::Connection;
use nerve_host::{CONTROL, registry};
use nerve_record::ahr::Reader;
use nerve_record::replay::TerminalReplay;
use nerve_testkit::harness::{CommandOutput, RealAgent, signal};
use nerve_testkit::mock_model::Script;
use nerve_testkit::{AgentRecipe, Hermetic, Renderer, agents_dir, eventually, find_agent, skip};
use rustix::process::Signal;

struct Fixture {
    agent: RealAgent,
}

impl Fixture {
    async fn new() -> Option<Fixture> {
        let agent = RealAgent::claude("real_agent_cli", Renderer::Classic, Script::default()).await?;
        Some(Fixture { agent })
    }

    async fn of(
        agent: &str,
        configure: impl FnOnce(&Hermetic, &str) -> std::io::Result<AgentRecipe>,
    ) -> Option<Fixture> {
        let agent = RealAgent::new("real_agent_cli", agent, Script::default(), configure).await?;
        Some(Fixture { agent })
    }

    /// Returns the last request to the model that contains this word.
    fn last_request(&self, word: &str) -> String {
        let requests = self.agent.model.requests().into_iter();
        requests.map(|request| request.body.to_string()).rfind(|body| body.contains(word)).unwrap()
    }

    /// Kills the server and all hosts, as a power failure would.
    async fn kill_everything(&self) {
        let hosts = registry::entries(&hosts_of(self));
        kill_server(self).await;
        for host in &hosts {
            signal(host.pid, Signal::KILL);
        }
        eventually("all of them are gone", async || {
            !hosts.iter().any(|host| host.is_alive() || host.has_child())
                && self.nerve(&["server", "status"]).await.code == 3
        })
        .await;
    }

    /// Runs a command of nerve while the model answers. The nodes of a run get its environment: `claude` of
    /// [`start_with_claude_on_path`] is in `PATH`.
    async fn nerve(&self, arguments: &[&str]) -> CommandOutput {
        let mut command = self.agent.command(env!("CARGO_BIN_EXE_nerve"), arguments);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.bin().display()));
        RealAgent::run(command).await
    }

    fn bin(&self) -> std::path::PathBuf {
        self.agent.home.work().join("bin")
    }

    async fn ok(&self, arguments: &[&str]) -> String {
        self.nerve(arguments).await.success()
    }

    fn command(&self) -> String {
        self.agent.command_line()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn demo_with_real_claude_shows_three_answers() {
    let Some(fixture) = Fixture::new().await else { return };
    let shown = fixture.ok(&["demo", "--command", &fixture.command()]).await;
    assert!(shown.contains("You said: Say hello in one short sentence."), "{shown}");
    assert!(shown.contains("SEND @"), "the history is shown: {shown}");
    assert!(shown.contains("next steps"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ask_and_server_node_answer() {
    let Some(fixture) = Fixture::new().await else { return };
    assert_eq!(
        fixture.ok(&["ask", "--command", &fixture.command(), "hello there"]).await,
        "You said: hello there\n"
    );

    fixture.ok(&["server", "start"]).await;
    fixture.ok(&["server", "node", "create", "c", "--command", &fixture.command()]).await;
    assert_eq!(
        fixture.ok(&["server", "node", "execute", "c", "hello again"]).await,
        "You said: hello again\n"
    );
    let blocked = fixture.nerve(&["server", "node", "execute", "c", "TOUCHTOOL please"]).await;
    blocked.assert_stderr(5, &["Do you want to proceed?"]);
    let answered = fixture.ok(&["server", "node", "answer", "c", "1", "--wait"]).await;
    assert!(answered.contains("END-OF-TOOL"), "{answered}");
    let history = fixture.ok(&["server", "node", "history", "c", "--op", "send"]).await;
    assert!(history.contains("hello again") && history.contains("TOUCHTOOL"), "{history}");
    fixture.ok(&["server", "stop"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fan_out_writes_a_file_in_three_worktrees() {
    let Some(fixture) = Fixture::new().await else { return };
    let home = &fixture.agent.home;
    std::fs::write(home.work().join("README"), "one\n").unwrap();
    for args in [&["init", "--quiet"][..], &["add", "--all"], &["commit", "--quiet", "-m", "Begin"]] {
        home.git(&home.work(), args);
    }
    fixture.ok(&["server", "start"]).await;
    let claude = fixture.command().replace("default", "acceptEdits");
    let task = "WRITETOOL FILE=notes.txt please";
    let test = "grep -c line notes.txt";
    let done = ["fan-out", "-n", "3", "-c", &claude, "--name", "notes", "--test", test, task, "--json"];
    // The agent trusts the repository, and so its worktrees.
    let done = fixture.nerve(&done).await;
    assert_eq!(done.code, 0, "{done:?}");
    let done = done.json();
    for attempt in done["attempts"].as_array().unwrap() {
        assert_eq!((&attempt["state"], &attempt["test"]["exit_code"]), (&"completed".into(), &0.into()));
        assert_eq!(attempt["changes"], serde_json::json!({ "files": 1, "insertions": 3, "deletions": 0 }));
        assert!(attempt["tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{attempt:#}");
    }
    home.git(&home.work(), &["config", "user.name", "Me"]);
    home.git(&home.work(), &["config", "user.email", "me@example.org"]);
    fixture.ok(&["fan-out", "pick", "notes/2"]).await;
    assert!(home.work().join("notes.txt").is_file());
    fixture.ok(&["server", "stop"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recording_survives_server_and_replays_last_screen() {
    let Some(fixture) = Fixture::new().await else { return };
    fixture.ok(&["server", "start"]).await;
    fixture.ok(&["server", "node", "create", "c", "--command", &fixture.command()]).await;
    fixture.ok(&["server", "node", "execute", "c", "LONG please"]).await;
    kill_server(&fixture).await;

    fixture.ok(&["server", "start"]).await;
    fixture.ok(&["server", "node", "wait", "c", "--timeout", "60"]).await;
    let again = fixture.ok(&["server", "node", "execute", "c", "are you still there?"]).await;
    assert_eq!(again, "You said: are you still there?\n");

    let host = registry::entries(&hosts_of(&fixture)).pop().unwrap();
    let recording = host.recording.unwrap();
    let live = quiet_text(&fixture, &host.runtime.join(CONTROL)).await;
    let replay =
        TerminalReplay::read_all(&mut Reader::open(&recording).unwrap(), |lost| panic!("{lost}")).unwrap();
    assert_eq!(replay.terminal.tail(usize::MAX).join("\n"), live);

    let cast = fixture.agent.home.work().join("session.cast");
    fixture
        .ok(&["export", recording.to_str().unwrap(), "--format", "asciicast2", "-o", cast.to_str().unwrap()])
        .await;
    accepted_by_asciinema(&fixture, &cast).await;
    fixture.ok(&["server", "stop"]).await;
    assert_eq!(registry::entries(&hosts_of(&fixture)), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_is_forked_by_restarted_server() {
    let Some(fixture) = Fixture::new().await else { return };
    fixture.ok(&["server", "start"]).await;
    fixture.ok(&["server", "node", "create", "c", "--command", &fixture.command()]).await;
    fixture.ok(&["server", "node", "execute", "c", "the shared wordalpha"]).await;
    let id = async || {
        let info = fixture.ok(&["server", "node", "info", "c", "--json"]).await;
        let info: serde_json::Value = serde_json::from_str(&info).unwrap();
        info["metadata"]["conversation_id"].as_str().unwrap().to_string()
    };
    let before = id().await;
    kill_server(&fixture).await;

    fixture.ok(&["server", "start"]).await;
    assert_eq!(id().await, before);
    fixture.ok(&["server", "node", "wait", "c", "--timeout", "60"]).await;
    assert_eq!(fixture.ok(&["server", "node", "fork", "c"]).await, "node 'c-fork' forked from 'c'\n");
    let said = fixture.ok(&["server", "node", "execute", "c-fork", "in the fork wordgamma"]).await;
    assert_eq!(said, "You said: in the fork wordgamma\n");
    fixture.ok(&["server", "node", "execute", "c", "in the source wordbeta"]).await;
    let asked = |word: &str| {
        let mut requests = fixture.agent.model.requests().into_iter().map(|request| request.body.to_string());
        requests.rfind(|body| body.contains(word)).unwrap()
    };
    assert!(asked("wordgamma").contains("wordalpha") && !asked("wordgamma").contains("wordbeta"));
    assert!(asked("wordbeta").contains("wordalpha") && !asked("wordbeta").contains("wordgamma"));

    // `/clear` begins another conversation, whose id the agent's hook reports.
    fixture.ok(&["server", "node", "run", "c", "/clear"]).await;
    eventually("the hook of /clear is heard", async || id().await != before).await;
    fixture.ok(&["server", "stop"]).await;
}

/// The node `c` has said `wordalpha`. It remembers that after a crash of everything, and after a stop.
async fn assert_conversation_survives(fixture: &Fixture) {
    let id = async || {
        fixture.nerve(&["node", "info", "c", "--json"]).await.json()["metadata"]["conversation_id"].clone()
    };
    let before = id().await;
    fixture.kill_everything().await;
    assert!(fixture.ok(&["server", "start", "--restore"]).await.contains("node 'c' started\n"));
    fixture.ok(&["send", "c", "wordbeta"]).await;
    assert!(fixture.last_request("wordbeta").contains("wordalpha"));
    assert_eq!(id().await, before);

    fixture.ok(&["stop", "c"]).await;
    kill_server(fixture).await;
    fixture.ok(&["server", "start"]).await;
    let stopped = fixture.nerve(&["ls", "--json"]).await.json()["stopped"][0].clone();
    assert_eq!(stopped["metadata"]["conversation_id"], before, "{stopped}");
    let started = fixture.nerve(&["start", "c", "--json"]).await.json();
    assert_eq!(started["metadata"]["conversation_id"], before, "{started}");
    fixture.ok(&["send", "c", "wordgamma"]).await;
    let request = fixture.last_request("wordgamma");
    assert!(request.contains("wordalpha") && request.contains("wordbeta"), "{request}");
    fixture.ok(&["stop", "c"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_resumes_after_the_end_of_everything() {
    let Some(fixture) = Fixture::new().await else { return };
    fixture.ok(&["server", "start"]).await;
    fixture.ok(&["new", "c", "-c", &fixture.command()]).await;
    fixture.ok(&["send", "c", "wordalpha"]).await;
    assert_conversation_survives(&fixture).await;

    // Claude Code itself rejects the id if its conversations are gone.
    let projects = fixture.agent.home.home().join(".claude/projects");
    assert!(projects.is_dir());
    std::fs::remove_dir_all(projects).unwrap();
    let rejected = fixture.nerve(&["start", "c"]).await;
    rejected.assert_stderr(3, &["No conversation found", "nerve start c --fresh"]);
    fixture.ok(&["start", "c", "--fresh"]).await;
    fixture.ok(&["send", "c", "worddelta"]).await;
    assert!(!fixture.last_request("worddelta").contains("wordalpha"));
    fixture.ok(&["server", "stop"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_resumes_after_the_end_of_everything() {
    let recipe = |home: &Hermetic, url: &str| home.codex(url, Renderer::Classic);
    let Some(fixture) = Fixture::of("codex", recipe).await else { return };
    fixture.ok(&["server", "start"]).await;
    fixture.ok(&["new", "c", "-c", &fixture.command()]).await;
    fixture.ok(&["send", "c", "wordalpha"]).await;
    assert_conversation_survives(&fixture).await;
    std::fs::remove_dir_all(fixture.agent.home.home().join(".codex/sessions")).unwrap();
    fixture.nerve(&["start", "c"]).await.assert_stderr(3, &["'c'", "nerve start c --fresh"]);
    fixture.ok(&["server", "stop"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gemini_resumes_after_the_end_of_everything() {
    let Some(fixture) = Fixture::of("gemini", Hermetic::gemini).await else { return };
    fixture.ok(&["server", "start"]).await;
    fixture.ok(&["new", "c", "-c", &fixture.command()]).await;
    fixture.ok(&["send", "c", "wordalpha"]).await;
    assert_conversation_survives(&fixture).await;
    fixture.ok(&["server", "stop"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode_resumes_after_the_end_of_everything() {
    let Some(fixture) = Fixture::of("opencode", Hermetic::opencode).await else { return };
    fixture.ok(&["server", "start"]).await;
    fixture.ok(&["new", "c", "-c", &fixture.command()]).await;
    fixture.ok(&["send", "c", "wordalpha"]).await;
    assert_conversation_survives(&fixture).await;
    fixture.ok(&["server", "stop"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kilo_resumes_after_the_end_of_everything() {
    let Some(fixture) = Fixture::of("kilo", Hermetic::kilo).await else { return };
    fixture.ok(&["server", "start"]).await;
    fixture.ok(&["new", "c", "-c", &fixture.command()]).await;
    fixture.ok(&["send", "c", "wordalpha"]).await;
    assert_conversation_survives(&fixture).await;
    fixture.ok(&["server", "stop"]).await;
}

fn hosts_of(fixture: &Fixture) -> PathBuf {
    fixture.agent.home.nerve_home().join("hosts")
}

/// Returns the live model's text once the recording contains all of it. An agent's screen changes often, so this
/// retries until nothing arrived in between.
async fn quiet_text(fixture: &Fixture, control: &Path) -> String {
    for _ in 0..50 {
        let before = Connection::open(control).await.unwrap().hello;
        let text = fixture.ok(&["server", "node", "read", "c"]).await;
        let after = Connection::open(control).await.unwrap().hello;
        if before.off == after.off && after.recorded == Some(after.off) {
            return text.strip_suffix('\n').unwrap_or(&text).to_string();
        }
    }
    panic!("the agent never stops writing");
}

async fn accepted_by_asciinema(fixture: &Fixture, cast: &Path) {
    if Command::new("asciinema").arg("--version").output().is_err() {
        return skip("asciinema cat", "asciinema is not installed (cargo xtask setup)");
    }
    // On a terminal of its own: version 2.2 does not start without one.
    let mut command = fixture.agent.home.command("script");
    command.args(["-qec", &format!("asciinema cat '{}'", cast.display()), "/dev/null"]);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("are you still there?"), "{shown}");
}

/// The example as it is in the repository: its `claude` is found on the PATH.
const TWO_TURNS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/two-turns.yaml");

/// Starts a server whose PATH has the pinned agent as `claude`.
async fn start_with_claude_on_path(fixture: &Fixture) {
    let bin = fixture.bin();
    std::fs::create_dir_all(&bin).unwrap();
    let agent = find_agent("claude").unwrap();
    let script = format!("#!/bin/sh\nexec '{}' --permission-mode default \"$@\"\n", agent.display());
    std::fs::write(bin.join("claude"), script).unwrap();
    std::fs::set_permissions(bin.join("claude"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    fixture.ok(&["server", "start"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn graph_runs_two_claude_turns_and_checks_them() {
    let Some(fixture) = Fixture::new().await else { return };
    start_with_claude_on_path(&fixture).await;
    let done =
        fixture.ok(&["server", "graph", "run", TWO_TURNS, "--set", "task=hello graph", "--json"]).await;
    let done: serde_json::Value = serde_json::from_str(&done).unwrap();
    assert_eq!(done["state"], "completed", "{done}");
    assert_eq!(done["results"]["first"]["text"], "You said: hello graph");
    let second = done["results"]["second"]["text"].as_str().unwrap();
    assert_eq!(second, "You said: Say again what you just said: You said: hello graph");
    assert_eq!(done["results"]["second"]["turn"], 2, "both turns were one conversation's");
    assert_eq!(done["results"]["same"]["attributes"]["exit_code"], 0);
    fixture.ok(&["server", "stop"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_run_survives_its_server() {
    let Some(fixture) = Fixture::new().await else { return };
    start_with_claude_on_path(&fixture).await;
    let run =
        ["server", "graph", "run", TWO_TURNS, "--set", "task=STALL 6 please", "--detach", "--run-id", "r1"];
    fixture.ok(&run).await;
    // The first turn is on its way when the server dies.
    wait_for(&fixture, |status| status["steps"][0]["state"] == "running").await;
    kill_server(&fixture).await;
    start_with_claude_on_path(&fixture).await;
    let status = fixture.ok(&["server", "graph", "status", "r1", "--json"]).await;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["state"], "interrupted", "{status}");

    // The interrupted step ran on a node that keeps state, so a gate asks what to do with it.
    fixture.ok(&["server", "graph", "resume", "r1", "--detach"]).await;
    let asked = wait_for(&fixture, |status| status["gates"][0]["step_id"] == "first").await;
    assert_eq!(asked["gates"][0]["choices"], serde_json::json!(["rerun", "skip", "fail"]));
    fixture.ok(&["server", "graph", "answer", "r1", "rerun"]).await;
    let done =
        wait_for(&fixture, |status| status["state"] != "running" && status["state"] != "waiting").await;
    assert_eq!(done["state"], "completed", "{done}");
    fixture.ok(&["server", "stop"]).await;
}

async fn wait_for(fixture: &Fixture, is_it: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let mut status = serde_json::Value::Null;
    eventually("the run's state", async || {
        status = fixture.nerve(&["server", "graph", "status", "r1", "--json"]).await.json();
        is_it(&status)
    })
    .await;
    status
}

async fn kill_server(fixture: &Fixture) {
    let status = fixture.nerve(&["server", "status", "--json"]).await.json();
    signal(status["pid"].as_u64().unwrap().try_into().unwrap(), Signal::KILL);
}

/// All agents from PATH, with the settings of their recipes in one home. They run in a new folder each time, so
/// trust dialogs appear.
#[test]
fn doctor_drives_every_agent_it_finds() {
    if ["claude", "codex", "gemini", "opencode", "kilo", "qwen", "copilot", "kimi"]
        .iter()
        .any(|name| find_agent(name).is_none())
    {
        return skip(
            "doctor_drives_every_agent_it_finds",
            "the pinned agents are not installed (cargo xtask setup)",
        );
    }
    let home = Hermetic::new().unwrap();
    // Nothing listens there, as no prompt is sent.
    let url = "http://127.0.0.1:9";
    let recipes = [
        home.claude(&home.work(), url, Renderer::Classic).unwrap(),
        home.codex(url, Renderer::Classic).unwrap(),
        home.gemini(url).unwrap(),
        home.opencode(url).unwrap(),
        home.kilo(url).unwrap(),
        home.pi(url).unwrap(),
        home.qwen(url).unwrap(),
        home.copilot(&home.work(), url).unwrap(),
        home.kimi(&home.work(), url).unwrap(),
    ];
    let outer = std::env::var_os("PATH").unwrap_or_default();
    let agents = agents_dir().canonicalize().unwrap();
    let path = std::env::join_paths(std::iter::once(agents).chain(std::env::split_paths(&outer))).unwrap();
    let mut command = home.command(env!("CARGO_BIN_EXE_nerve"));
    command.args(["doctor", "--agents", "--json", "--timeout", "120"]).env("PATH", path);
    command.envs(recipes.into_iter().flat_map(|recipe| recipe.env));
    let output = command.output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let agents = report["agents"].as_array().unwrap();
    assert_eq!(agents.len(), 9, "{report:#}");
    for agent in agents {
        let is_usual = agent["state"] == "ready" || agent["dialog"] == "trust";
        assert!(agent["ok"] == true && is_usual, "{report:#}");
    }
    assert!(output.status.success());
}
