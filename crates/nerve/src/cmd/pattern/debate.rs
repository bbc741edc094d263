//! `pattern debate`: two agents argue.

use std::sync::Arc;

use anyhow::Result;
use nerve_patterns::LoopError;
use nerve_patterns::debate::{DebateConfig, DebateLoop};
use serde_json::json;

use super::{LoopContext, read_text};
use crate::out;
use nerve_cli::pattern::DebateArgs;

/// Runs the debate and prints both final answers.
pub(super) async fn run(context: &LoopContext, args: DebateArgs) -> Result<()> {
    let roles = [format!("a '{}'", args.a), format!("b '{}'", args.b)];
    let a = context.node(&args.a, &roles[0]).await?;
    let b = context.node(&args.b, &roles[1]).await?;
    let topic = read_text(&args.topic)?;
    let mut config = DebateConfig::new(topic.clone(), args.position_a, args.position_b)
        .rounds(args.rounds)
        .max_words(args.max_words);
    if let Some(template) = &args.template {
        config = config.prompt_template(read_text(template)?);
    }
    let display = Arc::clone(&context.display);
    let turns = std::sync::atomic::AtomicUsize::new(0);
    let config = config.on_turn(move |round, _, message| {
        // Both positions may be equal, so the turn number identifies the speaker.
        let turn = turns.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        display.end_turn(round, &roles[turn % 2], message);
    });
    let mut debate = DebateLoop::new(a, b, config);
    if let Some(timeout) = context.timeout {
        debate = debate.turn_timeout(timeout.0);
    }
    match context.run_loop(debate.run(&context.run)).await? {
        Ok(result) if context.json => out::json(&result),
        Ok(result) => {
            out::line(format_args!("{}A, '{}'{:#}", out::STRONG, args.a, out::STRONG))?;
            out::text(&result.final_a)?;
            out::line(format_args!("\n{}B, '{}'{:#}", out::STRONG, args.b, out::STRONG))?;
            out::text(&result.final_b)
        }
        Err(LoopError { error, history }) => {
            let rounds = history.len() / 2;
            context.fail(error, json!({ "topic": topic, "rounds": rounds, "turns": history }))
        }
    }
}
