//! `nerve recording extract`: parses an agent's answers out of terminal text.

mod input;
mod output;

use anyhow::Result;
use nerve_agent::parse::ParserKind;
use nerve_agent::parse::conversation::{guess, turns};

use crate::cmd::pane;
use crate::exit::{DONE, Failure, NOT_FOUND};
use crate::out;
use input::Input;
use nerve_cli::extract::ExtractArgs;

/// The selected parser.
#[derive(Debug, Clone, Copy)]
struct ParserChoice {
    kind: ParserKind,
    is_guessed: bool,
}

/// Runs the command and returns the exit code.
pub(super) async fn run(args: &ExtractArgs) -> Result<u8> {
    if args.list_panes {
        pane::list_all(args.socket.as_deref(), args.json).await?;
        return Ok(DONE);
    }
    let input = input::read(args).await?;
    print(args, &input)?;
    Ok(input.code)
}

fn print(args: &ExtractArgs, input: &Input) -> Result<()> {
    if args.raw && !args.last {
        return out::text(&input.rows.join("\n"));
    }
    let choice = choose(args.parser, input)?;
    let mut turns = turns(choice.kind, &input.rows);
    if args.last {
        turns.drain(..turns.len().saturating_sub(1));
    }
    let Some(last) = turns.last() else { return Err(no_turn(input, choice).into()) };
    if args.json {
        return out::json(&output::as_json(input, choice, &turns));
    }
    match args.last {
        true if args.raw => out::text(&input.rows[last.rows.clone()].join("\n")),
        true => output::answer(&last.parsed),
        false => output::print(&turns),
    }
}

fn choose(requested: Option<ParserKind>, input: &Input) -> Result<ParserChoice> {
    if let Some(kind) = requested {
        return Ok(ParserChoice { kind, is_guessed: false });
    }
    if let Some(kind) = input.parser {
        out::note(format_args!("parser: {kind} (from the recorded program)"));
        return Ok(ParserChoice { kind, is_guessed: true });
    }
    let kind = guess(&input.rows).unwrap_or_default();
    match kind {
        ParserKind::None => out::note("parser: none (no known agent detected; select a parser with -p)"),
        kind => out::note(format_args!("parser: {kind} (detected from the text)")),
    }
    Ok(ParserChoice { kind, is_guessed: true })
}

fn no_turn(input: &Input, choice: ParserChoice) -> Failure {
    let message = format!("no turn found in {} with parser '{}'", input.source, choice.kind);
    Failure::new(NOT_FOUND, message).hint("print the text with --raw, or select another parser with -p")
}
