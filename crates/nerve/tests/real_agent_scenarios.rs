//! The scenarios of `agent_scenarios` with the pinned Claude Code, Codex, Gemini CLI, opencode, Kilo, pi, Qwen Code, GitHub
//! Copilot CLI and Kimi Code in each of their renderers, against the scripted model API on loopback. `cargo xtask matrix` runs the long
//! scenarios, and those that other tests of the real agents cover.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

#[expect(dead_code, reason = "shared with the benchmark `agents`, which uses all of it")]
mod agent_scenarios;

use std::time::Duration;

use nerve_testkit::{find_agent, skip};

use agent_scenarios::{Cell, Scenario, VARIANTS, Verdict};

/// Timeout of each step. A loaded machine makes agents ten times slower.
const STEP_TIMEOUT: Duration = Duration::from_secs(90);

const SCENARIOS: [Scenario; 12] = [
    Scenario::Ready,
    Scenario::Short,
    Scenario::Long,
    Scenario::Slow,
    Scenario::Tool,
    Scenario::Dialog,
    Scenario::Refusal,
    Scenario::Paste,
    Scenario::Interrupt,
    Scenario::Status(400),
    Scenario::CutAfter,
    Scenario::Exit,
];

/// Runs the scenarios with one variant.
async fn passes_scenarios(name: &str) {
    let variant = VARIANTS.iter().find(|variant| variant.name == name).unwrap();
    if find_agent(variant.agent).is_none() {
        return skip(&format!("real_agent_{name}"), "the pinned agent is not installed (cargo xtask setup)");
    }
    let mut cell = Cell::new(variant, (120, 40), STEP_TIMEOUT).await.unwrap();
    let mut faults = Vec::new();
    for scenario in SCENARIOS {
        // opencode tries again for most of a minute.
        let is_too_long = matches!(variant.agent, "opencode" | "kilo") && scenario == Scenario::CutAfter;
        let asks = matches!(scenario, Scenario::Dialog | Scenario::Refusal);
        if is_too_long || (asks && variant.permission_prompt.is_none()) {
            continue;
        }
        if let Verdict::Failed(reason) | Verdict::Skipped(reason) = cell.run(scenario).await {
            faults.push(format!("{}: {reason}", scenario.title()));
        }
    }
    cell.stop().await;
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_classic_passes_the_scenarios() {
    passes_scenarios("claude-classic").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_full_screen_passes_the_scenarios() {
    passes_scenarios("claude-full-screen").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_inline_passes_the_scenarios() {
    passes_scenarios("codex-inline").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_alternate_screen_passes_the_scenarios() {
    passes_scenarios("codex").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gemini_passes_the_scenarios() {
    passes_scenarios("gemini").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode_passes_the_scenarios() {
    passes_scenarios("opencode").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kilo_passes_the_scenarios() {
    passes_scenarios("kilo").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pi_passes_the_scenarios() {
    passes_scenarios("pi").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn qwen_passes_the_scenarios() {
    passes_scenarios("qwen").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copilot_passes_the_scenarios() {
    passes_scenarios("copilot").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kimi_passes_the_scenarios() {
    passes_scenarios("kimi").await;
}
