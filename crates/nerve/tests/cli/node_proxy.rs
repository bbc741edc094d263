//! A node with its own proxy at the command line: it survives the server's death and reports when it cannot.

use std::fs;
use std::net::TcpListener;

use nerve_testkit::harness::CommandOutput;
use nerve_testkit::mock_model::{MockModel, Script};
use nerve_testkit::wait_until;
use serde_json::Value;

use crate::harness::{DEADLINE, Home};

/// A scripted model that answers while the test waits for commands.
struct Model {
    model: MockModel,
    _runtime: tokio::runtime::Runtime,
}

impl Model {
    fn start() -> Model {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let model = runtime.block_on(MockModel::start(Script::default()));
        Model { model, _runtime: runtime }
    }

    fn url(&self) -> String {
        self.model.url()
    }
}

/// A script that sends one prompt to the model, with the address and token of the node's proxy.
const ASK: &str = r#"at=${ANTHROPIC_BASE_URL#http://}
body='{"model":"m-1","max_tokens":9,"messages":[{"role":"user","content":"'"$1"'"}]}'
exec 3<>"/dev/tcp/${at%:*}/${at#*:}" || exit 1
printf 'POST /v1/messages HTTP/1.1\r\nhost: %s\r\nconnection: close\r\ncontent-type: application/json\r\nx-api-key: %s\r\ncontent-length: %s\r\n\r\n%s' "$at" "${ANTHROPIC_AUTH_TOKEN:-own}" "${#body}" "$body" >&3
cat <&3
echo
"#;

impl Home {
    /// Starts a server with a shell that can be pointed at a proxy.
    fn with_caller() -> Home {
        let home = Home::new();
        let profiles = home.hermetic.nerve_home().join("profiles");
        fs::create_dir_all(&profiles).unwrap();
        let caller = "name = \"caller\"\nforeground = true\ncontext = \"commands\"\n[timing]\nsettle_ms = 20\nstart_ms = 60\nquiet_ms = 250\n[proxy]\nurl = \"ANTHROPIC_BASE_URL\"\ntoken = \"ANTHROPIC_AUTH_TOKEN\"\n";
        fs::write(profiles.join("caller.toml"), caller).unwrap();
        fs::write(home.hermetic.work().join("ask.sh"), ASK).unwrap();
        home.ok(&["server", "start"]);
        home
    }

    fn caller(&self, node: &str, more: &[&str]) -> CommandOutput {
        let base =
            ["server", "node", "create", node, "-c", "bash --norc", "--env", "PS1=$ ", "--profile", "caller"];
        self.nerve(&[&base, more].concat())
    }

    /// Runs the script in a node's shell and returns the node's reply.
    fn asks(&self, node: &str, text: &str) -> Value {
        let script = self.hermetic.work().join("ask.sh");
        let command = format!("bash {} {text}", script.display());
        let done = self.nerve(&["server", "node", "execute", node, &command, "--json"]);
        assert_eq!(done.code, 0, "{done:?}");
        let reply = done.json();
        let said = reply["response"]["text"].as_str().unwrap();
        assert!(said.contains(&format!("You said: {text}")), "{reply:#}");
        reply
    }
}

#[test]
fn proxy_returns_after_server_was_killed() {
    let (home, model) = (Home::with_caller(), Model::start());
    // With a token, as all of those with a key of their own.
    let made = home
        .caller("a", &["--proxy", "openai", "--proxy-base-url", &model.url(), "--proxy-max-requests", "3"]);
    assert_eq!(made.code, 0, "{made:?}");
    let url = home.metadata("a", "proxy_url");
    let first = home.asks("a", "one");
    assert_eq!(first["response"]["usage"]["requests"], 1);
    home.kill_server("default");
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "wait", "a"]);
    assert_eq!(home.metadata("a", "proxy_url"), url);
    assert_eq!(home.metadata("a", "proxy_requests"), "1", "what had passed is not forgotten");
    let second = home.asks("a", "two");
    assert_eq!(second["response"]["usage"]["requests"], 1);
    // Stop the server and keep its nodes.
    home.ok(&["server", "stop", "--keep-nodes"]);
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "wait", "a"]);
    home.asks("a", "three");
    let script = home.hermetic.work().join("ask.sh");
    let refused = home.ok(&["server", "node", "execute", "a", &format!("bash {} four", script.display())]);
    assert!(refused.contains("budget of the nerve proxy is used up: 3 requests"), "{refused}");
    let log = fs::read_to_string(home.metadata("a", "proxy_log")).unwrap();
    let replies: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["type"] == "reply")
        .collect();
    assert_eq!(replies.len(), 4, "{log}");
    assert!(replies.iter().all(|line| line["node"] == "a" && line["turn"].is_u64()), "{log}");
    home.ok(&["server", "node", "stop", "a"]);
    let run = home.hermetic.nerve_home().join("proxies/run/default");
    assert_eq!(fs::read_dir(run).unwrap().count(), 0, "nothing is kept of it");
    assert_eq!(model.model.requests().len(), 3);
}

#[test]
fn port_taken_meanwhile_is_reported() {
    let (home, model) = (Home::with_caller(), Model::start());
    let made = home.caller("a", &["--proxy", "anthropic", "--proxy-base-url", &model.url()]);
    assert_eq!(made.code, 0, "{made:?}");
    let url = home.metadata("a", "proxy_url");
    home.kill_server("default");
    let taken = TcpListener::bind(url.trim_start_matches("http://")).unwrap();
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "wait", "a"]);
    let faults = home.metadata("a", "faults");
    assert!(faults.contains("its proxy did not restart") && faults.contains("in use"), "{faults}");
    let why = home.ok(&["server", "node", "why", "a"]);
    assert!(why.contains("its proxy did not restart"), "{why}");
    assert_eq!(home.ok(&["server", "node", "execute", "a", "echo still"]), "still\n", "the node still works");
    // The next server finds it free.
    drop(taken);
    home.kill_server("default");
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "wait", "a"]);
    assert_eq!((home.metadata("a", "proxy_url"), home.metadata("a", "faults")), (url, String::new()));
    home.asks("a", "again");
}

/// A fork would bypass the budget and use the agent's own key.
#[test]
fn node_with_unknown_proxy_cannot_be_forked() {
    let (home, model) = (Home::with_caller(), Model::start());
    let made = home.caller("a", &["--proxy", "anthropic", "--proxy-base-url", &model.url()]);
    assert_eq!(made.code, 0, "{made:?}");
    home.ok(&["server", "node", "wait", "a"]);
    home.kill_server("default");
    let state = home.hermetic.nerve_home();
    let kept = fs::read_dir(state.join("proxies/run/default")).unwrap().next().unwrap().unwrap().path();
    fs::write(kept, "{").unwrap();
    fs::remove_file(state.join("sessions.json")).unwrap();
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "wait", "a"]);
    assert!(home.metadata("a", "faults").contains("cannot read the stored state of its proxy"));
    home.nerve(&["server", "node", "fork", "a", "b"]).assert_stderr(2, &["node 'a'"]);
}

#[test]
fn invalid_options_are_refused_before_anything_starts() {
    let home = Home::with_caller();
    home.caller("a", &["--proxy", "gemini"]).assert_stderr(2, &["gemini", "anthropic", "openai"]);
    home.caller("a", &["--proxy-max-tokens", "5"]).assert_stderr(2, &["--proxy"]);
    home.caller("a", &["--proxy", "anthropic", "--proxy-max-cost", "5"]).assert_stderr(2, &["--proxy-price"]);
    home.caller("a", &["--proxy", "anthropic", "--proxy-base-url", "http://far.example"])
        .assert_stderr(2, &["unencrypted"]);
    home.caller("a", &["--proxy", "anthropic", "--proxy-key-env", "NO_SUCH_KEY"])
        .assert_stderr(2, &["NO_SUCH_KEY"]);
    home.nerve(&["server", "node", "create", "b", "-b", "bash", "--proxy", "anthropic"]).assert_code(2);
    home.nerve(&["server", "node", "create", "b", "-c", "bash", "--proxy", "anthropic"])
        .assert_stderr(2, &["'shell'"]);
    assert_eq!(home.nerve(&["server", "node", "list", "--json"]).json()["nodes"], serde_json::json!([]));
}

/// `ps` shows a program's arguments to every user; `/proc` shows its environment only to its own user.
#[test]
fn token_is_on_no_command_line() {
    let (home, model) = (Home::with_caller(), Model::start());
    let made = home.caller("a", &["--proxy", "openai", "--proxy-base-url", &model.url()]);
    assert_eq!(made.code, 0, "{made:?}");
    home.ok(&["server", "node", "wait", "a"]);
    let run = home.hermetic.nerve_home().join("proxies/run/default");
    let kept = fs::read_dir(run).unwrap().next().unwrap().unwrap().path();
    let kept: Value = serde_json::from_str(&fs::read_to_string(kept).unwrap()).unwrap();
    let token = kept["token"].as_str().unwrap().to_string();
    let shows = |path: std::path::PathBuf| {
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).contains(&token)
    };
    let processes = || fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    assert!(wait_until(DEADLINE, || processes().any(|path| shows(path.join("environ")))), "the shell has it");
    assert!(!processes().any(|path| shows(path.join("cmdline"))));
    let home_files = home.hermetic.nerve_home();
    for folder in ["hosts", "history", "logs", "recordings"] {
        let mut waiting = vec![home_files.join(folder)];
        while let Some(path) = waiting.pop() {
            match fs::read_dir(&path) {
                Ok(entries) => waiting.extend(entries.flatten().map(|entry| entry.path())),
                Err(_) => assert!(!shows(path.clone()), "{}", path.display()),
            }
        }
    }
    let sessions = home_files.join("sessions.json");
    assert!(wait_until(DEADLINE, || fs::read_to_string(&sessions).is_ok_and(|text| text.contains("openai"))));
    assert!(!shows(sessions));
    assert!(!home.ok(&["server", "node", "info", "a", "--json"]).contains(&token));
}
