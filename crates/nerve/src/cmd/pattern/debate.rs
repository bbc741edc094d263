//! `pattern debate`: two agents argue.

use std::sync::Arc;

use anyhow::Result;
use nerve_core::patterns::debate::{DebateConfig, DebateLoop};
use nerve_core::patterns::{LoopError, LoopTurn};
use serde_json::{Value, json};

use super::{Stage, text};
use crate::cli::pattern::DebateArgs;
use crate::out;

pub(super) async fn run(stage: &Stage, args: DebateArgs) -> Result<()> {
    let roles = [format!("a '{}'", args.a), format!("b '{}'", args.b)];
    let a = stage.node(&args.a, &roles[0]).await?;
    let b = stage.node(&args.b, &roles[1]).await?;
    let topic = text(&args.topic)?;
    let mut config = DebateConfig::new(topic.clone(), args.position_a, args.position_b)
        .rounds(args.rounds)
        .max_words(args.max_words);
    if let Some(template) = &args.template {
        config = config.prompt_template(text(template)?);
    }
    let show = Arc::clone(&stage.show);
    let turns = std::sync::atomic::AtomicUsize::new(0);
    let config = config.on_turn(move |round, _, message| {
        // Positions may be the same text: turns tell who it was.
        let turn = turns.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        show.end(round, &roles[turn % 2], message);
    });
    let mut debate = DebateLoop::new(a, b, config);
    if let Some(timeout) = stage.timeout {
        debate = debate.turn_timeout(timeout.0);
    }
    match stage.ended(debate.run(&stage.context)).await? {
        Ok(result) if stage.json => out::json(&result.to_dict()),
        Ok(result) => {
            out::line(format_args!("{}A, '{}'{:#}", out::STRONG, args.a, out::STRONG))?;
            out::text(&result.final_a)?;
            out::line(format_args!("\n{}B, '{}'{:#}", out::STRONG, args.b, out::STRONG))?;
            out::text(&result.final_b)
        }
        Err(LoopError { error, history }) => {
            let rounds = history.len() / 2;
            let turns: Vec<Value> = history.iter().map(LoopTurn::to_dict).collect();
            stage.failed(error, json!({ "topic": topic, "rounds": rounds, "turns": turns }))
        }
    }
}
