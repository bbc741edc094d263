//! `mock-agent` and `mock-model`: scripted programs for demos and tests.

use anyhow::{Context, Result};
use nerve_testkit::mock_agent::{self, FLAGS};
use nerve_testkit::mock_model::{Script, serve};

use crate::exit::{FAILED, Failure, USAGE};
use crate::out;
use nerve_cli::local_commands::{MockAgentArgs, MockModelArgs};

/// Runs the scripted agent and returns its exit code.
pub(crate) fn agent(args: MockAgentArgs) -> Result<u8> {
    if args.args.iter().any(|arg| arg == "--help" || arg == "-h") {
        out::line(format_args!(
            "A scripted agent, for demos and tests.\n\nUsage: nerve mock-agent [OPTIONS]\n\n{FLAGS}"
        ))?;
        return Ok(0);
    }
    let options =
        mock_agent::parse_args(args.args.into_iter()).map_err(|message| Failure::new(USAGE, message))?;
    let code = mock_agent::run(options).context("the agent's terminal failed")?;
    Ok(u8::try_from(code).unwrap_or(FAILED))
}

/// Serves the scripted model API until the process is stopped.
pub(crate) async fn model(args: &MockModelArgs) -> Result<()> {
    if !args.addr.ip().is_loopback() {
        let message = format!("{} is not a loopback address", args.addr.ip());
        return Err(Failure::new(USAGE, message).hint("use 127.0.0.1:PORT").into());
    }
    let model = serve(args.addr, Script::default())
        .await
        .with_context(|| format!("cannot listen on {}", args.addr))?;
    out::line(format_args!("ANTHROPIC_BASE_URL={}", model.url()))?;
    nerve_server::stop_signal().await;
    model.shutdown().await.context("cannot stop the model API")
}
