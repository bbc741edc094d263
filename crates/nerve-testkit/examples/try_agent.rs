//! A real agent on this terminal against the scripted model, in a home of its own:
//!
//! ```sh
//! NERVE_TEST_AGENTS=…/node_modules/.bin cargo run -p nerve-testkit --example try_agent -- claude requests.jsonl
//! ```
//!
//! The agent is `claude`, `claude-full-screen`, `codex`, `gemini`, `opencode`, `kilo`, `pi`, `qwen`, `copilot` or
//! `kimi`. Its requests to the model are written to the file, one JSON object per line.

use std::error::Error;
use std::fs::File;
use std::io::Write;

use nerve_testkit::mock_model::{Script, serve};
use nerve_testkit::{Hermetic, Renderer};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let agent = arguments.next().unwrap_or_else(|| "claude".to_owned());
    let model = serve(([127, 0, 0, 1], 0).into(), Script::default()).await?;
    let hermetic = Hermetic::new()?;
    let (cwd, url) = (hermetic.work(), model.url());
    std::fs::write(cwd.join("notes.txt"), "alpha note\nbeta note\n")?;
    let recipe = match agent.as_str() {
        "claude" => hermetic.claude(&cwd, &url, Renderer::Classic)?,
        "claude-full-screen" => hermetic.claude(&cwd, &url, Renderer::FullScreen)?,
        "codex" => hermetic.codex(&url, Renderer::Classic)?,
        "gemini" => hermetic.gemini(&url)?,
        "opencode" => hermetic.opencode(&url)?,
        "kilo" => hermetic.kilo(&url)?,
        "pi" => hermetic.pi(&url)?,
        "qwen" => hermetic.qwen(&url)?,
        "copilot" => hermetic.copilot(&cwd, &url)?,
        "kimi" => hermetic.kimi(&cwd, &url)?,
        other => return Err(format!("no recipe for {other}").into()),
    };
    let mut command = tokio::process::Command::from(hermetic.recipe_command(&recipe, &cwd));
    let status = command.status().await?;
    eprintln!("{agent} ended: {status}");
    if let Some(path) = arguments.next() {
        let mut file = File::create(path)?;
        for request in model.requests() {
            let headers: serde_json::Map<_, _> =
                request.headers.into_iter().map(|(n, v)| (n, v.into())).collect();
            let line = json!({ "method": request.method, "path": request.path, "headers": headers, "body": request.body });
            writeln!(file, "{line}")?;
        }
    }
    model.shutdown().await?;
    Ok(())
}
