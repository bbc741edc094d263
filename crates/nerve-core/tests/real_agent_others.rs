//! Claude Code, Codex, Gemini CLI and opencode, really, against the scripted model API on loopback: the scenario of `trial` on each
//! of them, in each way they draw.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod trial;

use std::time::Duration;

use nerve_testkit::{find_agent, skip};
use trial::{Behaviour, Verdict, WAYS, table, try_out};

/// For each step: a loaded machine makes agents ten times slower.
const PATIENCE: Duration = Duration::from_secs(90);

/// Tries one way. Of `partly` a part is enough: what is on the alternate screen is lost when it scrolls away.
async fn tries(name: &str, partly: &[Behaviour]) {
    let way = WAYS.iter().find(|way| way.name == name).unwrap();
    if find_agent(way.agent).is_none() {
        return skip(&format!("real_agent_{name}"), "the pinned agent is not installed (cargo xtask setup)");
    }
    let row = try_out(way, 1, PATIENCE).await.unwrap();
    let is_fine = |(behaviour, verdict): &(Behaviour, Verdict)| match verdict {
        Verdict::Done => true,
        Verdict::Partly(_) => partly.contains(behaviour),
        Verdict::Failed(_) | Verdict::NotTried => false,
    };
    assert!(row.verdicts.iter().all(is_fine), "{}\n{}", row.faults().join("\n"), table(&[row]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_classic_does_it_all() {
    tries("claude-classic", &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_full_screen_does_it_all() {
    tries("claude-full-screen", &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_inline_does_it_all() {
    tries("codex-inline", &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_on_the_alternate_screen_does_it_all() {
    tries("codex", &[Behaviour::Long]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gemini_does_it_all() {
    tries("gemini", &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode_does_it_all() {
    tries("opencode", &[Behaviour::Long]).await;
}
