//! A day with nerve: install it, try it, give three real Claude Codes one task in worktrees, answer one of them in `nerve top`, lose
//! everything, and continue, search, export and clean up on the next day. The scripted model API on loopback answers.
#![expect(clippy::unwrap_used, reason = "a failed setup step panics and fails the test")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nerve_host::registry;
use nerve_testkit::harness::{CommandOutput, KillOnDrop, RealAgent, TmuxServer, signal};
use nerve_testkit::mock_model::Script;
use nerve_testkit::{Hermetic, Renderer, eventually};
use rustix::process::Signal;

/// The text that is searched for on the next day.
const SENTENCE: &str = "the heron nests behind the mill";

struct Day {
    agent: RealAgent,
    /// The installed program.
    nerve: PathBuf,
}

impl Day {
    /// Prepares Claude Code, a git repository and an installed nerve.
    async fn begin() -> Option<Day> {
        // The worktrees are below the trusted folder.
        let configure = |home: &Hermetic, url: &str| home.claude(home.root(), url, Renderer::Classic);
        let agent = RealAgent::new("real_agent_day", "claude", Script::default(), configure).await?;
        let bin = agent.home.home().join(".local/bin");
        fs::create_dir_all(&bin).unwrap();
        let nerve = bin.join("nerve");
        symlink(env!("CARGO_BIN_EXE_nerve"), &nerve).unwrap();
        fs::write(agent.home.work().join("README"), "one\n").unwrap();
        for args in [
            &["init", "--quiet"][..],
            &["add", "--all"],
            &["commit", "--quiet", "-m", "Begin"],
            &["config", "user.name", "Me"],
            &["config", "user.email", "me@example.org"],
        ] {
            agent.home.git(&agent.home.work(), args);
        }
        Some(Day { agent, nerve })
    }

    fn command(&self, args: &[&str]) -> Command {
        self.agent.command(&self.nerve, args)
    }

    async fn nerve(&self, args: &[&str]) -> CommandOutput {
        RealAgent::run(self.command(args)).await
    }

    async fn ok(&self, args: &[&str]) -> String {
        self.nerve(args).await.success()
    }

    /// Kills the server and all agents, as a power failure would.
    async fn kill_everything(&self) {
        let hosts = registry::entries(&self.agent.home.nerve_home().join("hosts"));
        let server = self.nerve(&["server", "status", "--json"]).await.json();
        let server = u32::try_from(server["pid"].as_u64().unwrap()).unwrap();
        for pid in hosts.iter().map(|host| host.pid).chain([server]) {
            signal(pid, Signal::KILL);
        }
        eventually("all of them are gone", async || {
            !hosts.iter().any(|host| host.is_alive() || host.has_child())
                && self.nerve(&["server", "status"]).await.code == 3
        })
        .await;
    }

    fn git(&self, args: &[&str]) -> String {
        self.agent.home.git(&self.agent.home.work(), args)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn day_from_installation_to_cleaning_up() {
    let Some(day) = Day::begin().await else { return };
    let home = &day.agent.home;
    let claude = day.agent.command_line();

    // The tour.
    assert!(day.ok(&["--version"]).await.starts_with("nerve "));
    day.ok(&["server", "start"]).await;
    day.ok(&["new", "ada", "-c", &claude]).await;
    // A repository that is new to the agent.
    day.nerve(&["send", "ada", "hello"]).await.assert_stderr(5, &["trust"]);
    day.ok(&["answer", "ada", "Yes, I trust this folder"]).await;
    assert_eq!(day.ok(&["send", "ada", "hello"]).await, "You said: hello\n");
    assert!(day.ok(&["ls"]).await.contains("ready"));
    day.ok(&["stop", "ada"]).await;
    day.ok(&["rm", "ada"]).await;

    // Three agents work on one task; the third has to ask before it writes.
    let notified = home.root().join("notified");
    let notify_command = format!("echo \"$NERVE_NOTIFY_TEXT\" >> '{}'", notified.display());
    let mut notify = day.command(&["notify", "--on", "blocked", "--command", &notify_command]);
    notify.stdin(Stdio::null()).stdout(Stdio::null());
    let notify = KillOnDrop::spawn(notify);
    let willing = claude.replace("default", "acceptEdits");
    let agents = format!("{willing},{willing},{claude}");
    let task = format!("WRITETOOL FILE=notes.txt because {SENTENCE}");
    let test = "grep -c line notes.txt";
    let args = ["fan-out", "-c", &agents, "--name", "notes", "--test", test, &task, "--json"];
    let fan_out = tokio::spawn(RealAgent::run(day.command(&args)));

    let tmux = TmuxServer::new("real_agent_day", home, "tmux.sock").unwrap();
    let top = format!("'{}' top", day.nerve.display());
    tmux.ok(&["new-session", "-d", "-x", "140", "-y", "30", &top]);
    tmux.expect("blocked: permission");
    eventually("the dialog is notified", async || {
        fs::read_to_string(&notified).is_ok_and(|text| text.contains("notes-3-claude is blocked"))
    })
    .await;
    tmux.type_text("/blocked");
    tmux.press(&["Enter"]);
    tmux.type_text("a");
    tmux.expect("answer of 'notes-3-claude'");
    tmux.type_text("1");
    let done = fan_out.await.unwrap();
    assert_eq!(done.code, 0, "{done:?}");
    let attempts = done.json()["attempts"].as_array().unwrap().clone();
    assert_eq!(attempts.len(), 3);
    for attempt in &attempts {
        assert_eq!((&attempt["state"], &attempt["test"]["exit_code"]), (&"completed".into(), &0.into()));
    }
    tmux.type_text("q");
    tmux.wait_for_end();
    assert_eq!(fs::read_to_string(&notified).unwrap().lines().count(), 1);

    // The next day.
    day.kill_everything().await;
    drop(notify);
    let restored = day.ok(&["server", "start", "--restore"]).await;
    assert_eq!(restored.matches("started").count(), 4, "the server and three nodes: {restored}");
    day.ok(&["send", "notes-3-claude", "wordbeta"]).await;
    let requests = day.agent.model.requests().into_iter().map(|request| request.body.to_string());
    let mut requests = requests.filter(|body| body.contains("wordbeta"));
    assert!(requests.any(|body| body.contains(SENTENCE)), "the conversation continues");
    let found = day.ok(&["search", "heron nests", "--in", "prompts"]).await;
    assert_eq!(found.matches("nerve transcript").count(), 3, "{found}");
    let page = home.root().join("notes.html");
    day.ok(&["transcript", "notes-3-claude", "-f", "html", "-o", page.to_str().unwrap()]).await;
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains(SENTENCE) && page.contains("Dialog") && page.contains("wordbeta"), "{page}");

    // Cleaning up.
    day.ok(&["fan-out", "pick", "notes/3"]).await;
    day.ok(&["fan-out", "clean", "notes", "--discard"]).await;
    day.ok(&["prune", "--all"]).await;
    assert_eq!(day.nerve(&["ls", "--json"]).await.json()["nodes"], serde_json::json!([]));
    day.ok(&["server", "stop"]).await;
    assert_eq!(day.git(&["status", "--porcelain"]), "");
    assert_eq!(day.git(&["worktree", "list"]).lines().count(), 1);
    assert!(home.work().join("notes.txt").is_file());
}
