//! `nerve tmux` and `nerve wezterm`: panes without a nerve server. tmux is real; WezTerm is the testkit's stand-in for it.

use nerve_testkit::harness::{CommandOutput, FakeWezterm, TmuxServer};
use nerve_testkit::wait_until;

use crate::harness::{DEADLINE, Home};

/// A tmux server of a test's own, in a home of its own; it ends with the test.
pub(crate) struct Tmux {
    // Before the home, which it must not outlive.
    pub(crate) server: TmuxServer,
    pub(crate) home: Home,
    /// Socket of the tmux server.
    pub(crate) socket: String,
}

impl Tmux {
    /// Starts tmux. Returns `None`, and records a skip of `test`, without tmux.
    pub(crate) fn new(test: &str) -> Option<Tmux> {
        let home = Home::new();
        let server = TmuxServer::new(test, &home.hermetic, "tmux.sock")?;
        let socket = server.socket().display().to_string();
        Some(Tmux { server, home, socket })
    }

    /// Runs `nerve tmux` on this server.
    pub(crate) fn nerve(&self, args: &[&str]) -> CommandOutput {
        self.with_input(args, "")
    }

    pub(crate) fn with_input(&self, args: &[&str], input: &str) -> CommandOutput {
        self.home.nerve_with(&[&["tmux", "--socket", &self.socket], args].concat(), input)
    }

    /// Runs a command that must succeed and returns its stdout.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let done = self.nerve(args);
        assert_eq!(done.code, 0, "{args:?}: {done:?}");
        done.stdout
    }

    /// Waits until a pane shows a text.
    pub(crate) fn wait_for(&self, pane: &str, text: &str) {
        let shown = || self.ok(&["read", pane]).contains(text);
        assert!(wait_until(DEADLINE, shown), "{text:?} is not in {:?}", self.ok(&["read", pane, "--full"]));
    }
}

/// A program that prints each line that it reads.
const ECHO: &str = "sh -c 'echo up; while read -r line; do echo \"got [$line]\"; done'";

#[test]
fn pane_is_created_used_and_closed() {
    let Some(tmux) = Tmux::new("pane_is_created_used_and_closed") else { return };
    let work = tmux.home.hermetic.work();
    let pane =
        tmux.ok(&["spawn", "-c", ECHO, "-n", "talk", "--session", "work", "--cols", "90", "--rows", "20"]);
    let pane = pane.trim_end();
    assert!(pane.starts_with('%'), "{pane}");
    tmux.wait_for(pane, "up");

    tmux.ok(&["send", pane, "hello there"]);
    tmux.wait_for(pane, "got [hello there]");
    // Without Enter the text is not submitted; `--key enter` submits it.
    tmux.ok(&["send", pane, "half", "--no-submit"]);
    tmux.wait_for(pane, "half");
    tmux.ok(&["send", pane, " a line", "--key", "enter"]);
    tmux.wait_for(pane, "got [half a line]");
    // Standard input is verbatim: not the name of a key, and no option.
    assert_eq!(tmux.with_input(&["send", pane, "-"], "C-c -x ä 日本\n").code, 0);
    tmux.wait_for(pane, "got [C-c -x ä 日本]");

    let listed = tmux.nerve(&["list", "--json"]).json();
    let found = &listed["panes"][0];
    assert_eq!((&found["pane_id"], &found["session"]), (&pane.into(), &"work".into()));
    assert_eq!((&found["cols"], &found["multiplexer"]), (&90.into(), &"tmux".into()));
    assert_eq!(found["cwd"], work.to_str().unwrap());
    let table = tmux.ok(&["list"]);
    assert!(table.starts_with("PANE") && table.contains("work") && table.contains("90x"), "{table}");

    let last = tmux.ok(&["read", pane, "-n", "1"]);
    assert_eq!(last, "got [C-c -x ä 日本]\n");
    assert_eq!(tmux.nerve(&["read", pane, "-n", "1", "--json"]).json()["text"], "got [C-c -x ä 日本]");

    tmux.ok(&["kill", pane]);
    // The server has ended with its last pane.
    tmux.nerve(&["read", pane]).assert_stderr(3, &["error", "hint"]);
    tmux.nerve(&["list"]).assert_stderr(3, &["nerve tmux spawn"]);
}

#[test]
fn scrollback_is_read_on_request() {
    let Some(tmux) = Tmux::new("scrollback_is_read_on_request") else { return };
    let pane = tmux.ok(&["spawn", "-c", "sh -c 'seq 1 200; echo END; exec sleep 1000'", "--rows", "10"]);
    let pane = pane.trim_end();
    tmux.wait_for(pane, "END");
    assert!(!tmux.ok(&["read", pane]).contains("\n150\n"));
    assert!(tmux.ok(&["read", pane, "--full"]).starts_with("1\n2\n"));
    assert_eq!(tmux.ok(&["read", pane, "-n", "3"]), "199\n200\nEND\n");
    tmux.nerve(&["read", pane, "-f", "-n", "3"]).assert_code(2);
}

#[test]
fn interrupt_sends_a_key() {
    let Some(tmux) = Tmux::new("interrupt_sends_a_key") else { return };
    let pane = tmux.ok(&["spawn", "-c", "bash --norc -i", "-e", "PS1=ready> "]);
    let pane = pane.trim_end();
    tmux.wait_for(pane, "ready>");
    tmux.ok(&["send", pane, "sleep 1000; echo never"]);
    tmux.ok(&["send", pane, "--key", "C-c"]);
    tmux.wait_for(pane, "^C");
    tmux.ok(&["send", pane, "echo $((40 + 2))"]);
    tmux.wait_for(pane, "\n42\n");
}

#[test]
fn failures_are_reported() {
    let Some(tmux) = Tmux::new("failures_are_reported") else { return };
    tmux.nerve(&["list"]).assert_code(3);
    tmux.nerve(&["spawn", "-c", "'open"]).assert_code(2);
    tmux.nerve(&["spawn", "-c", " "]).assert_stderr(2, &["empty"]);
    tmux.nerve(&["spawn", "--cwd", "/no/such"]).assert_stderr(1, &["/no/such"]);
    tmux.ok(&["spawn", "-c", "sleep 1000"]);
    for command in
        [&["read", "%99"][..], &["send", "%99", "x"], &["kill", "%99"], &["send", "%99", "--key", "enter"]]
    {
        tmux.nerve(command).assert_stderr(3, &["%99", "nerve tmux list"]);
    }
    tmux.nerve(&["send", "%0"]).assert_stderr(2, &["required"]);
    tmux.nerve(&["send", "%0", "--key", "hyperspace"]).assert_stderr(2, &["hyperspace"]);
    // The program is missing.
    let mut command = tmux.home.command(&["tmux", "list"]);
    command.env("PATH", tmux.home.hermetic.work());
    tmux.home.run(command).assert_stderr(1, &["program 'tmux'", "nerve doctor"]);
    let mut command = tmux.home.command(&["wezterm", "list", "--json"]);
    command.env("PATH", tmux.home.hermetic.work());
    tmux.home.run(command).assert_stderr(1, &["wezterm", "\"code\":1"]);
}

#[test]
fn pane_node_needs_matching_options() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let create = |args: &[&str]| home.nerve(&[&["server", "node", "create", "n"], args].concat());
    create(&["--pane-id", "%1"]).assert_stderr(2, &["--pane-id"]);
    create(&["-b", "bash", "--socket", "x"]).assert_stderr(2, &["--socket"]);
    create(&["-b", "wezterm", "--tmux-session", "x"]).assert_stderr(2, &["--tmux-session"]);
    create(&["-b", "tmux", "--pane-id", "%1", "-c", "bash"])
        .assert_stderr(2, &["--command", "pane %1", "--profile"]);
    create(&["-b", "tmux", "--pane-id", "%1", "--cwd", "/"]).assert_stderr(2, &["--cwd"]);
    create(&["-b", "claude", "-c", "vim"]).assert_stderr(2, &["Command must contain 'claude'"]);
}

#[test]
fn doctor_lists_multiplexers() {
    let Some(tmux) = Tmux::new("doctor_lists_multiplexers") else { return };
    let home = &tmux.home;
    let check = |done: &CommandOutput, name: &str| {
        let checks = done.json()["checks"].as_array().unwrap().clone();
        checks.into_iter().find(|check| check["name"] == name).unwrap()
    };
    let found = check(&home.nerve(&["doctor", "--json"]), "tmux");
    assert_eq!((&found["ok"], &found["hint"]), (&true.into(), &serde_json::Value::Null));
    assert!(found["found"].as_str().unwrap().starts_with("tmux "), "{found}");

    // An old tmux, and a WezTerm.
    let bin = home.hermetic.work().join("bin");
    std::fs::create_dir(&bin).unwrap();
    for (name, says) in [("tmux", "tmux 2.9a"), ("wezterm", "wezterm 20240203-110809-5046fc22")] {
        let path = bin.join(name);
        std::fs::write(&path, format!("#!/bin/sh\necho '{says}'\n")).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut command = home.command(&["doctor", "--json"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    let done = home.run(command);
    let old = check(&done, "tmux");
    assert_eq!(old["ok"], false);
    assert!(old["found"].as_str().unwrap().contains("2.9a is too old"), "{old}");
    let wezterm = check(&done, "wezterm");
    assert_eq!(wezterm["ok"], true);
    assert!(wezterm["found"].as_str().unwrap().starts_with("wezterm 20240203"), "{wezterm}");
}

/// The testkit's stand-in for WezTerm, with a server in its own home; both end with the test.
struct Wezterm {
    server: FakeWezterm,
    home: Home,
}

impl Wezterm {
    fn start() -> Wezterm {
        let home = Home::new();
        Wezterm { server: FakeWezterm::start(&home.hermetic), home }
    }

    fn nerve(&self, args: &[&str]) -> CommandOutput {
        let mut command = self.home.command(args);
        command.env("NERVE_WEZTERM", FakeWezterm::program());
        command.env("WEZTERM_UNIX_SOCKET", self.server.socket());
        self.home.run(command)
    }
}

#[test]
fn wezterm_stand_in_behaves_like_tmux() {
    let wezterm = Wezterm::start();
    let spawned = wezterm.nerve(&["wezterm", "spawn", "-c", ECHO, "-n", "talk"]);
    spawned.assert_stderr(0, &["--name is ignored"]);
    let pane = spawned.stdout.trim_end().to_string();
    let shows = |text: &str| wezterm.nerve(&["wezterm", "read", &pane]).stdout.contains(text);
    assert!(wait_until(DEADLINE, || shows("up")));
    assert_eq!(wezterm.nerve(&["wezterm", "send", &pane, "hello there"]).code, 0);
    assert!(wait_until(DEADLINE, || shows("got [hello there]")));
    assert_eq!(wezterm.nerve(&["wezterm", "send", &pane, "half", "--key", "enter"]).code, 0);
    assert!(wait_until(DEADLINE, || shows("got [half]")));
    assert_eq!(wezterm.nerve(&["wezterm", "read", &pane, "-n", "1"]).stdout, "got [half]\n");
    let listed = wezterm.nerve(&["wezterm", "list", "--json"]).json();
    assert_eq!(
        (&listed["panes"][0]["pane_id"], &listed["panes"][0]["multiplexer"]),
        (&pane.as_str().into(), &"wezterm".into())
    );
    let extracted = wezterm.nerve(&["extract", "--pane", &pane, "--full", "--raw"]);
    assert!(extracted.stdout.starts_with("up\n"), "{extracted:?}");
    for command in [&["read", "999"][..], &["send", "999", "x"], &["kill", "999"], &["read", "%3"]] {
        wezterm.nerve(&[&["wezterm"], command].concat()).assert_stderr(3, &["nerve wezterm list"]);
    }
    assert_eq!(wezterm.nerve(&["wezterm", "kill", &pane]).code, 0);
    wezterm.nerve(&["wezterm", "read", &pane]).assert_code(3);
    // No server listens on the socket.
    wezterm.nerve(&["wezterm", "list", "--socket", "/no/such"]).assert_stderr(3, &["wezterm-mux-server"]);
}
