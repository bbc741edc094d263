//! Transcripts as Markdown (CommonMark, with the HTML element `details` for folded parts).

use std::fmt::Write;

use jiff::tz::TimeZone;
use nerve_api::reply::{Transcript, TranscriptTurn};
use nerve_record::export::escape_markup as escape;
use nerve_types::{Section, SectionKind};

use super::{dialog_text, properties, title, tool_heading, turn_details};

/// Renders a transcript. Thoughts and results of tools are folded. The agent's text is passed on as it is. `zone`: time zone of its
/// times.
pub fn markdown(transcript: &Transcript, zone: &TimeZone) -> String {
    let mut out = format!("# {}\n", title(transcript));
    for (at, (label, value)) in properties(transcript).into_iter().enumerate() {
        let first = if at == 0 { "\n" } else { "" };
        let _ = writeln!(out, "{first}- {label}: {value}");
    }
    for note in &transcript.notes {
        let _ = write!(out, "\n*Note: {note}*\n");
    }
    transcript.turns.iter().for_each(|turn| write_turn(&mut out, turn, zone));
    out
}

fn write_turn(out: &mut String, turn: &TranscriptTurn, zone: &TimeZone) {
    let details = turn_details(turn, zone);
    let details = if details.is_empty() { details } else { format!(" · {details}") };
    let _ = write!(out, "\n## {}{details}\n", turn.turn);
    if !turn.prompt.is_empty() {
        out.push('\n');
        turn.prompt.lines().for_each(|line| {
            let _ = writeln!(out, "{}", format!("> {line}").trim_end());
        });
    }
    for section in &turn.sections {
        out.push('\n');
        write_section(out, section);
    }
    for dialog in &turn.dialogs {
        let _ = write!(out, "\n*{}*\n", dialog_text(dialog, zone));
    }
}

fn write_section(out: &mut String, section: &Section) {
    let content = section.content.trim_end();
    match section.kind {
        SectionKind::Text | SectionKind::Unknown => {
            let _ = writeln!(out, "{content}");
        }
        SectionKind::Thinking => write_folded(out, "Thinking", content),
        SectionKind::ToolCall => write_folded(out, &tool_heading(section), content),
        SectionKind::Error => {
            let _ = writeln!(out, "**Error:** {content}");
        }
        SectionKind::Interrupted => {
            let _ = writeln!(out, "**Interrupted:** {content}");
        }
    }
}

fn write_folded(out: &mut String, summary: &str, content: &str) {
    let _ = writeln!(out, "<details><summary>{}</summary>", escape(summary));
    if !content.is_empty() {
        let fence = fence(content);
        let _ = write!(out, "\n{fence}text\n{content}\n{fence}\n\n");
    }
    out.push_str("</details>\n");
}

/// Returns a fence that is longer than any run of backticks in the text (CommonMark, section 4.5).
fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}
