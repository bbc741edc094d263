//! acpx, a client of the protocol for the command line.

use nerve_testkit::harness::CommandOutput;
use nerve_testkit::{find_agent, skip};
use serde_json::Value;

use super::official_sdk::installed;
use crate::harness::{DEADLINE, Home, NERVE};

#[test]
fn acpx_runs_prompts_and_answers_dialogs() {
    let test = "acpx_runs_prompts_and_answers_dialogs";
    let (Some(acpx), Some(node)) =
        (installed(None, "browser", "node_modules/acpx/dist/cli.js"), find_agent("node"))
    else {
        return skip(test, "acpx or its node is not installed (cargo xtask setup)");
    };
    let home = Home::new();
    let run = |options: &[&str], prompt: &str| {
        let mut command = home.hermetic.command(&node);
        let agent = format!("{NERVE} acp -- {NERVE} mock-agent");
        command.arg(&acpx).args(["--agent", &agent, "--cwd"]).arg(home.hermetic.work());
        command.args(options).args(["exec", prompt]);
        let mut command = assert_cmd::Command::from_std(command);
        CommandOutput::new(&command.timeout(3 * DEADLINE).output().unwrap())
    };
    let done = run(&["--approve-all", "--format", "quiet"], "PERMIT please");
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stdout.contains("I will run a command.") && done.stdout.contains("END-OF-TOOL"), "{done:?}");
    // Each message of the protocol is a line.
    let done = run(&["--deny-all", "--format", "json", "--json-strict"], "PERMIT please");
    let messages: Vec<Value> = done.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let asked = messages.iter().filter(|message| message["method"] == "session/request_permission").count();
    assert!(asked >= 1 && done.code != 0, "{done:?}");
    assert!(messages.iter().any(|message| message["result"]["stopReason"].is_string()), "{done:?}");
    assert!(!done.stdout.contains("END-OF-TOOL"), "{done:?}");
    assert_eq!(home.nerve(&["ls", "--json"]).json()["nodes"], serde_json::json!([]));
}
