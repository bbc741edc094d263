//! The scenario of `trial` with the real Claude Code, Codex, Gemini CLI and opencode in each of their renderers, against the
//! scripted model API on loopback.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

mod trial;

use std::time::Duration;

use nerve_testkit::{find_agent, skip};

use trial::{VARIANTS, Verdict, run_scenario, table};

/// Timeout of each step. A loaded machine makes agents ten times slower.
const STEP_TIMEOUT: Duration = Duration::from_secs(90);

/// Runs the scenario with one variant.
async fn passes_scenario(name: &str) {
    let variant = VARIANTS.iter().find(|variant| variant.name == name).unwrap();
    if find_agent(variant.agent).is_none() {
        return skip(&format!("real_agent_{name}"), "the pinned agent is not installed (cargo xtask setup)");
    }
    let row = run_scenario(variant, 1, STEP_TIMEOUT).await.unwrap();
    let is_fine = row.verdicts.iter().all(|(_, verdict)| *verdict == Verdict::Passed);
    assert!(is_fine, "{}\n{}", row.faults().join("\n"), table(&[row]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_classic_passes_the_scenario() {
    passes_scenario("claude-classic").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_full_screen_passes_the_scenario() {
    passes_scenario("claude-full-screen").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_inline_passes_the_scenario() {
    passes_scenario("codex-inline").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_alternate_screen_passes_the_scenario() {
    passes_scenario("codex").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gemini_passes_the_scenario() {
    passes_scenario("gemini").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode_passes_the_scenario() {
    passes_scenario("opencode").await;
}
