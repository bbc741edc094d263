//! Prints turns as text or JSON.

use anyhow::Result;
use nerve_agent::parse::conversation::Turn;
use nerve_agent::parse::{ParsedTurn, Section, Tokens};
use serde_json::{Value, json};

use super::ParserChoice;
use super::input::Input;
use crate::out::{self, FAINT, STRONG, sanitize};

/// Prints turns, each with its sections under headings.
pub(super) fn print(turns: &[Turn]) -> Result<()> {
    for (number, turn) in turns.iter().enumerate() {
        if number > 0 {
            out::line("")?;
        }
        if !turn.prompt.is_empty() {
            for row in sanitize(&turn.prompt).lines() {
                out::line(format!("{STRONG}> {row}{STRONG:#}").trim_end())?;
            }
            out::line("")?;
        }
        sections(&turn.parsed.sections)?;
        if let Some(tokens) = turn.parsed.tokens.map(format_tokens).filter(|text| !text.is_empty()) {
            out::line(format_args!("{FAINT}[tokens] {tokens}{FAINT:#}"))?;
        }
    }
    Ok(())
}

/// Prints the text of an answer, or its sections if it has no text.
pub(super) fn answer(parsed: &ParsedTurn) -> Result<()> {
    match parsed.text() {
        text if text.is_empty() => sections(&parsed.sections),
        text => out::text(&text),
    }
}

fn sections(sections: &[Section]) -> Result<()> {
    for section in sections {
        out::line(format_args!("{FAINT}{}{FAINT:#}", sanitize(&heading(section))))?;
        if !section.content.is_empty() {
            out::text(&section.content)?;
        }
    }
    Ok(())
}

/// Returns the heading of a section: `[tool_call Bash] ls -l (running)`.
fn heading(section: &Section) -> String {
    let field = |name: &str| section.metadata.get(name).map(String::as_str).filter(|text| !text.is_empty());
    let mut heading = format!("[{}", section.kind.as_str());
    if let Some(detail) = field("tool").or_else(|| field("duration")) {
        heading.push(' ');
        heading.push_str(detail);
    }
    heading.push(']');
    if let Some(args) = field("args") {
        heading.push(' ');
        heading.push_str(&out::preview(args, 200));
    }
    match field("status") {
        Some("ok") | None => heading,
        Some(status) => format!("{heading} ({status})"),
    }
}

fn format_tokens(tokens: Tokens) -> String {
    let counts = [("input", tokens.input), ("output", tokens.output), ("total", tokens.total)];
    let counts: Vec<String> =
        counts.iter().filter_map(|(name, count)| count.map(|count| format!("{name} {count}"))).collect();
    counts.join(", ")
}

/// Returns all turns. The last one is repeated at the top level, in the form of a response.
pub(super) fn as_json(input: &Input, choice: ParserChoice, turns: &[Turn]) -> Value {
    let last = turns.last().map(|turn| &turn.parsed);
    let begin = turns.first().map_or(0, |turn| turn.rows.start);
    json!({
        "source": input.source,
        "parser": choice.kind.as_str(),
        "guessed": choice.is_guessed,
        "turns": turns.iter().map(turn).collect::<Vec<_>>(),
        "text": last.map(ParsedTurn::text).unwrap_or_default(),
        "sections": last.map_or(&[][..], |parsed| &parsed.sections),
        "tokens": last.and_then(|parsed| parsed.tokens).map(tokens),
        "is_complete": last.is_some_and(|parsed| parsed.is_complete),
        "raw": input.rows[begin..].join("\n"),
    })
}

fn turn(turn: &Turn) -> Value {
    let parsed = &turn.parsed;
    json!({
        "prompt": turn.prompt,
        "text": parsed.text(),
        "sections": parsed.sections,
        "tokens": parsed.tokens.map(tokens),
        "is_complete": parsed.is_complete,
        "rows": [turn.rows.start, turn.rows.end],
    })
}

fn tokens(tokens: Tokens) -> Value {
    json!({ "input": tokens.input, "output": tokens.output, "total": tokens.total })
}

#[cfg(test)]
mod tests {
    use nerve_agent::parse::SectionKind;

    use super::*;

    #[test]
    fn heading_contains_tool_arguments_and_status() {
        let call = Section::new(SectionKind::ToolCall, "").with("tool", "Bash").with("args", "ls\n-l");
        assert_eq!(heading(&call), "[tool_call Bash] ls -l");
        assert_eq!(heading(&call.with("status", "running")), "[tool_call Bash] ls -l (running)");
        let thought = Section::new(SectionKind::Thinking, "").with("duration", "2s");
        assert_eq!(heading(&thought), "[thinking 2s]");
        assert_eq!(heading(&Section::new(SectionKind::Text, "x")), "[text]");
    }

    #[test]
    fn known_token_counts_are_listed() {
        assert_eq!(
            format_tokens(Tokens { input: Some(1), output: None, total: Some(3) }),
            "input 1, total 3"
        );
        assert_eq!(format_tokens(Tokens::default()), "");
    }
}
