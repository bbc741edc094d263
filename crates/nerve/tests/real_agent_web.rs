//! The web console with the real Claude Code: a person with a phone sends a prompt and answers the dialog that follows. The scripted
//! model API on loopback answers.

use std::fs;
use std::path::Path;

use nerve_testkit::Renderer;
use nerve_testkit::harness::{RealAgent, browser_script};
use nerve_testkit::mock_model::Script;

const TEST: &str = "phone_answers_a_dialog_of_the_real_agent";
const NERVE: &str = env!("CARGO_BIN_EXE_nerve");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn phone_answers_a_dialog_of_the_real_agent() {
    let Some(agent) = RealAgent::claude(TEST, Renderer::Classic, Script::default()).await else { return };
    let ok = async |args: &[&str]| RealAgent::run(agent.command(NERVE, args)).await.success();
    ok(&["server", "start", "--http", "127.0.0.1:0"]).await;
    ok(&["new", "ada", "-c", &agent.command_line()]).await;
    let link = ok(&["web", "--no-open"]).await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/web/real_agent.mjs");
    let Some(mut command) = browser_script(&agent.home, TEST, &script, link.trim()) else { return };
    command.env("NERVE_PROGRAM", NERVE);
    RealAgent::run(command).await.success();
    assert!(fs::read_to_string(agent.home.work().join("notes.txt")).unwrap().contains("line"));
    // The audit log names the transport of the answer.
    let log = ok(&["logs", "ada", "--json"]).await;
    assert!(log.contains("\"http\"") && log.contains("dialog"), "{log}");
    ok(&["server", "stop"]).await;
}
