//! `pattern dev-coach`: a developer works, a coach accepts.

use std::sync::Arc;

use anyhow::Result;
use nerve_patterns::LoopError;
use nerve_patterns::dev_coach::{DevCoachConfig, DevCoachLoop, Role};
use serde_json::json;

use super::{LoopContext, read_text};
use crate::exit::{FAILED, Failure};
use crate::out;
use nerve_cli::pattern::DevCoachArgs;

/// Runs the loop and prints the developer's last message.
pub(super) async fn run(context: &LoopContext, args: DevCoachArgs) -> Result<()> {
    let (dev_label, coach_label) = (format!("dev '{}'", args.dev), format!("coach '{}'", args.coach));
    let dev = context.node(&args.dev, &dev_label).await?;
    let coach = context.node(&args.coach, &coach_label).await?;
    let (dev_display, coach_display) = (Arc::clone(&context.display), Arc::clone(&context.display));
    let config = config(&args)?
        .on_dev_turn(move |round, message| dev_display.end_turn(round, &dev_label, message))
        .on_coach_turn(move |round, message| coach_display.end_turn(round, &coach_label, message));
    let mut pair = DevCoachLoop::new(dev, coach, config);
    if let Some(timeout) = context.timeout {
        pair = pair.turn_timeout(timeout.0);
    }
    let result = match context.run_loop(pair.run(&context.run)).await? {
        Ok(result) => result,
        Err(LoopError { error, history }) => {
            let rounds = history.iter().filter(|turn| turn.role == Role::Coach).count();
            let partial_result = json!({ "completed": false, "rounds": rounds, "history": history });
            return context.fail(error, partial_result);
        }
    };
    if context.json {
        out::json(&result)?;
    } else {
        out::text(&result.final_dev_message)?;
    }
    let rounds = match result.rounds {
        1 => "1 round".to_string(),
        rounds => format!("{rounds} rounds"),
    };
    if result.completed {
        out::note(format_args!("accepted after {rounds}"));
        return Ok(());
    }
    Err(Failure::new(FAILED, format!("'{}' did not accept within {rounds}", args.coach))
        .hint("increase --max-rounds, or continue by hand: the nodes keep their conversations")
        .into())
}

fn config(args: &DevCoachArgs) -> Result<DevCoachConfig> {
    let mut config = DevCoachConfig::new(read_text(&args.task)?).max_rounds(args.max_rounds);
    if !args.accept.is_empty() {
        config = config.acceptance_phrases(&args.accept);
    }
    if let Some(template) = &args.dev_template {
        config = config.dev_prompt_template(read_text(template)?);
    }
    if let Some(template) = &args.coach_template {
        config = config.coach_prompt_template(read_text(template)?);
    }
    Ok(config)
}
