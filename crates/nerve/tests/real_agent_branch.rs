//! Branches of recorded sessions of the real agents (pinned by xtask), with the scripted model API on loopback: checks
//! the model's requests in the branch, and the files.
#![expect(clippy::unwrap_used, reason = "a failed setup step panics and fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nerve_record::meta::Meta;
use nerve_record::snapshots;
use nerve_testkit::harness::RealAgent;
use nerve_testkit::mock_model::Script;
use nerve_testkit::{AgentRecipe, Hermetic, Renderer, wait_for, wait_until};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(90);

struct Fixture {
    agent: RealAgent,
}

impl Fixture {
    async fn new() -> Option<Fixture> {
        Fixture::of("claude", |home, url, project| home.claude(project, url, Renderer::Classic)).await
    }

    async fn of(
        agent: &str,
        recipe: impl Fn(&Hermetic, &str, &Path) -> std::io::Result<AgentRecipe>,
    ) -> Option<Fixture> {
        let configure = |home: &Hermetic, url: &str| {
            let project = home.work().canonicalize()?.join("project");
            fs::create_dir(&project)?;
            recipe(home, url, &project)
        };
        let agent = RealAgent::new("real_agent_branch", agent, Script::default(), configure).await?;
        let fixture = Fixture { agent };
        fs::write(fixture.project().join("file.txt"), "as it was\n").unwrap();
        fixture.git(&fixture.project(), &["init", "--quiet", "--initial-branch=main"]);
        fixture.git(&fixture.project(), &["add", "--all"]);
        fixture.git(&fixture.project(), &["commit", "--quiet", "--message", "first"]);
        Some(fixture)
    }

    fn project(&self) -> PathBuf {
        self.agent.home.work().canonicalize().unwrap().join("project")
    }

    fn git(&self, folder: &Path, args: &[&str]) -> String {
        self.agent.home.git(folder, args)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.agent.command(env!("CARGO_BIN_EXE_nerve"), arguments);
        command.current_dir(self.project());
        command
    }

    async fn ok(&self, arguments: &[&str]) -> String {
        Fixture::succeeds(self.command(arguments)).await
    }

    /// Runs a command that must succeed while the model answers.
    async fn succeeds(command: Command) -> String {
        RealAgent::run(command).await.success()
    }

    async fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[arguments, &["--json"]].concat()).await).unwrap()
    }

    /// Returns the last request to the model that contains this word. A delivered prompt may take a while to reach the
    /// model.
    fn last_request(&self, word: &str) -> String {
        let said = |body: &Value| {
            [&body["messages"], &body["input"], &body["contents"]].map(Value::to_string).concat()
        };
        let request = || {
            let mut requests = self.agent.model.requests().into_iter().map(|request| said(&request.body));
            requests.rfind(|body| body.contains(word))
        };
        tokio::task::block_in_place(|| wait_for(TIMEOUT, request))
            .unwrap_or_else(|| panic!("the model was never asked {word}"))
    }

    async fn eventually(&self, what: &str, is_so: impl Fn() -> bool + Send + 'static) {
        let came = tokio::task::spawn_blocking(move || wait_until(TIMEOUT, is_so)).await.unwrap();
        assert!(came, "{what} within {TIMEOUT:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_branches_from_first_turn_with_its_files() {
    let Some(fixture) = Fixture::new().await else { return };
    let project = fixture.project();
    let made = project.join("made.txt");
    fixture.ok(&["server", "start"]).await;
    let command = fixture.agent.command_line();
    fixture.ok(&["server", "node", "create", "c", "--command", &command]).await;
    // The agent changes a file itself; its tool names it by its whole path.
    let prompt = format!("wordalpha WRITETOOL FILE={}", made.display());
    RealAgent::run(fixture.command(&["server", "node", "execute", "c", &prompt])).await;
    fixture.ok(&["server", "node", "wait", "c", "--until", "blocked", "--timeout", "60"]).await;
    fixture.ok(&["server", "node", "answer", "c", "1", "--wait"]).await;
    let info = fixture.json(&["server", "node", "info", "c"]).await;
    let recording = PathBuf::from(info["metadata"]["recording_path"].as_str().unwrap());
    let host = info["metadata"]["host_id"].as_str().unwrap();
    let socket = fixture.agent.home.nerve_home().join("run/hosts").join(host).join("snapshot");
    let mut snapshot = fixture.command(&["snapshot", "--label", "after the first"]);
    snapshot.env("NERVE_RECORDER_SOCKET", &socket).env("NERVE_RECORDING", &recording);
    Fixture::succeeds(snapshot).await;

    fs::write(project.join("file.txt"), "changed later\n").unwrap();
    fs::write(&made, "changed later\n").unwrap();
    fixture.ok(&["server", "node", "execute", "c", "wordbeta"]).await;
    let meta = Meta::load(&recording).unwrap().unwrap();
    let transcript = meta.transcript.unwrap();
    let before = fs::read(&transcript).unwrap();

    let file = recording.to_str().unwrap();
    let branched =
        fixture.json(&["branch", file, "--at", "after the first", "in the branch wordgamma"]).await;
    let talk = &branched["conversation"];
    assert_eq!((&talk["kind"], &talk["turns"], &talk["of"]), (&"cut".into(), &1.into(), &2.into()));
    let request = fixture.last_request("wordgamma");
    assert!(request.contains("wordalpha") && request.contains("tool_result"), "{request}");
    assert!(!request.contains("wordbeta"), "{request}");
    // The agent knows the file by its path in the branch, and edits the copy.
    let cwd = PathBuf::from(branched["cwd"].as_str().unwrap());
    assert!(request.contains(cwd.join("made.txt").to_str().unwrap()), "{request}");
    assert!(!request.contains(made.to_str().unwrap()), "{request}");
    assert_eq!(fs::read_to_string(cwd.join("made.txt")).unwrap(), "line one\nline two\nline three\n");
    assert_eq!(fs::read_to_string(cwd.join("file.txt")).unwrap(), "as it was\n");
    assert_eq!(fixture.git(&cwd, &["status", "--porcelain"]), "?? made.txt");
    assert_eq!(fixture.git(&cwd, &["log", "--format=%s"]), "first");
    assert_eq!(fs::read_to_string(&made).unwrap(), "changed later\n", "the source is as it was");
    assert!(fs::read(&transcript).unwrap().starts_with(&before), "what was said there is as it was");

    // The source session continues as before, and its end can be branched too.
    fixture.ok(&["server", "node", "execute", "c", "wordomega"]).await;
    assert!(!fixture.last_request("wordomega").contains("wordgamma"));
    fixture.ok(&["server", "node", "stop", "c"]).await;
    let ended = fixture.json(&["branch", file, "from the end wordlast", "--node", "last"]).await;
    assert_eq!(ended["snapshot"]["label"], "end");
    let request = fixture.last_request("wordlast");
    assert!(["wordalpha", "wordbeta", "wordomega"].iter().all(|word| request.contains(word)), "{request}");
    let file = PathBuf::from(ended["cwd"].as_str().unwrap()).join("file.txt");
    assert_eq!(fs::read_to_string(file).unwrap(), "changed later\n");
    fixture.ok(&["server", "stop"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_recorded_without_server_is_branched() {
    let Some(fixture) = Fixture::new().await else { return };
    let file = fixture.agent.home.work().join("session.ahr");
    let mut record = fixture.command(&["record", "--headless", "--out-file", file.to_str().unwrap(), "--"]);
    record.args(&fixture.agent.recipe.argv).stdin(Stdio::null());
    let mut recorder = record.spawn().unwrap();
    let hosts = fixture.agent.home.nerve_home().join("hosts");
    let id = {
        let hosts = hosts.clone();
        let entry = move || fs::read_dir(&hosts).ok()?.flatten().next().map(|entry| entry.path());
        let there = entry.clone();
        fixture.eventually("a host", move || there().is_some()).await;
        entry().unwrap().file_stem().unwrap().to_str().unwrap().to_string()
    };
    let shows = |what: &'static str| {
        let (file, home) =
            (file.clone(), fixture.command(&["replay", file.to_str().unwrap(), "--fast", "--no-colors"]));
        let mut replay = home;
        let replay = std::sync::Mutex::new(std::mem::replace(&mut replay, Command::new("true")));
        move || {
            file.exists()
                && String::from_utf8_lossy(&replay.lock().unwrap().output().unwrap().stdout).contains(what)
        }
    };
    fixture.eventually("a prompt", shows("❯")).await;
    for word in ["wordalpha", "wordbeta"] {
        // Types the prompt, waits until it is shown, and submits it, as a person would.
        fixture.ok(&["host", "write", &id, word]).await;
        fixture.eventually(word, shows(word)).await;
        fixture.ok(&["host", "write", &id, "--escape", "\\r"]).await;
        let answer: &'static str =
            if word == "wordalpha" { "You said: wordalpha" } else { "You said: wordbeta" };
        fixture.eventually(answer, shows(answer)).await;
        let socket = fixture.agent.home.nerve_home().join("run/hosts").join(&id).join("snapshot");
        let mut snapshot = fixture.command(&["snapshot", "--label", word]);
        snapshot.env("NERVE_RECORDER_SOCKET", &socket).env("NERVE_RECORDING", &file);
        Fixture::succeeds(snapshot).await;
    }
    fixture.ok(&["host", "stop", &id]).await;
    tokio::task::spawn_blocking(move || recorder.wait()).await.unwrap().unwrap();
    let meta = Meta::load(&file).unwrap().unwrap();
    assert!(
        meta.conversation_id.is_some() && meta.transcript.is_some(),
        "the agent's hooks report it: {meta:?}"
    );
    assert_eq!(meta.requested_cmd, fixture.agent.recipe.argv);
    let lines = snapshots::read(&file).unwrap();
    let labels: Vec<&str> = lines.iter().filter_map(|line| line.label.as_deref()).collect();
    assert_eq!(labels, ["wordalpha", "wordbeta", "end"]);
    assert!(lines.iter().all(|line| line.files.is_some()), "{lines:?}");

    fixture.ok(&["branch", file.to_str().unwrap(), "--at", "1", "wordgamma"]).await;
    let request = fixture.last_request("wordgamma");
    assert!(request.contains("wordalpha") && !request.contains("wordbeta"), "{request}");
    fixture.ok(&["server", "stop"]).await;
}

impl Fixture {
    /// Takes a snapshot 'first' of node 'c' and changes a file. Returns the node's recording.
    async fn snapshot_and_change(&self) -> PathBuf {
        let info = self.json(&["server", "node", "info", "c"]).await;
        let recording = PathBuf::from(info["metadata"]["recording_path"].as_str().unwrap());
        let socket = self
            .agent
            .home
            .nerve_home()
            .join("run/hosts")
            .join(info["metadata"]["host_id"].as_str().unwrap());
        let mut snapshot = self.command(&["snapshot", "--label", "first"]);
        snapshot.env("NERVE_RECORDER_SOCKET", socket.join("snapshot")).env("NERVE_RECORDING", &recording);
        Fixture::succeeds(snapshot).await;
        fs::write(self.project().join("file.txt"), "changed later\n").unwrap();
        recording
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_branch_has_full_conversation_and_old_files() {
    let Some(fixture) = Fixture::of("codex", |home, url, _| home.codex(url, Renderer::Classic)).await else {
        return;
    };
    fixture.ok(&["server", "start"]).await;
    fixture.ok(&["server", "node", "create", "c", "--command", &fixture.agent.command_line()]).await;
    // The agent shows its trust dialog for the folder.
    fixture.ok(&["server", "node", "wait", "c", "--until", "blocked", "--timeout", "60"]).await;
    fixture.ok(&["server", "node", "answer", "c", "1"]).await;
    fixture.ok(&["server", "node", "execute", "c", "wordalpha"]).await;
    let recording = fixture.snapshot_and_change().await;
    fixture.ok(&["server", "node", "execute", "c", "wordbeta"]).await;
    fixture.ok(&["server", "node", "stop", "c"]).await;
    assert!(Meta::load(&recording).unwrap().unwrap().conversation_id.is_some(), "its rollout file names it");

    let branched = fixture.json(&["branch", recording.to_str().unwrap(), "--at", "first", "wordgamma"]).await;
    assert_eq!(branched["conversation"]["kind"], "whole");
    let request = fixture.last_request("wordgamma");
    assert!(request.contains("wordalpha") && request.contains("wordbeta"), "{request}");
    let cwd = PathBuf::from(branched["cwd"].as_str().unwrap());
    assert_eq!(fs::read_to_string(cwd.join("file.txt")).unwrap(), "as it was\n");
    // The agent works in the branch's folder.
    assert!(request.contains(cwd.to_str().unwrap()), "{request}");
    fixture.ok(&["server", "stop"]).await;
}

/// Runs two turns of an agent that does not report its conversation id, with a snapshot after the first. Checks that
/// the branch has only the first turn and its own folder. Returns the branch's node.
async fn branch_twice_and_check(fixture: &Fixture) -> String {
    fixture.ok(&["server", "start"]).await;
    fixture.ok(&["server", "node", "create", "c", "--command", &fixture.agent.command_line()]).await;
    fixture.ok(&["server", "node", "execute", "c", "wordalpha", "--timeout", "90"]).await;
    let recording = fixture.snapshot_and_change().await;
    // Some agents generate a title after their answer.
    fixture.ok(&["server", "node", "wait", "c", "--timeout", "90"]).await;
    fixture.ok(&["server", "node", "execute", "c", "wordbeta", "--timeout", "90"]).await;
    fixture.ok(&["server", "node", "stop", "c"]).await;
    let (file, project) = (recording.to_str().unwrap(), fixture.project());

    let plan = fixture.json(&["branch", file, "--at", "first", "--dry-run", "x"]).await;
    assert_eq!(
        (&plan["conversation"]["turns"], &plan["conversation"]["of"]),
        (&1.into(), &2.into()),
        "{plan}"
    );
    let branched = fixture.json(&["branch", file, "--at", "first", "wordgamma"]).await;
    let talk = &branched["conversation"];
    assert_eq!((&talk["kind"], &talk["turns"], &talk["of"]), (&"cut".into(), &1.into(), &2.into()));
    let request = fixture.last_request("wordgamma");
    assert!(request.contains("wordalpha") && !request.contains("wordbeta"), "{request}");
    let cwd = PathBuf::from(branched["cwd"].as_str().unwrap());
    assert_eq!(fs::read_to_string(cwd.join("file.txt")).unwrap(), "as it was\n");
    // The agent works in the branch's folder, and its conversation names no other one.
    assert!(request.contains(cwd.to_str().unwrap()), "{request}");
    assert!(!request.contains(project.to_str().unwrap()), "{request}");

    let ended = fixture.json(&["branch", file, "--node", "last", "wordlast"]).await;
    assert_eq!((&ended["conversation"]["turns"], &ended["conversation"]["of"]), (&2.into(), &2.into()));
    let request = fixture.last_request("wordlast");
    assert!(
        request.contains("wordalpha") && request.contains("wordbeta") && !request.contains("wordgamma"),
        "{request}"
    );
    branched["node_id"].as_str().unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gemini_branches_from_a_snapshot() {
    let Some(fixture) = Fixture::of("gemini", |home, url, _| home.gemini(url)).await else { return };
    let node = branch_twice_and_check(&fixture).await;
    // A branch is a session like any other: it can be branched.
    let branch = fixture.json(&["server", "node", "info", &node]).await;
    let file = branch["metadata"]["recording_path"].as_str().unwrap();
    fixture.ok(&["server", "node", "stop", &node]).await;
    fixture.ok(&["branch", file, "--node", "again", "wordagain"]).await;
    let request = fixture.last_request("wordagain");
    assert!(["wordalpha", "wordgamma"].iter().all(|word| request.contains(word)), "{request}");
    assert!(!request.contains("wordbeta"), "{request}");
    fixture.ok(&["server", "stop"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode_branches_into_the_branch_folder() {
    let Some(fixture) = Fixture::of("opencode", |home, url, _| home.opencode(url)).await else { return };
    branch_twice_and_check(&fixture).await;
    fixture.ok(&["server", "stop"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kilo_branches_into_the_branch_folder() {
    let Some(fixture) = Fixture::of("kilo", |home, url, _| home.kilo(url)).await else { return };
    branch_twice_and_check(&fixture).await;
    fixture.ok(&["server", "stop"]).await;
}
