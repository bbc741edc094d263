//! `nerve fan-out`: shells and the built-in agent in worktrees of a real repository.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nerve_testkit::harness::{CommandOutput, SmallDisk, signal};
use nerve_testkit::wait_until;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{DEADLINE, Home, NERVE};

/// An agent that runs its prompt as a shell command.
const SHELL: &str = "bash --norc";

/// A home with a repository, and a server unless a test needs none.
struct Fixture {
    home: Home,
    repository: PathBuf,
}

impl Fixture {
    fn without_server() -> Fixture {
        let home = Home::new();
        let repository = home.hermetic.work().join("shop");
        fs::create_dir(&repository).unwrap();
        let identity = "[user]\nname = Me\nemail = me@example.org\n[init]\ndefaultBranch = main\n";
        fs::write(home.hermetic.home().join(".gitconfig"), identity).unwrap();
        let fixture = Fixture { home, repository };
        fixture.git(&["init", "--quiet"]);
        fixture.write("README", "one\n");
        fixture.write(".gitignore", "*.local\nsecret/\n");
        fixture.git(&["add", "--all"]);
        fixture.git(&["commit", "--quiet", "--message", "Begin"]);
        fixture
    }

    fn new() -> Fixture {
        let fixture = Fixture::without_server();
        fixture.home.ok(&["server", "start"]);
        fixture
    }

    fn git(&self, args: &[&str]) -> String {
        self.home.hermetic.git(&self.repository, args)
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.repository.join(file), text).unwrap();
    }

    fn at(&self, folder: &Path, args: &[&str]) -> CommandOutput {
        let mut command = self.home.command(&[&["fan-out"], args].concat());
        command.current_dir(folder);
        self.home.run(command)
    }

    fn fan_out(&self, args: &[&str]) -> CommandOutput {
        self.at(&self.repository, args)
    }

    fn json(&self, args: &[&str]) -> Value {
        let done = self.fan_out(&[args, &["--json"]].concat());
        assert_eq!(done.code, 0, "{done:?}");
        done.json()
    }

    /// Runs a task in two shells; returns their worktrees.
    fn two_shells(&self, name: &str, task: &str) -> [PathBuf; 2] {
        let done = self.json(&["-n", "2", "-c", SHELL, "--name", name, task]);
        [0, 1].map(|index| worktree(&done, index))
    }

    fn nodes(&self) -> Vec<String> {
        let list = self.home.nerve(&["ls", "--json"]).json();
        list["nodes"].as_array().unwrap().iter().map(|node| node.as_str().unwrap().into()).collect()
    }
}

fn worktree(fan_out: &Value, index: usize) -> PathBuf {
    PathBuf::from(fan_out["attempts"][index]["worktree"].as_str().unwrap())
}

/// Files that a worktree has in its root, except git's.
fn files(worktree: &Path) -> Vec<String> {
    let entries = fs::read_dir(worktree).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| name != ".git");
    names.sort();
    names
}

#[test]
fn attempts_run_in_worktrees_and_are_compared() {
    let fixture = Fixture::new();
    let task = "echo $(basename \"$PWD\") > made.txt; echo two >> README";
    let test = "echo checked; test -f made.txt && [ \"$(basename \"$PWD\")\" = 1-bash ]";
    let done = fixture.json(&["-n", "2", "-c", SHELL, "--test", test, task]);
    let attempt = &done["attempts"][0];
    assert_eq!(done["name"], "echo-basename-pwd");
    assert_eq!(attempt["branch"], "nerve/echo-basename-pwd/1-bash");
    assert_eq!((&attempt["state"], &attempt["exit_code"]), (&json!("completed"), &json!(0)));
    assert_eq!(attempt["changes"], json!({ "files": 2, "insertions": 2, "deletions": 0 }));
    assert_eq!(attempt["turns"], 1);
    assert!(attempt["duration_ms"].as_u64().is_some() && done["duration_ms"].as_u64().is_some(), "{done:#}");
    assert_eq!(attempt["test"]["exit_code"], 0);
    assert_eq!(done["attempts"][1]["test"]["exit_code"], 1);
    let log = fs::read_to_string(attempt["test"]["log"].as_str().unwrap()).unwrap();
    assert_eq!(log, "checked\n");
    assert_eq!(fs::read_to_string(worktree(&done, 1).join("made.txt")).unwrap(), "2-bash\n");
    assert_eq!(fixture.git(&["status", "--porcelain"]), "");
    assert_eq!(fixture.nodes(), ["echo-basename-pwd-1-bash", "echo-basename-pwd-2-bash"]);

    let table = fixture.fan_out(&["wait"]);
    assert!(table.stdout.contains("2 files +2 -0") && table.stdout.contains("failed (1)"), "{table:?}");
    assert!(table.stdout.lines().all(|line| line.chars().count() <= 80), "{table:?}");
    let diff = fixture.fan_out(&["diff", "2"]);
    assert!(diff.stdout.contains("+2-bash") && diff.stdout.contains("+two"), "{diff:?}");
    let list = fixture.json(&["list"]);
    let listed = &list["fan_outs"][0];
    assert_eq!(listed["attempts"][1]["label"], "2-bash");
    assert_eq!((&listed["test_command"], &listed["test"]), (&json!(test), &Value::Null));
    let created_at = listed["created_at"].as_str().unwrap();
    assert_eq!(created_at.len(), "2026-01-01T00:00:00.000Z".len(), "{created_at}");
}

#[test]
fn agents_and_tests_get_the_environment_of_the_shell() {
    let fixture = Fixture::new();
    // A program that is only in the PATH of the shell.
    let programs = fixture.home.hermetic.work().join("programs");
    fs::create_dir(&programs).unwrap();
    symlink("/bin/bash", programs.join("own-agent")).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let task = "echo $COLOUR > made.txt";
    let agent = ["-c", "own-agent --norc", "--profile", "shell"];
    let test = ["--test", "own-agent -c 'echo $COLOUR'"];
    let mut command = fixture.home.command(&[&["fan-out"], &agent[..], &test, &[task, "--json"]].concat());
    command.current_dir(&fixture.repository).env("PATH", path).env("COLOUR", "red");
    let done = fixture.home.run(command);
    assert_eq!(done.code, 0, "{done:?}");
    let attempt = &done.json()["attempts"][0];
    assert_eq!(fs::read_to_string(worktree(&done.json(), 0).join("made.txt")).unwrap(), "red\n");
    assert_eq!(fs::read_to_string(attempt["test"]["log"].as_str().unwrap()).unwrap(), "red\n");
}

#[test]
fn agents_and_tests_start_in_the_same_subdirectory() {
    let fixture = Fixture::new();
    // Only the first one has committed files.
    for folder in ["sub/deep", "new"] {
        fs::create_dir_all(fixture.repository.join(folder)).unwrap();
    }
    fixture.write("sub/deep/file", "x\n");
    fixture.git(&["add", "--all"]);
    fixture.git(&["commit", "--quiet", "--message", "Add a directory"]);
    for (name, folder) in [("deep", "sub/deep"), ("new", "new")] {
        let args = ["-c", SHELL, "--name", name, "--test", "pwd", "pwd > where.txt", "--json"];
        let done = fixture.at(&fixture.repository.join(folder), &args);
        assert_eq!(done.code, 0, "{done:?}");
        let expected = worktree(&done.json(), 0).join(folder);
        let in_worktree = format!("{}\n", expected.display());
        assert_eq!(fs::read_to_string(expected.join("where.txt")).unwrap(), in_worktree);
        let log = done.json()["attempts"][0]["test"]["log"].as_str().unwrap().to_string();
        assert_eq!(fs::read_to_string(log).unwrap(), in_worktree);
    }
}

#[test]
fn pick_merges_one_and_loses_no_uncommitted_work() {
    let fixture = Fixture::new();
    let trees = fixture.two_shells("made", "echo $(basename \"$PWD\") > made.txt; echo x > cache.local");
    let done = fixture.fan_out(&["pick", "2"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stdout.contains("merged nerve/made/2-bash into main: 1 file +1 -0"), "{done:?}");
    done.assert_stderr(0, &["removed 1-bash", "git branch -D nerve/made/1-bash"]);
    assert_eq!(fs::read_to_string(fixture.repository.join("made.txt")).unwrap(), "2-bash\n");
    assert!(!trees[0].exists() && trees[1].is_dir());
    assert_eq!(fixture.git(&["show", "nerve/made/1-bash:made.txt"]).trim(), "1-bash");
    assert_eq!(fixture.nodes(), ["made-2-bash"]);

    // The picked agent continues, and its next work can be picked too.
    fixture.home.ok(&["send", "made-2-bash", "echo more > more.txt"]);
    assert_eq!(fixture.fan_out(&["pick", "made/2"]).code, 0);
    assert!(fixture.repository.join("more.txt").is_file());
    fixture.home.ok(&["send", "made-2-bash", "echo last > last.txt"]);
    fixture.fan_out(&["clean", "made"]).assert_stderr(0, &["removed 2-bash", "nerve/made/2-bash"]);
    assert_eq!(fixture.git(&["show", "nerve/made/2-bash:last.txt"]).trim(), "last");
    assert!(!trees[1].exists() && fixture.nodes().is_empty());
    assert_eq!(fixture.json(&["list"]), json!({ "fan_outs": [] }));
}

#[test]
fn clean_with_discard_leaves_nothing() {
    let fixture = Fixture::new();
    let trees = fixture.two_shells("made", "echo x > made.txt");
    let done = fixture.json(&["clean", "--discard"]);
    assert_eq!(done["fan_outs"][0]["removed"], json!(["1-bash", "2-bash"]));
    assert_eq!(fixture.git(&["branch", "--list", "nerve/*"]), "");
    assert!(!trees[0].parent().unwrap().exists());
}

#[test]
fn fan_out_that_is_starting_is_not_removed() {
    let fixture = Fixture::new();
    let go = fixture.home.hermetic.work().join("go");
    let hook = fixture.repository.join(".git/hooks/post-checkout");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let wait = format!("for i in $(seq 1200); do [ -f '{}' ] && exit; sleep 0.05; done", go.display());
    fs::write(&hook, format!("#!/bin/sh\n{wait}\n")).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let args = ["fan-out", "-c", SHELL, "--name", "begin", "echo x > x.txt", "--json"];
    let mut command = fixture.home.command(&args);
    command.current_dir(&fixture.repository).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let count = || fixture.json(&["list"])["fan_outs"].as_array().unwrap().len();
    assert!(wait_until(DEADLINE, || count() == 1));
    for args in [&["clean", "begin"][..], &["clean", "begin", "--force", "--discard"], &["wait", "begin"]] {
        fixture.fan_out(args).assert_stderr(1, &["begin"]);
    }
    assert_eq!(count(), 1);
    fs::write(&go, "").unwrap();
    let done = CommandOutput::new(&child.wait_with_output().unwrap());
    assert_eq!(done.code, 0, "{done:?}");
    assert!(worktree(&done.json(), 0).join("x.txt").is_file());
    assert_eq!(fixture.fan_out(&["clean", "begin"]).code, 0);
}

#[test]
fn nested_repository_is_not_merged_as_an_empty_link() {
    let fixture = Fixture::new();
    let identity = "git -c user.name=a -c user.email=a@b";
    let vendor =
        format!("git init -q vendor; cd vendor; echo y > y.txt; git add y.txt; {identity} commit -qm y");
    let trees = fixture.two_shells("nest", &vendor);
    fixture.fan_out(&["pick", "nest/1"]).assert_stderr(1, &["vendor"]);
    assert!(!fixture.repository.join("vendor").exists());
    fixture.fan_out(&["clean", "nest"]).assert_stderr(1, &["1-bash", "2-bash", "vendor"]);
    assert!(trees.iter().all(|tree| tree.join("vendor/y.txt").is_file()));
    // A link that the agent has committed is as empty.
    fixture.home.hermetic.git(&trees[0], &["add", "--all"]);
    fixture.home.hermetic.git(&trees[0], &["commit", "--quiet", "--message", "Link"]);
    fixture.fan_out(&["pick", "nest/1"]).assert_stderr(1, &["vendor"]);
    // As files, they are merged.
    fs::remove_dir_all(trees[1].join("vendor/.git")).unwrap();
    assert_eq!(fixture.fan_out(&["pick", "nest/2", "--discard"]).code, 0);
    assert_eq!(fs::read_to_string(fixture.repository.join("vendor/y.txt")).unwrap(), "y\n");
    assert!(!trees[0].exists());
}

#[test]
fn git_of_ubuntu_22_04_can_clean_up() {
    let fixture = Fixture::new();
    let trees = fixture.two_shells("old", "true");
    let programs = fixture.home.hermetic.work().join("programs");
    fs::create_dir(&programs).unwrap();
    // git before 2.36 has no `worktree list -z`.
    let path = std::env::var("PATH").unwrap();
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *'worktree list'*-z*) exit 129;; esac\nPATH='{path}' exec git \"$@\"\n"
    );
    fs::write(programs.join("git"), script).unwrap();
    fs::set_permissions(programs.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = fixture.home.command(&["fan-out", "clean", "old"]);
    command.current_dir(&fixture.repository).env("PATH", format!("{}:{path}", programs.display()));
    let done = fixture.home.run(command);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(!trees.iter().any(|tree| tree.exists()));
}

#[test]
fn busy_fan_out_does_not_keep_the_others() {
    let fixture = Fixture::new();
    let task = "for i in $(seq 1200); do [ -f go ] && exit; sleep 0.05; done";
    let busy = fixture.fan_out(&["-c", SHELL, "--name", "busy", "--no-wait", task, "--json"]);
    assert_eq!(busy.code, 0, "{busy:?}");
    let idle = fixture.two_shells("idle", "true");
    let done = fixture.fan_out(&["clean", "--all", "--json"]);
    done.assert_stderr(1, &["1-bash"]);
    let report = &done.json()["fan_outs"];
    assert_eq!(report[0]["kept"][0]["label"], "1-bash", "{report}");
    assert_eq!(report[1]["removed"], json!(["1-bash", "2-bash"]));
    assert!(worktree(&busy.json(), 0).is_dir() && !idle[0].exists());
    assert_eq!(fixture.fan_out(&["clean", "--all", "--force"]).code, 0);
}

#[test]
fn conflicts_undo_the_merge_and_remove_nothing() {
    let fixture = Fixture::new();
    let trees = fixture.two_shells("made", "echo agent > README");
    fixture.write("README", "mine\n");
    let done = fixture.fan_out(&["pick", "1"]);
    done.assert_stderr(1, &["README"]);
    assert_eq!(fs::read_to_string(fixture.repository.join("README")).unwrap(), "mine\n");

    fixture.git(&["commit", "--quiet", "--all", "--message", "Mine"]);
    fixture.fan_out(&["pick", "1"]).assert_stderr(1, &["README", "git merge nerve/made/1-bash"]);
    assert_eq!(fixture.git(&["status", "--porcelain"]), "");
    assert!(trees.iter().all(|tree| tree.is_dir()));

    let mut merge = fixture.home.hermetic.command("git");
    merge.current_dir(&fixture.repository).args(["merge", "nerve/made/1-bash"]);
    assert!(!merge.output().unwrap().status.success());
    fixture.fan_out(&["pick", "2"]).assert_stderr(1, &["git merge --abort"]);
    fixture.git(&["merge", "--abort"]);
    fixture.at(&trees[0], &["pick", "2"]).assert_stderr(2, &["cd "]);
}

#[test]
fn blocked_attempt_is_reported_and_waited_for() {
    let fixture = Fixture::new();
    let agents = format!("{NERVE} mock-agent,{SHELL}");
    fixture.home.ok(&["session", "create", "other"]);
    fixture.home.ok(&["new", "ask-2-bash", "--session", "other", "-c", &format!("{NERVE} mock-agent")]);
    let mut command =
        fixture.home.command(&["fan-out", "-c", &agents, "--name", "ask", "true # PERMIT", "--json"]);
    command.current_dir(&fixture.repository).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let info = || fixture.home.nerve(&["node", "info", "ask-1-nerve", "--json"]);
    let is_blocked = || info().code == 0 && info().json()["state"] == "blocked";
    assert!(wait_until(DEADLINE, is_blocked));
    fixture.fan_out(&["clean", "ask"]).assert_stderr(1, &["1-nerve", "--force"]);
    assert_eq!(fixture.home.nerve(&["send", "ask-2-bash", "--session", "other", "true # PERMIT"]).code, 5);
    fixture.home.ok(&["answer", "ask-1-nerve", "1"]);
    let done = CommandOutput::new(&child.wait_with_output().unwrap());
    done.assert_stderr(0, &["1-nerve: blocked by a dialog", "'nerve answer ask-1-nerve CHOICE'", "1. Yes"]);
    assert!(!done.stderr.contains("2-bash: blocked"), "that node is in another session: {}", done.stderr);
    let states: Vec<Value> =
        done.json()["attempts"].as_array().unwrap().iter().map(|one| one["state"].clone()).collect();
    assert_eq!(states, ["completed", "completed"]);
}

#[test]
fn list_and_diff_know_how_attempts_end_without_wait() {
    let fixture = Fixture::new();
    let begin = |agents: &str, name: &str, task: &str| {
        let done =
            fixture.fan_out(&["-c", agents, "--name", name, "--test", "test -f a.txt", "--no-wait", task]);
        assert_eq!(done.code, 0, "{done:?}");
    };
    let attempts = |name: &str| {
        let list = fixture.json(&["list"]);
        let all = list["fan_outs"].as_array().unwrap();
        all.iter().find(|one| one["name"] == name).unwrap()["attempts"].clone()
    };
    let states = |name: &str| {
        let all = attempts(name);
        all.as_array()
            .unwrap()
            .iter()
            .map(|one| one["state"].as_str().unwrap().into())
            .collect::<Vec<String>>()
    };
    let becomes = |name: &str, wanted: &[&str]| {
        assert!(wait_until(DEADLINE, || states(name) == wanted), "{name}: {:?}", attempts(name));
    };
    begin(SHELL, "done", "echo a > a.txt");
    becomes("done", &["completed"]);
    let done = &attempts("done")[0];
    assert_eq!((&done["exit_code"], &done["test"]["exit_code"]), (&json!(0), &json!(0)), "{done}");
    let diff = fixture.fan_out(&["diff", "done"]);
    assert!(diff.stdout.contains("completed") && diff.stdout.contains("passed"), "{diff:?}");

    begin(&format!("{NERVE} mock-agent,{SHELL}"), "ask", "echo a > a.txt # PERMIT");
    becomes("ask", &["blocked", "completed"]);
    assert!(fixture.fan_out(&["list"]).stdout.contains("blocked"));
    // Without the server, states are read from the journal.
    fixture.home.kill_server("default");
    becomes("ask", &["interrupted", "completed"]);
    becomes("done", &["completed"]);
    assert_eq!(attempts("done")[0]["exit_code"], 0);
    fixture.home.ok(&["server", "start"]);
    becomes("ask", &["interrupted", "completed"]);
    assert_eq!(fixture.fan_out(&["wait", "done"]).code, 0);
}

#[test]
fn ctrl_c_leaves_agents_running_and_wait_continues() {
    let fixture = Fixture::new();
    let task = "until [ -f go ]; do sleep 0.05; done; echo x > made.txt";
    let mut command = fixture.home.command(&["fan-out", "-c", SHELL, "--name", "go", task]);
    command.current_dir(&fixture.repository).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let info = || fixture.home.nerve(&["node", "info", "go-1-bash", "--json"]);
    assert!(wait_until(DEADLINE, || info().code == 0 && info().json()["state"] == "busy"));
    signal(child.id(), Signal::INT);
    let done = CommandOutput::new(&child.wait_with_output().unwrap());
    done.assert_stderr(130, &["fan-out 'go'", "nerve fan-out wait go"]);

    let tree = worktree(&fixture.json(&["list"])["fan_outs"][0], 0);
    fs::write(tree.join("go"), "").unwrap();
    let done = fixture.json(&["wait", "go"]);
    assert_eq!(done["attempts"][0]["changes"]["files"], 2, "{done:#}");
}

#[test]
fn attempt_that_cannot_start_does_not_stop_the_others() {
    let fixture = Fixture::new();
    let agents = format!("no-such-agent,{SHELL},{NERVE} mock-agent --exit-at-once 7");
    let done = fixture.fan_out(&["-c", &agents, "--name", "some", "echo x > x.txt", "--json"]);
    done.assert_stderr(0, &["1-no-such cannot start"]);
    let all = done.json();
    let codes: Vec<bool> =
        all["attempts"].as_array().unwrap().iter().map(|one| one["exit_code"] == 0).collect();
    assert_eq!(codes, [false, true, false], "{all:#}");
    assert!(!worktree(&all, 0).exists());
    assert_eq!(fixture.git(&["branch", "--list", "nerve/some/1*"]), "");

    let none = fixture.fan_out(&["-n", "2", "-c", "no-such-agent", "--name", "none", "x y"]);
    assert!(none.code != 0 && none.stderr.contains("no attempt could be started"), "{none:?}");
    assert_eq!(fixture.git(&["branch", "--list", "nerve/none/*"]), "");
    assert_eq!(fixture.json(&["list"])["fan_outs"].as_array().unwrap().len(), 1);
}

#[test]
fn failed_attempts_and_tests_decide_the_exit_code() {
    let fixture = Fixture::new();
    let run = |name: &str, test: &str, task: &str| {
        fixture.fan_out(&["-c", SHELL, "--name", name, "--test", test, task, "--json"])
    };
    let done = run("red", "exit 3", "true");
    done.assert_stderr(1, &["test"]);
    assert_eq!(done.json()["attempts"][0]["test"]["exit_code"], 3);
    // Templates and quotes in a test or a task are plain text.
    let done = run("plain", "test '{{ input }}' = '{{ input }}' && test -f '{{x}}'", "echo > '{{x}}'");
    assert_eq!(done.code, 0, "{done:?}");
    let late = ["-c", SHELL, "--name", "late", "-t", "1", "--test", "true", "sleep 1000", "--json"];
    let late = fixture.fan_out(&late);
    assert!(late.json()["attempts"][0]["test"].is_null(), "it did not run: {late:?}");
    late.assert_code(4);
    assert_eq!(late.json()["attempts"][0]["state"], "failed");
}

#[test]
fn included_files_are_copied_if_they_are_ignored() {
    let fixture = Fixture::new();
    fixture.write("settings.local", "key=1\n");
    fixture.write("other.local", "no\n");
    fixture.write("untracked.txt", "not ignored\n");
    fs::create_dir_all(fixture.repository.join("secret/deep")).unwrap();
    fixture.write("secret/deep/key", "k\n");
    symlink("deep/key", fixture.repository.join("secret/link")).unwrap();
    fs::create_dir(fixture.repository.join(".nerve")).unwrap();
    fixture.write(".nerve/worktree-include", "# needed\n/settings.local\nsecret\nuntracked.txt\n");
    let done = fixture.fan_out(&["-c", SHELL, "--name", "inc", "true", "--json"]);
    done.assert_stderr(0, &["uncommitted changes in 2 files"]);
    let tree = worktree(&done.json(), 0);
    assert_eq!(files(&tree), [".gitignore", "README", "secret", "settings.local"]);
    assert_eq!(fs::read_to_string(tree.join("secret/link")).unwrap(), "k\n");
    assert_eq!(done.json()["attempts"][0]["changes"]["files"], 0);
    fixture.fan_out(&["pick", "1"]).assert_stderr(1, &["changes"]);

    symlink("/etc/passwd", fixture.repository.join("secret/out")).unwrap();
    let done = fixture.fan_out(&["-c", SHELL, "--name", "out", "true"]);
    done.assert_stderr(2, &["secret/out"]);
    assert_eq!(fixture.json(&["list"])["fan_outs"].as_array().unwrap().len(), 1);
}

#[test]
fn submodules_are_removed_if_no_work_in_them_is_lost() {
    let fixture = Fixture::new();
    // git clones submodules from local directories only if it is allowed.
    let config = fixture.home.hermetic.home().join(".gitconfig");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text + "[protocol \"file\"]\nallow = always\n").unwrap();
    let library = fixture.home.hermetic.work().join("library");
    fs::create_dir(&library).unwrap();
    let in_library = |args: &[&str]| fixture.home.hermetic.git(&library, args);
    in_library(&["init", "--quiet"]);
    in_library(&["commit", "--quiet", "--allow-empty", "--message", "Begin"]);
    fixture.git(&["submodule", "--quiet", "add", library.to_str().unwrap(), "deps/lib"]);
    fixture.git(&["commit", "--quiet", "--message", "Add the library"]);

    let clean = fixture.two_shells("sub", "git submodule --quiet update --init; basename \"$PWD\" > x.txt");
    fixture.fan_out(&["pick", "sub/1"]).assert_stderr(0, &["removed 2-bash"]);
    fixture.fan_out(&["clean", "sub"]).assert_stderr(0, &["removed 1-bash"]);
    assert!(!clean[0].exists() && !clean[1].exists());
    assert_eq!(fixture.git(&["show", "nerve/sub/2-bash:x.txt"]).trim(), "2-bash");
    // A submodule without files is no obstacle.
    fixture.two_shells("empty", "true");
    assert_eq!(fixture.fan_out(&["clean", "empty"]).code, 0);

    let task = "git submodule --quiet update --init; cd deps/lib; echo $(basename $OLDPWD) > new.txt";
    let own = fixture.two_shells("own", task);
    fixture.fan_out(&["clean", "own"]).assert_stderr(1, &["1-bash", "uncommitted"]);
    for tree in &own {
        let submodule = tree.join("deps/lib");
        fixture.home.hermetic.git(&submodule, &["add", "--all"]);
        fixture.home.hermetic.git(&submodule, &["commit", "--quiet", "--message", "New"]);
    }
    fixture.fan_out(&["clean", "own"]).assert_stderr(1, &["2-bash", "commits"]);
    assert!(own.iter().all(|tree| tree.join("deps/lib/new.txt").is_file()));
    // One commit is pushed, the other one is fetched into the user's checkout.
    fixture
        .home
        .hermetic
        .git(&own[0].join("deps/lib"), &["push", "--quiet", "origin", "HEAD:refs/heads/one"]);
    let other = own[1].join("deps/lib");
    let user = fixture.repository.join("deps/lib");
    fixture.home.hermetic.git(&user, &["fetch", "--quiet", other.to_str().unwrap(), "HEAD:refs/heads/two"]);
    assert_eq!(fixture.fan_out(&["clean", "own"]).code, 0);
    assert!(!own[0].exists() && !own[1].exists());
}

#[test]
fn worktree_deleted_by_hand_is_no_obstacle() {
    let fixture = Fixture::new();
    let task = "echo x > x.txt; git add --all; git commit -q -m x; echo y > y.txt";
    let trees = fixture.two_shells("gone", task);
    fs::remove_dir_all(&trees[0]).unwrap();
    let list = fixture.fan_out(&["list"]);
    assert!(list.stdout.contains("missing"), "{list:?}");
    assert!(fixture.fan_out(&["diff", "1"]).stdout.contains("x.txt"));
    // What was committed is still there.
    assert_eq!(fixture.fan_out(&["pick", "1"]).code, 0);
    assert!(fixture.repository.join("x.txt").is_file() && !fixture.repository.join("y.txt").exists());
    assert_eq!(fixture.git(&["show", "nerve/gone/2-bash:y.txt"]).trim(), "y");
    assert_eq!(fixture.fan_out(&["clean"]).code, 0);
    assert_eq!(fixture.git(&["worktree", "list"]).lines().count(), 1);
}

#[test]
fn prune_removes_worktrees_without_work_of_their_own() {
    let fixture = Fixture::new();
    let unchanged = fixture.two_shells("none", "true");
    let picked = fixture.two_shells("made", "echo x > x.txt");
    assert_eq!(fixture.fan_out(&["pick", "made/1"]).code, 0);
    let changed = fixture.two_shells("own", "echo $(basename \"$PWD\") > y.txt");
    fixture.home.hermetic.git(&changed[1], &["add", "--all"]);
    fixture.home.hermetic.git(&changed[1], &["commit", "--quiet", "--message", "Mine"]);
    let prune = |more: &[&str]| {
        let done = fixture.home.nerve(&[&["prune", "--older-than", "0s", "--json"], more].concat());
        assert_eq!(done.code, 0, "{done:?}");
        let data = done.json()["data"].as_array().unwrap().clone();
        data.into_iter().find(|data| data["kind"] == "worktrees").unwrap()
    };
    let files = |data: &Value| [&data["removed"], &data["kept"]].map(|one| one["files"].as_u64().unwrap());
    // Agents still run in all of them.
    assert_eq!(files(&prune(&[])), [0, 5]);
    for node in fixture.nodes() {
        fixture.home.ok(&["stop", &node]);
    }
    let dry = prune(&["--dry-run"]);
    assert_eq!(files(&dry), [3, 2], "{dry}");
    assert!(dry["removed"]["bytes"].as_u64().unwrap() > 0 && unchanged[0].is_dir(), "{dry}");
    let young = fixture.home.nerve(&["prune", "--older-than", "1h", "--dry-run"]);
    let is_kept = |line: &str| line.split_whitespace().collect::<Vec<_>>().starts_with(&["worktrees", "0"]);
    assert!(young.stdout.lines().any(is_kept), "{young:?}");
    assert_eq!(files(&prune(&[])), [3, 2]);
    assert!(!unchanged.iter().chain(&picked).any(|tree| tree.exists()));
    assert_eq!(fs::read_to_string(changed[0].join("y.txt")).unwrap(), "1-bash\n");
    assert_eq!(fixture.git(&["show", "nerve/own/2-bash:y.txt"]).trim(), "2-bash");
    let left: Vec<Value> = fixture.json(&["list"])["fan_outs"].as_array().unwrap().clone();
    assert_eq!(left.iter().map(|one| one["name"].clone()).collect::<Vec<_>>(), ["own"]);
}

#[test]
fn foreign_directory_at_the_worktree_is_left_alone() {
    let fixture = Fixture::new();
    let trees = fixture.two_shells("mine", "true");
    fixture.git(&["worktree", "remove", trees[0].to_str().unwrap()]);
    fs::create_dir(&trees[0]).unwrap();
    fs::write(trees[0].join("precious"), "x").unwrap();
    fixture.fan_out(&["clean", "--discard"]).assert_stderr(1, &["1-bash", "worktree"]);
    assert!(trees[0].join("precious").is_file() && !trees[1].exists());
}

#[test]
fn state_survives_the_server() {
    let fixture = Fixture::new();
    let trees = fixture.two_shells("old", "echo x > x.txt");
    fixture.home.ok(&["server", "stop"]);
    assert!(fixture.fan_out(&["wait", "old"]).stdout.contains("1 file +1 -0"));
    let done = fixture.fan_out(&["pick", "old/1"]);
    done.assert_stderr(0, &["not running", "removed 2-bash"]);
    assert!(!trees[1].exists());
    fixture.fan_out(&["-c", SHELL, "x y"]).assert_stderr(3, &["nerve server start"]);
}

#[test]
fn ambiguous_names_list_candidates() {
    let fixture = Fixture::new();
    fixture.two_shells("one", "true");
    fixture.two_shells("other", "true");
    fixture.fan_out(&["pick", "1"]).assert_stderr(2, &["ambiguous", "one/1-bash, other/1-bash"]);
    fixture.fan_out(&["clean", "o"]).assert_stderr(2, &["ambiguous", "one, other"]);
    fixture.fan_out(&["wait"]).assert_stderr(2, &["one, other"]);
    fixture.fan_out(&["pick", "one"]).assert_stderr(2, &["one/1-bash, one/2-bash"]);
    fixture.fan_out(&["diff", "x"]).assert_stderr(3, &["'x'"]);
    fixture.fan_out(&["-c", SHELL, "--name", "one", "x y"]).assert_stderr(2, &["'one'", "--name"]);
    // Outside of a repository all are listed, but nothing is merged.
    let outside = fixture.home.hermetic.work();
    assert!(fixture.at(&outside, &["list"]).stdout.contains("other/2-bash"));
    fixture.at(&outside, &["pick", "one/1"]).assert_code(2);
    assert_eq!(fixture.fan_out(&["clean", "--all"]).code, 0);
    fixture.fan_out(&["clean"]).assert_code(3);
}

#[test]
fn bad_input_starts_nothing() {
    let fixture = Fixture::new();
    let outside = fixture.home.hermetic.work();
    fixture.at(&outside, &["x y"]).assert_stderr(2, &["git init"]);
    let empty = outside.join("empty");
    fs::create_dir(&empty).unwrap();
    fixture.home.hermetic.git(&empty, &["init", "--quiet"]);
    fixture.at(&empty, &["x y"]).assert_code(2);
    let cases: [(&[&str], &str); 10] = [
        (&["pikc"], "nerve fan-out pick"),
        (&["-n", "0", "x y"], "--attempts"),
        (&["-n", "33", "x y"], "--attempts"),
        (&["-n", "2", "-c", "bash --norc,cat,sh", "x y"], "3 agents are given, but only 2 attempts"),
        (&["--name", "../x", "x y"], "not allowed"),
        (&["--name", "a-name-that-is-far-too-long", "x y"], "characters"),
        (&["-c", "claude,,codex", "x y"], "is no command"),
        (&["-s", "tcp://127.0.0.1:1", "x y"], "server's machine"),
        (&[" "], "prompt"),
        (&[], "required"),
    ];
    for (args, words) in cases {
        fixture.fan_out(args).assert_stderr(2, &[words]);
    }
    let mut without_git = fixture.home.command(&["fan-out", "x y"]);
    without_git.current_dir(&fixture.repository).env("PATH", &empty);
    fixture.home.run(without_git).assert_stderr(1, &["git", "hint"]);
    assert_eq!(fixture.json(&["list"]), json!({ "fan_outs": [] }));
    assert_eq!(fixture.git(&["branch", "--list", "nerve/*"]), "");
}

#[test]
fn prompt_may_begin_with_a_dash_or_come_from_a_file() {
    let fixture = Fixture::new();
    let agent = format!("{NERVE} mock-agent");
    let done = fixture.json(&["-c", &agent, "-n1", "- one thing"]);
    assert_eq!((&done["task"], &done["name"]), (&json!("- one thing"), &json!("one-thing")));
    fixture.write("task.local", "From a file\n");
    let done = fixture.json(&["-c", &agent, "--file", "task.local", "--no-wait"]);
    assert_eq!((&done["name"], &done["attempts"][0]["state"]), (&json!("from-a-file"), &json!("running")));
    assert_eq!(fixture.json(&["wait", "from"])["attempts"][0]["state"], "completed");
}

#[test]
fn full_disk_undoes_the_worktrees() {
    let fixture = Fixture::new();
    fixture.write("large", &"x".repeat(300_000));
    fixture.git(&["add", "large"]);
    fixture.git(&["commit", "--quiet", "--message", "Large"]);
    let worktrees = fixture.home.hermetic.nerve_home().join("worktrees");
    let test = "fan_out::full_disk_undoes_the_worktrees";
    let Some(disk) = SmallDisk::mount(test, &worktrees, "200k") else { return };
    let done = fixture.fan_out(&["-n", "2", "-c", SHELL, "--name", "full", "x y"]);
    done.assert_stderr(1, &["df -h"]);
    assert_eq!(fixture.git(&["branch", "--list", "nerve/*"]), "");
    assert_eq!(fixture.git(&["worktree", "list"]).lines().count(), 1);
    assert_eq!(fixture.json(&["list"]), json!({ "fan_outs": [] }));
    drop(disk);
}

#[test]
fn wait_reports_the_timeout_of_attempts_that_ended_before() {
    let fixture = Fixture::new();
    let started =
        fixture.fan_out(&["-c", SHELL, "--name", "slow", "--timeout", "1", "--no-wait", "sleep 600"]);
    assert_eq!(started.code, 0, "{started:?}");
    let is_over = || {
        let runs = fixture.home.nerve(&["graph", "list", "--runs", "--json"]).stdout;
        !runs.contains("\"running\"") && runs.contains("failed")
    };
    assert!(wait_until(DEADLINE, is_over), "{:?}", fixture.home.nerve(&["graph", "status"]));
    let waited = fixture.fan_out(&["wait", "slow"]);
    assert_eq!(waited.code, 4, "{waited:?}");
}

#[test]
fn total_budget_stops_all_attempts() {
    let fixture = Fixture::new();
    let agents = ["-n", "2", "-c", SHELL, "--name", "dear"];
    let limits = ["--total-time", "1", "--at-limit", "stop", "--json", "sleep 600"];
    let done = fixture.fan_out(&[&agents[..], &limits[..]].concat());
    assert_eq!(done.code, 1, "{done:?}");
    for attempt in done.json()["attempts"].as_array().unwrap() {
        assert_eq!((&attempt["state"], &attempt["exit_code"]), (&json!("failed"), &json!(1)), "{attempt}");
        assert_eq!(attempt["error_type"], "budget_exceeded", "{attempt}");
        assert!(attempt["error"].as_str().unwrap().starts_with("Time limit exceeded"), "{attempt}");
    }
    let waits = |node: &str| fixture.home.nerve(&["wait", node, "--timeout", "20"]).code == 0;
    assert!(waits("dear-1-bash") && waits("dear-2-bash"), "the agents still work");
}

#[test]
fn total_budget_asks_once_for_all_attempts() {
    let fixture = Fixture::new();
    let task = "until [ -f go ]; do sleep 0.05; done";
    let args =
        ["-n", "2", "-c", SHELL, "--name", "ask", "--test", "true", "--total-time", "1", "--no-wait", task];
    assert_eq!(fixture.fan_out(&args).code, 0);
    let list = fixture.json(&["list"])["fan_outs"][0].clone();
    let run = list["run_id"].as_str().unwrap().to_string();
    let gates = || {
        let status = fixture.home.nerve(&["graph", "status", &run, "--json"]).json();
        status["gates"].as_array().cloned().unwrap_or_default()
    };
    assert!(wait_until(DEADLINE, || !gates().is_empty()));
    let gate = &gates()[0];
    assert_eq!(gate["step_id"], "@max_time_ms#1");
    assert!(gate["question"].as_str().unwrap().contains("/1s"), "{gate}");
    for index in 0..2 {
        fs::write(worktree(&list, index).join("go"), "").unwrap();
    }
    fixture.home.ok(&["graph", "answer", &run, "continue"]);
    // A slow machine may need more than another second.
    let mut wait = fixture.home.command(&["fan-out", "wait", "ask", "--json"]);
    wait.current_dir(&fixture.repository).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = wait.spawn().unwrap();
    assert!(wait_until(DEADLINE, || {
        if !gates().is_empty() {
            fixture.home.nerve(&["graph", "answer", &run, "continue"]);
        }
        child.try_wait().unwrap().is_some()
    }));
    let done = CommandOutput::new(&child.wait_with_output().unwrap());
    assert_eq!(done.code, 0, "{done:?}");
    for attempt in done.json()["attempts"].as_array().unwrap() {
        assert_eq!((&attempt["state"], &attempt["test"]["exit_code"]), (&json!("completed"), &json!(0)));
    }
}

#[test]
fn action_at_a_limit_needs_a_limit() {
    let fixture = Fixture::without_server();
    fixture.fan_out(&["--at-limit", "stop", "x y"]).assert_stderr(2, &["--at-limit"]);
}
