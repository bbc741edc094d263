//! Transcripts as plain text.

use std::fmt::Write;

use jiff::tz::TimeZone;
use nerve_api::reply::{Transcript, TranscriptTurn};
use nerve_types::{Section, SectionKind};

use super::{dialog_text, properties, title, tool_heading, turn_details};

/// Renders a transcript for a terminal or a file. `zone`: time zone of its times.
pub fn text(transcript: &Transcript, zone: &TimeZone) -> String {
    let mut out = format!("{}\n", title(transcript));
    for (label, value) in properties(transcript) {
        let _ = writeln!(out, "{label}: {value}");
    }
    for note in &transcript.notes {
        let _ = writeln!(out, "Note: {note}");
    }
    transcript.turns.iter().for_each(|turn| write_turn(&mut out, turn, zone));
    out
}

fn write_turn(out: &mut String, turn: &TranscriptTurn, zone: &TimeZone) {
    let _ = writeln!(out, "\n{}", format!("[{}] {}", turn.turn, turn_details(turn, zone)).trim_end());
    write_indented(out, "> ", &turn.prompt);
    for section in &turn.sections {
        out.push('\n');
        write_section(out, section);
    }
    for dialog in &turn.dialogs {
        let _ = write!(out, "\n({})\n", dialog_text(dialog, zone));
    }
}

fn write_section(out: &mut String, section: &Section) {
    let content = section.content.trim_end();
    match section.kind {
        SectionKind::Text | SectionKind::Unknown => {
            let _ = writeln!(out, "{content}");
        }
        SectionKind::Thinking => {
            let _ = writeln!(out, "(thinking) {content}");
        }
        SectionKind::ToolCall => {
            let _ = writeln!(out, "* {}", tool_heading(section));
            write_indented(out, "    ", content);
        }
        SectionKind::Error => {
            let _ = writeln!(out, "error: {content}");
        }
        SectionKind::Interrupted => {
            let _ = writeln!(out, "interrupted: {content}");
        }
    }
}

fn write_indented(out: &mut String, indent: &str, text: &str) {
    for line in text.lines() {
        let _ = writeln!(out, "{}", format!("{indent}{line}").trim_end());
    }
}
