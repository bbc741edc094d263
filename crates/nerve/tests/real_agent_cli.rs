//! The commands a person would type, with the real Claude Code (pinned by xtask) behind them and the scripted model API on
//! loopback: demo, ask, a node on a server.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nerve_core::host::connection::Connection;
use nerve_core::host::{CONTROL, registry};
use nerve_record::ahr::Reader;
use nerve_record::fold::Fold;
use nerve_testkit::mock_model::{MockModel, Script, serve};
use nerve_testkit::{AgentRecipe, Hermetic, Renderer, agents_dir, find_agent, skip};

struct Stage {
    home: Hermetic,
    recipe: AgentRecipe,
    _model: MockModel,
}

impl Stage {
    async fn new() -> Option<Stage> {
        if find_agent("claude").is_none() {
            skip("real_agent_cli", "the pinned Claude Code is not installed (cargo xtask setup)");
            return None;
        }
        let home = Hermetic::new().unwrap();
        let model = serve("127.0.0.1:0".parse().unwrap(), Script::default()).await.unwrap();
        let recipe = home.claude(&home.work(), &model.url(), Renderer::Classic).unwrap();
        Some(Stage { home, recipe, _model: model })
    }

    /// Runs nerve off this thread: the model has to answer meanwhile.
    async fn nerve(&self, arguments: &[&str]) -> Output {
        let mut command: Command = self.home.command(env!("CARGO_BIN_EXE_nerve"));
        command.args(arguments).envs(self.recipe.env.iter().cloned());
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    async fn ok(&self, arguments: &[&str]) -> String {
        let output = self.nerve(arguments).await;
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "nerve {arguments:?}: {}\n{out}\n{err}", output.status);
        out.into_owned()
    }

    fn command(&self) -> String {
        self.recipe.argv.join(" ")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn demo_with_real_claude_shows_three_answers() {
    let Some(stage) = Stage::new().await else { return };
    let shown = stage.ok(&["demo", "--command", &stage.command()]).await;
    assert!(shown.contains("You said: Say hello in one short sentence."), "{shown}");
    assert!(shown.contains("SEND @"), "the history is shown: {shown}");
    assert!(shown.contains("next steps"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ask_and_server_node_answer() {
    let Some(stage) = Stage::new().await else { return };
    assert_eq!(
        stage.ok(&["ask", "--command", &stage.command(), "hello there"]).await,
        "You said: hello there\n"
    );

    stage.ok(&["server", "start"]).await;
    stage.ok(&["server", "node", "create", "c", "--command", &stage.command()]).await;
    assert_eq!(stage.ok(&["server", "node", "execute", "c", "hello again"]).await, "You said: hello again\n");
    let blocked = stage.nerve(&["server", "node", "execute", "c", "TOUCHTOOL please"]).await;
    assert_eq!(blocked.status.code(), Some(5), "{}", String::from_utf8_lossy(&blocked.stderr));
    assert!(String::from_utf8_lossy(&blocked.stderr).contains("Do you want to proceed?"));
    let answered = stage.ok(&["server", "node", "answer", "c", "1", "--wait"]).await;
    assert!(answered.contains("END-OF-TOOL"), "{answered}");
    let history = stage.ok(&["server", "node", "history", "c", "--op", "send"]).await;
    assert!(history.contains("hello again") && history.contains("TOUCHTOOL"), "{history}");
    stage.ok(&["server", "stop"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recording_survives_server_and_replays_last_screen() {
    let Some(stage) = Stage::new().await else { return };
    stage.ok(&["server", "start"]).await;
    stage.ok(&["server", "node", "create", "c", "--command", &stage.command()]).await;
    stage.ok(&["server", "node", "execute", "c", "LONG please"]).await;
    kill_server(&stage).await;

    stage.ok(&["server", "start"]).await;
    stage.ok(&["server", "node", "wait", "c", "--timeout", "60"]).await;
    let again = stage.ok(&["server", "node", "execute", "c", "are you still there?"]).await;
    assert_eq!(again, "You said: are you still there?\n");

    let host = registry::entries(&hosts_of(&stage)).pop().unwrap();
    let recording = host.recording.unwrap();
    let live = quiet_text(&stage, &host.runtime.join(CONTROL)).await;
    let fold = Fold::whole(&mut Reader::open(&recording).unwrap(), |lost| panic!("{lost}")).unwrap();
    assert_eq!(fold.terminal.tail(usize::MAX).join("\n"), live);

    let cast = stage.home.work().join("session.cast");
    stage
        .ok(&["export", recording.to_str().unwrap(), "--format", "asciicast2", "-o", cast.to_str().unwrap()])
        .await;
    accepted_by_asciinema(&stage, &cast).await;
    stage.ok(&["server", "stop"]).await;
    assert_eq!(registry::entries(&hosts_of(&stage)), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_is_forked_by_restarted_server() {
    let Some(stage) = Stage::new().await else { return };
    stage.ok(&["server", "start"]).await;
    stage.ok(&["server", "node", "create", "c", "--command", &stage.command()]).await;
    stage.ok(&["server", "node", "execute", "c", "the shared wordalpha"]).await;
    let id = async || {
        let info = stage.ok(&["server", "node", "info", "c", "--json"]).await;
        let info: serde_json::Value = serde_json::from_str(&info).unwrap();
        info["metadata"]["claude_session_id"].as_str().unwrap().to_string()
    };
    let before = id().await;
    kill_server(&stage).await;

    stage.ok(&["server", "start"]).await;
    assert_eq!(id().await, before);
    stage.ok(&["server", "node", "wait", "c", "--timeout", "60"]).await;
    assert_eq!(stage.ok(&["server", "node", "fork", "c"]).await, "node 'c-fork' is forked from 'c'\n");
    let said = stage.ok(&["server", "node", "execute", "c-fork", "in the fork wordgamma"]).await;
    assert_eq!(said, "You said: in the fork wordgamma\n");
    stage.ok(&["server", "node", "execute", "c", "in the source wordbeta"]).await;
    let asked = |word: &str| {
        let mut requests = stage._model.requests().into_iter().map(|request| request.body.to_string());
        requests.rfind(|body| body.contains(word)).unwrap()
    };
    assert!(asked("wordgamma").contains("wordalpha") && !asked("wordgamma").contains("wordbeta"));
    assert!(asked("wordbeta").contains("wordalpha") && !asked("wordbeta").contains("wordgamma"));

    // What is typed into the agent begins another conversation; its hooks tell which.
    stage.ok(&["server", "node", "run", "c", "/clear"]).await;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while id().await == before {
        assert!(std::time::Instant::now() < deadline, "the hook of /clear was not heard");
    }
    stage.ok(&["server", "stop"]).await;
}

fn hosts_of(stage: &Stage) -> PathBuf {
    stage.home.nerve_home().join("hosts")
}

/// What the live model holds while nothing is written, and all of it is in the recording: an agent's screen is never still for
/// long, so it is asked for again until nothing came in between.
async fn quiet_text(stage: &Stage, control: &Path) -> String {
    for _ in 0..50 {
        let before = Connection::open(control).await.unwrap().hello;
        let text = stage.ok(&["server", "node", "read", "c"]).await;
        let after = Connection::open(control).await.unwrap().hello;
        if before.off == after.off && after.recorded == Some(after.off) {
            return text.strip_suffix('\n').unwrap_or(&text).to_string();
        }
    }
    panic!("the agent never stops writing");
}

async fn accepted_by_asciinema(stage: &Stage, cast: &Path) {
    if Command::new("asciinema").arg("--version").output().is_err() {
        return skip("asciinema cat", "asciinema is not installed (cargo xtask setup)");
    }
    // On a terminal of its own: version 2.2 does not start without one.
    let mut command = stage.home.command("script");
    command.args(["-qec", &format!("asciinema cat '{}'", cast.display()), "/dev/null"]);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("are you still there?"), "{shown}");
}

/// The example as it is in the repository: its `claude` is found on the PATH.
const TWO_TURNS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/two-turns.yaml");

/// Starts a server whose PATH has the pinned agent as `claude`.
async fn start_with_claude_on_path(stage: &Stage) {
    let bin = stage.home.work().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let agent = find_agent("claude").unwrap();
    let script = format!("#!/bin/sh\nexec '{}' --permission-mode default \"$@\"\n", agent.display());
    std::fs::write(bin.join("claude"), script).unwrap();
    std::fs::set_permissions(bin.join("claude"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let mut command: Command = stage.home.command(env!("CARGO_BIN_EXE_nerve"));
    command.args(["server", "start"]).envs(stage.recipe.env.iter().cloned()).env("PATH", path);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn graph_runs_two_claude_turns_and_checks_them() {
    let Some(stage) = Stage::new().await else { return };
    start_with_claude_on_path(&stage).await;
    let done = stage.ok(&["server", "graph", "run", TWO_TURNS, "--set", "task=hello graph", "--json"]).await;
    let done: serde_json::Value = serde_json::from_str(&done).unwrap();
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!(done["results"]["first"]["text"], "You said: hello graph");
    let second = done["results"]["second"]["text"].as_str().unwrap();
    assert_eq!(second, "You said: Say again what you just said: You said: hello graph");
    assert_eq!(done["results"]["second"]["turn"], 2, "both turns were one conversation's");
    assert_eq!(done["results"]["same"]["attributes"]["exit_code"], 0);
    stage.ok(&["server", "stop"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_run_survives_its_server() {
    let Some(stage) = Stage::new().await else { return };
    start_with_claude_on_path(&stage).await;
    let run =
        ["server", "graph", "run", TWO_TURNS, "--set", "task=STALL 6 please", "--detach", "--run-id", "r1"];
    stage.ok(&run).await;
    // The first turn is on its way when the server dies.
    wait_for(&stage, |status| status["steps"][0]["state"] == "running").await;
    kill_server(&stage).await;
    start_with_claude_on_path(&stage).await;
    let status = stage.ok(&["server", "graph", "status", "r1", "--json"]).await;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["status"], "interrupted", "{status}");

    // Its step was running on a node that keeps state: a person says what becomes of it.
    stage.ok(&["server", "graph", "resume", "r1", "--detach"]).await;
    let asked = wait_for(&stage, |status| status["gates"][0]["step_id"] == "first").await;
    assert_eq!(asked["gates"][0]["choices"], serde_json::json!(["rerun", "skip", "fail"]));
    stage.ok(&["server", "graph", "answer", "r1", "rerun"]).await;
    let done =
        wait_for(&stage, |status| status["status"] != "running" && status["status"] != "waiting").await;
    assert_eq!(done["status"], "completed", "{done}");
    stage.ok(&["server", "stop"]).await;
}

async fn wait_for(stage: &Stage, is_it: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    loop {
        let status = stage.ok(&["server", "graph", "status", "r1", "--json"]).await;
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        if is_it(&status) {
            return status;
        }
        assert!(std::time::Instant::now() < deadline, "{status}");
    }
}

async fn kill_server(stage: &Stage) {
    let status: serde_json::Value =
        serde_json::from_str(&stage.ok(&["server", "status", "--json"]).await).unwrap();
    let pid = rustix::process::Pid::from_raw(status["pid"].as_i64().unwrap().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// All four, found in PATH, with the settings of their recipes in one home. Where they run is a new folder each time: whoever asks
/// about trust does.
#[test]
fn doctor_drives_every_agent_it_finds() {
    if ["claude", "codex", "gemini", "opencode"].iter().any(|name| find_agent(name).is_none()) {
        return skip(
            "doctor_drives_every_agent_it_finds",
            "the pinned agents are not installed (cargo xtask setup)",
        );
    }
    let home = Hermetic::new().unwrap();
    // Nothing listens there, for nothing is asked.
    let url = "http://127.0.0.1:9";
    let recipes = [
        home.claude(&home.work(), url, Renderer::Classic).unwrap(),
        home.codex(url, Renderer::Classic).unwrap(),
        home.gemini(url).unwrap(),
        home.opencode(url).unwrap(),
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
    assert_eq!(agents.len(), 4, "{report:#}");
    for agent in agents {
        let state = agent["state"].as_str().unwrap();
        assert!(agent["ok"] == true && (state == "ready" || state == "blocked (trust)"), "{report:#}");
    }
    assert!(output.status.success());
}
