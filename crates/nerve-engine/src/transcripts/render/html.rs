//! Transcripts as HTML.

use std::fmt::Write;

use jiff::tz::TimeZone;
use nerve_api::reply::{Transcript, TranscriptTurn};
use nerve_record::export::escape_markup as escape;
use nerve_types::{Section, SectionKind};

use super::{dialog_text, properties, title, tool_heading, turn_details};

const STYLE: &str = "\
:root { color-scheme: light dark; --line: #8884; --quiet: #777; --prompt: #8881; --error: #c33; }
body { max-width: 50rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; }
h2 { border-top: 1px solid var(--line); padding-top: 1rem; font-size: 1rem; }
h2 small, dl, .note, .dialog { color: var(--quiet); font-size: .9rem; font-weight: normal; }
dt { float: left; width: 8rem; } dd { margin-left: 8rem; overflow-wrap: anywhere; }
pre, .text { white-space: pre-wrap; overflow-wrap: anywhere; margin: .8rem 0; }
.prompt { background: var(--prompt); border-left: 3px solid var(--line); padding: .5rem .8rem; }
details { margin: .5rem 0; } details pre { border-left: 3px solid var(--line); padding-left: .8rem; }
summary { cursor: pointer; overflow-wrap: anywhere; } summary, pre { font-family: ui-monospace, monospace; font-size: .85rem; }
.error { color: var(--error); }";

/// Renders a transcript as one page that needs no other file and runs no script. `zone`: time zone of its times.
pub fn html(transcript: &Transcript, zone: &TimeZone) -> String {
    let title = escape(&title(transcript));
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n<h1>{title}</h1>\n<dl>\n"
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
    turn.sections.iter().for_each(|section| write_section(out, section));
    for dialog in &turn.dialogs {
        let _ = writeln!(out, "<p class=\"dialog\">{}</p>", escape(&dialog_text(dialog, zone)));
    }
}

fn write_section(out: &mut String, section: &Section) {
    let content = escape(section.content.trim_end());
    let _ = match section.kind {
        SectionKind::Text | SectionKind::Unknown => writeln!(out, "<div class=\"text\">{content}</div>"),
        SectionKind::Thinking => {
            writeln!(out, "<details><summary>Thinking</summary><pre>{content}</pre></details>")
        }
        SectionKind::ToolCall => {
            let heading = escape(&tool_heading(section));
            writeln!(out, "<details><summary>{heading}</summary><pre>{content}</pre></details>")
        }
        SectionKind::Error => writeln!(out, "<pre class=\"error\">Error: {content}</pre>"),
        SectionKind::Interrupted => writeln!(out, "<pre class=\"error\">Interrupted: {content}</pre>"),
    };
}
