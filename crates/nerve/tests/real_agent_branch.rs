//! Branches of recorded sessions of the real agents (pinned by xtask), with the scripted model API on loopback: what the model is asked in
//! the branch, and which files are there.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use nerve_record::meta::Meta;
use nerve_record::snapshots;
use nerve_testkit::mock_model::{MockModel, Script, serve};
use nerve_testkit::{AgentRecipe, Hermetic, Renderer, find_agent, skip, wait_for, wait_until};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(90);

struct Stage {
    home: Hermetic,
    recipe: AgentRecipe,
    model: MockModel,
}

impl Stage {
    async fn new() -> Option<Stage> {
        Stage::of("claude", |home, url, project| home.claude(project, url, Renderer::Classic)).await
    }

    async fn of(
        agent: &str,
        recipe: impl Fn(&Hermetic, &str, &Path) -> std::io::Result<AgentRecipe>,
    ) -> Option<Stage> {
        if find_agent(agent).is_none() {
            skip("real_agent_branch", &format!("the pinned {agent} is not installed (cargo xtask setup)"));
            return None;
        }
        let home = Hermetic::new().unwrap();
        let model = serve("127.0.0.1:0".parse().unwrap(), Script::default()).await.unwrap();
        let project = home.work().canonicalize().unwrap().join("project");
        fs::create_dir(&project).unwrap();
        let recipe = recipe(&home, &model.url(), &project).unwrap();
        let stage = Stage { home, recipe, model };
        fs::write(stage.project().join("file.txt"), "as it was\n").unwrap();
        stage.git(&stage.project(), &["init", "--quiet", "--initial-branch=main"]);
        stage.git(&stage.project(), &["add", "--all"]);
        stage.git(&stage.project(), &["commit", "--quiet", "--message", "first"]);
        Some(stage)
    }

    fn project(&self) -> PathBuf {
        self.home.work().canonicalize().unwrap().join("project")
    }

    fn git(&self, folder: &Path, args: &[&str]) -> String {
        let me = ["-c", "user.name=Me", "-c", "user.email=me@example.org"];
        let output = self.home.command("git").current_dir(folder).args(me).args(args).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_string()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command: Command = self.home.command(env!("CARGO_BIN_EXE_nerve"));
        command.current_dir(self.project()).args(arguments).envs(self.recipe.env.iter().cloned());
        command
    }

    /// Runs nerve off this thread: the model has to answer meanwhile.
    async fn run(mut command: Command) -> Output {
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    async fn ok(&self, arguments: &[&str]) -> String {
        Stage::succeeds(self.command(arguments)).await
    }

    async fn succeeds(command: Command) -> String {
        let told = format!("{command:?}");
        let output = Stage::run(command).await;
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{told}: {}\n{out}\n{err}", output.status);
        out.into_owned()
    }

    async fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[arguments, &["--json"]].concat()).await).unwrap()
    }

    /// The last request to the model with this word, as text, once there is one. The prompt has arrived when a branch is made; on a busy
    /// machine the agent may not have sent it on.
    fn asked(&self, word: &str) -> String {
        let said = |body: &Value| {
            [&body["messages"], &body["input"], &body["contents"]].map(Value::to_string).concat()
        };
        let request = || {
            let mut requests = self.model.requests().into_iter().map(|request| said(&request.body));
            requests.rfind(|body| body.contains(word))
        };
        tokio::task::block_in_place(|| wait_for(PATIENCE, request))
            .unwrap_or_else(|| panic!("the model was never asked {word}"))
    }

    async fn eventually(&self, what: &str, is_so: impl Fn() -> bool + Send + 'static) {
        let came = tokio::task::spawn_blocking(move || wait_until(PATIENCE, is_so)).await.unwrap();
        assert!(came, "{what} within {PATIENCE:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_branches_from_first_turn_with_its_files() {
    let Some(stage) = Stage::new().await else { return };
    let project = stage.project();
    let made = project.join("made.txt");
    stage.ok(&["server", "start"]).await;
    let command = stage.recipe.argv.join(" ");
    stage.ok(&["server", "node", "create", "c", "--command", &command]).await;
    // The agent changes a file itself; its tool names it by its whole path.
    let prompt = format!("wordalpha WRITETOOL FILE={}", made.display());
    Stage::run(stage.command(&["server", "node", "execute", "c", &prompt])).await;
    stage.ok(&["server", "node", "wait", "c", "--until", "blocked", "--timeout", "60"]).await;
    stage.ok(&["server", "node", "answer", "c", "1", "--wait"]).await;
    let info = stage.json(&["server", "node", "info", "c"]).await;
    let recording = PathBuf::from(info["metadata"]["recording"].as_str().unwrap());
    let host = info["metadata"]["host"].as_str().unwrap();
    let socket = stage.home.nerve_home().join("run/hosts").join(host).join("snapshot");
    let mut snapshot = stage.command(&["snapshot", "--label", "after the first"]);
    snapshot.env("NERVE_RECORDER_SOCKET", &socket).env("NERVE_RECORDING", &recording);
    Stage::succeeds(snapshot).await;

    fs::write(project.join("file.txt"), "changed later\n").unwrap();
    fs::write(&made, "changed later\n").unwrap();
    stage.ok(&["server", "node", "execute", "c", "wordbeta"]).await;
    let meta = Meta::load(&recording).unwrap().unwrap();
    let transcript = meta.transcript.unwrap();
    let before = fs::read(&transcript).unwrap();

    let file = recording.to_str().unwrap();
    let branched = stage.json(&["branch", file, "--at", "after the first", "in the branch wordgamma"]).await;
    let talk = &branched["conversation"];
    assert_eq!((&talk["kind"], &talk["turns"], &talk["of"]), (&"cut".into(), &1.into(), &2.into()));
    let asked = stage.asked("wordgamma");
    assert!(asked.contains("wordalpha") && asked.contains("tool_result"), "{asked}");
    assert!(!asked.contains("wordbeta"), "{asked}");
    // It knows the file by where it is now: what it does there, it does to the copy.
    let cwd = PathBuf::from(branched["cwd"].as_str().unwrap());
    assert!(asked.contains(cwd.join("made.txt").to_str().unwrap()), "{asked}");
    assert!(!asked.contains(made.to_str().unwrap()), "{asked}");
    assert_eq!(fs::read_to_string(cwd.join("made.txt")).unwrap(), "line one\nline two\nline three\n");
    assert_eq!(fs::read_to_string(cwd.join("file.txt")).unwrap(), "as it was\n");
    assert_eq!(stage.git(&cwd, &["status", "--porcelain"]), "?? made.txt");
    assert_eq!(stage.git(&cwd, &["log", "--format=%s"]), "first");
    assert_eq!(fs::read_to_string(&made).unwrap(), "changed later\n", "the source is as it was");
    assert!(fs::read(&transcript).unwrap().starts_with(&before), "what was said there is as it was");

    // The source goes on as before, and its end is a place to go on from too.
    stage.ok(&["server", "node", "execute", "c", "wordomega"]).await;
    assert!(!stage.asked("wordomega").contains("wordgamma"));
    stage.ok(&["server", "node", "stop", "c"]).await;
    let ended = stage.json(&["branch", file, "from the end wordlast", "--node", "last"]).await;
    assert_eq!(ended["snapshot"]["label"], "end");
    let asked = stage.asked("wordlast");
    assert!(["wordalpha", "wordbeta", "wordomega"].iter().all(|word| asked.contains(word)), "{asked}");
    let file = PathBuf::from(ended["cwd"].as_str().unwrap()).join("file.txt");
    assert_eq!(fs::read_to_string(file).unwrap(), "changed later\n");
    stage.ok(&["server", "stop"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_recorded_without_server_is_branched() {
    let Some(stage) = Stage::new().await else { return };
    let file = stage.home.work().join("session.ahr");
    let mut record = stage.command(&["record", "--headless", "--out-file", file.to_str().unwrap(), "--"]);
    record.args(&stage.recipe.argv).stdin(Stdio::null());
    let mut recorder = record.spawn().unwrap();
    let hosts = stage.home.nerve_home().join("hosts");
    let id = {
        let hosts = hosts.clone();
        let entry = move || fs::read_dir(&hosts).ok()?.flatten().next().map(|entry| entry.path());
        let there = entry.clone();
        stage.eventually("a host", move || there().is_some()).await;
        entry().unwrap().file_stem().unwrap().to_str().unwrap().to_string()
    };
    let shows = |what: &'static str| {
        let (file, home) =
            (file.clone(), stage.command(&["replay", file.to_str().unwrap(), "--fast", "--no-colors"]));
        let mut replay = home;
        let replay = std::sync::Mutex::new(std::mem::replace(&mut replay, Command::new("true")));
        move || {
            file.exists()
                && String::from_utf8_lossy(&replay.lock().unwrap().output().unwrap().stdout).contains(what)
        }
    };
    stage.eventually("a prompt", shows("❯")).await;
    for word in ["wordalpha", "wordbeta"] {
        // Typed, seen, sent: as a person would.
        stage.ok(&["host", "write", &id, word]).await;
        stage.eventually(word, shows(word)).await;
        stage.ok(&["host", "write", &id, "--escape", "\\r"]).await;
        let answer: &'static str =
            if word == "wordalpha" { "You said: wordalpha" } else { "You said: wordbeta" };
        stage.eventually(answer, shows(answer)).await;
        let socket = stage.home.nerve_home().join("run/hosts").join(&id).join("snapshot");
        let mut snapshot = stage.command(&["snapshot", "--label", word]);
        snapshot.env("NERVE_RECORDER_SOCKET", &socket).env("NERVE_RECORDING", &file);
        Stage::succeeds(snapshot).await;
    }
    stage.ok(&["host", "stop", &id]).await;
    tokio::task::spawn_blocking(move || recorder.wait()).await.unwrap().unwrap();
    let meta = Meta::load(&file).unwrap().unwrap();
    assert!(meta.agent_session.is_some() && meta.transcript.is_some(), "the agent's hooks told it: {meta:?}");
    assert_eq!(meta.asked, stage.recipe.argv);
    let lines = snapshots::read(&file).unwrap();
    let labels: Vec<&str> = lines.iter().filter_map(|line| line.label.as_deref()).collect();
    assert_eq!(labels, ["wordalpha", "wordbeta", "end"]);
    assert!(lines.iter().all(|line| line.files.is_some()), "{lines:?}");

    stage.ok(&["branch", file.to_str().unwrap(), "--at", "1", "wordgamma"]).await;
    let asked = stage.asked("wordgamma");
    assert!(asked.contains("wordalpha") && !asked.contains("wordbeta"), "{asked}");
    stage.ok(&["server", "stop"]).await;
}

impl Stage {
    /// A snapshot 'first' of the node 'c', and then another file. Gives back the node's recording.
    async fn snapshot_and_change(&self) -> PathBuf {
        let info = self.json(&["server", "node", "info", "c"]).await;
        let recording = PathBuf::from(info["metadata"]["recording"].as_str().unwrap());
        let socket =
            self.home.nerve_home().join("run/hosts").join(info["metadata"]["host"].as_str().unwrap());
        let mut snapshot = self.command(&["snapshot", "--label", "first"]);
        snapshot.env("NERVE_RECORDER_SOCKET", socket.join("snapshot")).env("NERVE_RECORDING", &recording);
        Stage::succeeds(snapshot).await;
        fs::write(self.project().join("file.txt"), "changed later\n").unwrap();
        recording
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_branch_has_full_conversation_and_old_files() {
    let Some(stage) = Stage::of("codex", |home, url, _| home.codex(url, Renderer::Classic)).await else {
        return;
    };
    stage.ok(&["server", "start"]).await;
    stage.ok(&["server", "node", "create", "c", "--command", &stage.recipe.argv.join(" ")]).await;
    // It asks whether it may trust the folder.
    stage.ok(&["server", "node", "wait", "c", "--until", "blocked", "--timeout", "60"]).await;
    stage.ok(&["server", "node", "answer", "c", "1"]).await;
    stage.ok(&["server", "node", "execute", "c", "wordalpha"]).await;
    let recording = stage.snapshot_and_change().await;
    stage.ok(&["server", "node", "execute", "c", "wordbeta"]).await;
    stage.ok(&["server", "node", "stop", "c"]).await;
    assert!(Meta::load(&recording).unwrap().unwrap().agent_session.is_some(), "its rollout file told it");

    let branched = stage.json(&["branch", recording.to_str().unwrap(), "--at", "first", "wordgamma"]).await;
    assert_eq!(branched["conversation"]["kind"], "whole");
    let asked = stage.asked("wordgamma");
    assert!(asked.contains("wordalpha") && asked.contains("wordbeta"), "{asked}");
    let cwd = PathBuf::from(branched["cwd"].as_str().unwrap());
    assert_eq!(fs::read_to_string(cwd.join("file.txt")).unwrap(), "as it was\n");
    // That is where it works.
    assert!(asked.contains(cwd.to_str().unwrap()), "{asked}");
    stage.ok(&["server", "stop"]).await;
}

/// Two turns of a node that tells nobody its conversation, a snapshot after the first: the branch knows the first alone, and works in its
/// own folder, at the end as well. Gives back the branch's node.
async fn goes_on_as_it_was(stage: &Stage) -> String {
    stage.ok(&["server", "start"]).await;
    stage.ok(&["server", "node", "create", "c", "--command", &stage.recipe.argv.join(" ")]).await;
    stage.ok(&["server", "node", "execute", "c", "wordalpha", "--timeout", "90"]).await;
    let recording = stage.snapshot_and_change().await;
    // Some think of a title after their answer.
    stage.ok(&["server", "node", "wait", "c", "--timeout", "90"]).await;
    stage.ok(&["server", "node", "execute", "c", "wordbeta", "--timeout", "90"]).await;
    stage.ok(&["server", "node", "stop", "c"]).await;
    let (file, project) = (recording.to_str().unwrap(), stage.project());

    let told = stage.json(&["branch", file, "--at", "first", "--dry-run", "x"]).await;
    assert_eq!(
        (&told["conversation"]["turns"], &told["conversation"]["of"]),
        (&1.into(), &2.into()),
        "{told}"
    );
    let branched = stage.json(&["branch", file, "--at", "first", "wordgamma"]).await;
    let talk = &branched["conversation"];
    assert_eq!((&talk["kind"], &talk["turns"], &talk["of"]), (&"cut".into(), &1.into(), &2.into()));
    let asked = stage.asked("wordgamma");
    assert!(asked.contains("wordalpha") && !asked.contains("wordbeta"), "{asked}");
    let cwd = PathBuf::from(branched["cwd"].as_str().unwrap());
    assert_eq!(fs::read_to_string(cwd.join("file.txt")).unwrap(), "as it was\n");
    // That is where it works, and it has never heard of another place.
    assert!(asked.contains(cwd.to_str().unwrap()), "{asked}");
    assert!(!asked.contains(project.to_str().unwrap()), "{asked}");

    let ended = stage.json(&["branch", file, "--node", "last", "wordlast"]).await;
    assert_eq!((&ended["conversation"]["turns"], &ended["conversation"]["of"]), (&2.into(), &2.into()));
    let asked = stage.asked("wordlast");
    assert!(
        asked.contains("wordalpha") && asked.contains("wordbeta") && !asked.contains("wordgamma"),
        "{asked}"
    );
    branched["node_id"].as_str().unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gemini_branches_from_a_snapshot() {
    let Some(stage) = Stage::of("gemini", |home, url, _| home.gemini(url)).await else { return };
    let node = goes_on_as_it_was(&stage).await;
    // A branch is a session like any other: it can be branched.
    let branch = stage.json(&["server", "node", "info", &node]).await;
    let file = branch["metadata"]["recording"].as_str().unwrap();
    stage.ok(&["server", "node", "stop", &node]).await;
    stage.ok(&["branch", file, "--node", "again", "wordagain"]).await;
    let asked = stage.asked("wordagain");
    assert!(["wordalpha", "wordgamma"].iter().all(|word| asked.contains(word)), "{asked}");
    assert!(!asked.contains("wordbeta"), "{asked}");
    stage.ok(&["server", "stop"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode_branches_into_the_branch_folder() {
    let Some(stage) = Stage::of("opencode", |home, url, _| home.opencode(url)).await else { return };
    goes_on_as_it_was(&stage).await;
    stage.ok(&["server", "stop"]).await;
}
