//! `pattern dev-coach`: a developer works, a coach accepts.

use std::sync::Arc;

use anyhow::Result;
use nerve_core::patterns::dev_coach::{DevCoachConfig, DevCoachLoop, Role};
use nerve_core::patterns::{LoopError, LoopTurn};
use serde_json::{Value, json};

use super::{Stage, text};
use crate::cli::pattern::DevCoachArgs;
use crate::exit::{FAILED, Failure};
use crate::out;

pub(super) async fn run(stage: &Stage, args: DevCoachArgs) -> Result<()> {
    let (dev_is, coach_is) = (format!("dev '{}'", args.dev), format!("coach '{}'", args.coach));
    let dev = stage.node(&args.dev, &dev_is).await?;
    let coach = stage.node(&args.coach, &coach_is).await?;
    let (dev_show, coach_show) = (Arc::clone(&stage.show), Arc::clone(&stage.show));
    let config = config(&args)?
        .on_dev_turn(move |round, message| dev_show.end(round, &dev_is, message))
        .on_coach_turn(move |round, message| coach_show.end(round, &coach_is, message));
    let mut pair = DevCoachLoop::new(dev, coach, config);
    if let Some(timeout) = stage.timeout {
        pair = pair.turn_timeout(timeout.0);
    }
    let result = match stage.ended(pair.run(&stage.context)).await? {
        Ok(result) => result,
        Err(LoopError { error, history }) => {
            let rounds = history.iter().filter(|turn| turn.role == Role::Coach).count();
            let history: Vec<Value> = history.iter().map(LoopTurn::to_dict).collect();
            let so_far = json!({ "completed": false, "rounds": rounds, "history": history });
            return stage.failed(error, so_far);
        }
    };
    if stage.json {
        out::json(&result.to_dict())?;
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
    Err(Failure::new(FAILED, format!("'{}' has not accepted within {rounds}", args.coach))
        .hint("give it more --max-rounds, or see what it misses: the nodes still know what was said")
        .into())
}

fn config(args: &DevCoachArgs) -> Result<DevCoachConfig> {
    let mut config = DevCoachConfig::new(text(&args.task)?).max_rounds(args.max_rounds);
    if !args.accept.is_empty() {
        config = config.acceptance_phrases(&args.accept);
    }
    if let Some(template) = &args.dev_template {
        config = config.dev_prompt_template(text(template)?);
    }
    if let Some(template) = &args.coach_template {
        config = config.coach_prompt_template(text(template)?);
    }
    Ok(config)
}
