//! Transcripts as HTML.

use std::fmt::Write;

use jiff::tz::TimeZone;
use nerve_api::reply::{Transcript, TranscriptSource, TranscriptTurn};
use nerve_markdown::{escape, to_html};
use nerve_types::{Section, SectionKind};

use super::{dialog_text, properties, title, tool_heading, turn_details};

const STYLE: &str = include_str!("html.css");

/// Renders a transcript as one page that needs no other file and runs no script. `zone`: time zone of its times.
pub fn html(transcript: &Transcript, zone: &TimeZone) -> String {
    let title = escape(&title(transcript));
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<dl>\n"
    );
    for (label, value) in properties(transcript) {
        let _ = writeln!(out, "<dt>{label}</dt><dd>{}</dd>", escape(value));
    }
    out.push_str("</dl>\n");
    for note in &transcript.notes {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(note));
    }
    transcript.turns.iter().for_each(|turn| write_turn(&mut out, turn, zone));
    out.push_str("</body>\n</html>\n");
    out
}

fn write_turn(out: &mut String, turn: &TranscriptTurn, zone: &TimeZone) {
    let (number, details) = (turn.turn, escape(&turn_details(turn, zone)));
    let _ = writeln!(out, "<h2 id=\"turn-{number}\">{number} <small>{details}</small></h2>");
    if !turn.prompt.is_empty() {
        let _ = writeln!(out, "<pre class=\"prompt\">{}</pre>", escape(&turn.prompt));
    }
    // Only answers of models are Markdown. Output of a shell has no tokens.
    let is_markdown = turn.source == TranscriptSource::Agent || turn.tokens.is_some();
    turn.sections.iter().for_each(|section| write_section(out, section, is_markdown));
    for dialog in &turn.dialogs {
        let _ = writeln!(out, "<p class=\"dialog\">{}</p>", escape(&dialog_text(dialog, zone)));
    }
}

fn write_section(out: &mut String, section: &Section, is_markdown: bool) {
    let content = section.content.trim_end();
    let content = match section.kind {
        SectionKind::Text | SectionKind::Unknown | SectionKind::Thinking if is_markdown => to_html(content),
        _ => escape(content),
    };
    let class = if is_markdown { "markdown" } else { "text" };
    let _ = match section.kind {
        SectionKind::Text | SectionKind::Unknown => {
            writeln!(out, "<div class=\"{class}\">{content}</div>")
        }
        SectionKind::Thinking => {
            let thought = format!("<div class=\"{class}\">{content}</div>");
            writeln!(out, "<details><summary>Thinking</summary>{thought}</details>")
        }
        SectionKind::ToolCall => {
            let heading = escape(&tool_heading(section));
            writeln!(out, "<details><summary>{heading}</summary><pre>{content}</pre></details>")
        }
        SectionKind::Error => writeln!(out, "<pre class=\"error\">Error: {content}</pre>"),
        SectionKind::Interrupted => writeln!(out, "<pre class=\"error\">Interrupted: {content}</pre>"),
    };
}
