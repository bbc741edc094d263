//! Parser for the screen of Codex, inline and on the alternate screen.
//!
//! While text streams, only the window title signals work; the line `Worked for …` ends a turn. The composer is the
//! last `›` row. A dialog's selected choice looks the same except for its number and footer.

use nerve_vt::screen::Screen;

use super::echo::{EchoStyle, end_of_last_echo, tail_of_echo};
use super::layout::{Layout, SURE};
use super::rows::{after_marker, compact, dedent, indent, is_blank, is_duration, is_rule, join, join_draft};
use super::section_builder::SectionBuilder;
use super::{ParsedTurn, Parser, Section, SectionKind, TurnText, screen_rows, tool_section};

/// Parser for Codex 0.1xx.
pub(super) struct CodexParser;

impl Parser for CodexParser {
    /// Returns true if the visible cursor is in the composer, and neither title nor status row signals work.
    fn is_ready(&self, screen: &Screen) -> bool {
        let rows = screen_rows(screen);
        let cursor = usize::from(screen.cursor.row);
        let Some(LiveRegion::Composer(composer)) = LiveRegion::find(&rows) else { return false };
        let is_in_composer = composer <= cursor
            && rows
                .get(composer + 1..=cursor)
                .is_some_and(|rows| rows.iter().all(|row| is_continuation(row)));
        is_in_composer
            && screen.cursor.visible
            && !is_busy_title(&screen.title)
            && !has_status_above(&rows[..composer])
            && !rows[cursor + 1..].iter().any(|row| is_startup_footer(row))
    }

    fn parse(&self, turn: &TurnText<'_>) -> ParsedTurn {
        let rows = turn.rows();
        let live = LiveRegion::find(&rows);
        let end = match &live {
            Some(LiveRegion::Composer(at)) if turn.is_draft(&draft(&rows[*at..])) => {
                return ParsedTurn::default();
            }
            Some(LiveRegion::Composer(at) | LiveRegion::Dialog(at)) => *at,
            None => rows.len(),
        };
        let (start, is_truncated) = answer_start(&rows[..end], turn.prompt);
        let mut builder = SectionBuilder::new(&rows[..end], start);
        builder.has_dialog = matches!(live, Some(LiveRegion::Dialog(_)));
        add_rows(&mut builder);
        // An error alone ends no turn.
        let is_complete = !builder.has_dialog && builder.has_ended;
        ParsedTurn { is_complete, ..builder.finish(false, is_truncated) }
    }
}

/// The conversation layout of Codex.
pub(super) static LAYOUT: Layout = Layout {
    echo: EchoStyle { head: &|rows, row| prompt_text(rows[row]), indent: 2 },
    // Two blank rows separate the prompt from the answer.
    ends_echo: |rows, row| is_blank(rows[row]) && rows.get(row + 1).is_some_and(|next| is_blank(next)),
    is_wrapped_echo: |_, _| false,
    is_answer: |row| after_marker(row, &['•', '◦', '■', '✗']).is_some() || is_end_line(row),
    banner: ">_ OpenAI Codex",
    live: |rows| match LiveRegion::find(rows)? {
        LiveRegion::Composer(at) | LiveRegion::Dialog(at) => Some(at),
    },
    // Bullets are too common to count.
    weight: |row| if prompt_text(row).is_some() || is_end_line(row) || is_status_row(row) { SURE } else { 0 },
};

/// The live region at the bottom of the screen.
enum LiveRegion {
    /// A composer; the row of its marker.
    Composer(usize),
    /// A dialog; its first row.
    Dialog(usize),
}

impl LiveRegion {
    fn find(rows: &[&str]) -> Option<LiveRegion> {
        let at = rows.iter().rposition(|row| !is_continuation(row))?;
        let marked = prompt_text(rows[at])?;
        let is_choice = marked
            .split_once(". ")
            .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()));
        let has_keys = rows[at..].iter().any(|row| row.trim_start().starts_with("Press enter to"));
        if !(is_choice && has_keys) {
            return Some(LiveRegion::Composer(at));
        }
        // The question stands above the choices, two blank rows below the conversation.
        let last = rows[..at].iter().rposition(|row| !is_continuation(row)).map_or(0, |last| last + 1);
        let gap =
            (last..at).find(|&row| is_blank(rows[row]) && rows.get(row + 1).is_some_and(|row| is_blank(row)));
        Some(LiveRegion::Dialog(gap.unwrap_or(at)))
    }
}

/// Returns the text behind a prompt marker at column 0.
fn prompt_text(row: &str) -> Option<&str> {
    after_marker(row, &['›'])
}

/// Returns true for a blank or indented row, which starts nothing.
fn is_continuation(row: &str) -> bool {
    is_blank(row) || indent(row) >= 2
}

/// Returns the text in the composer that begins in the first row.
fn draft(rows: &[&str]) -> String {
    join_draft(prompt_text(rows[0]).unwrap_or_default(), &rows[1..])
}

/// Returns true for a title with a braille spinner or a request to the user.
fn is_busy_title(title: &str) -> bool {
    title.starts_with(|c| ('\u{2800}'..='\u{28ff}').contains(&c)) || title.contains("Action Required")
}

/// Returns true if the status row is the last item above the composer.
fn has_status_above(rows: &[&str]) -> bool {
    rows.iter().rev().find(|row| !is_continuation(row)).is_some_and(|row| is_status_row(row))
}

/// Returns true for the footer of a program that has not started its servers yet and sends no prompt.
fn is_startup_footer(row: &str) -> bool {
    ["  ", "· "].iter().any(|gap| row.contains(&format!("{gap}Waiting for startup")))
}

/// Returns true for `• Working (2s • esc to interrupt)`.
fn is_status_row(row: &str) -> bool {
    after_marker(row, &['•', '◦']).is_some_and(|rest| {
        rest.split_once(" (").is_some_and(|(_, time)| {
            time.split_once(" • esc to interrupt)").is_some_and(|(time, _)| is_duration(time))
        })
    })
}

/// Returns the first row of the answer, and true if rows above it have scrolled away.
///
/// On the alternate screen the echo stays in the first row while the answer scrolls below it. Only at the beginning of
/// the answer do two blank rows follow it.
fn answer_start(rows: &[&str], prompt: &str) -> (usize, bool) {
    if let Some(at) = prompt.strip_prefix('!').and_then(|command| user_shell_row(rows, command)) {
        return (at, false);
    }
    let Some(end) = end_of_last_echo(rows, prompt, &LAYOUT.echo) else {
        let tail = tail_of_echo(rows, prompt, |row| !is_continuation(row));
        return (tail, tail == 0 && !prompt.is_empty());
    };
    let is_first = !rows[1.min(rows.len())..end].iter().any(|row| prompt_text(row).is_some());
    let gap = rows[end..].iter().take_while(|row| is_blank(row)).count();
    (end, is_first && prompt_text(rows[0]).is_some() && gap < 2)
}

/// Returns the row that shows the result of a command in shell mode, which has no echo.
fn user_shell_row(rows: &[&str], command: &str) -> Option<usize> {
    let command = compact(command);
    rows.iter().rposition(|row| {
        let echo = after_marker(row, &['•']).and_then(|rest| rest.strip_prefix(USER_COMMAND_PREFIX));
        echo.is_some_and(|echo| !echo.is_empty() && command.starts_with(&compact(echo)))
    })
}

/// Reads the rows up to the next prompt or the exit of the program.
fn add_rows(builder: &mut SectionBuilder<'_>) {
    while let Some(row) = builder.row() {
        builder.next_row += 1;
        let (block, has_end) = split_end_line(builder.take_rows(is_continuation));
        let marker = row.chars().next().unwrap_or(' ');
        let rest = after_marker(row, &[marker]).unwrap_or(row);
        match marker {
            '•' | '◦' => add_bullet(builder, row, rest, block, has_end),
            '■' => {
                let kind = if rest.starts_with("Conversation interrupted") {
                    SectionKind::Interrupted
                } else {
                    SectionKind::Error
                };
                add_notice(builder, kind, rest, block);
                builder.has_ended = true;
            }
            '✗' => add_notice(builder, SectionKind::Error, rest, block),
            // A permission that the user granted, or a warning.
            '✔' | '⚠' => {
                take_wrapped(builder);
            }
            // The next prompt ends this turn.
            '›' => {
                builder.has_ended = true;
                return;
            }
            // A horizontal rule; older versions show the duration in it.
            '─' if is_rule(row, '─') || row.starts_with("─ Worked for ") => {
                builder.has_ended |= row.contains(" Worked for ")
            }
            // The program has exited.
            _ if is_exit_message(row) => return,
            _ => add_text(builder, SectionKind::Text, row, strip_tip(block)),
        }
        builder.has_ended |= has_end;
    }
}

/// Adds a notice of the program, which wraps to rows without an indentation.
fn add_notice<'a>(builder: &mut SectionBuilder<'a>, kind: SectionKind, first: &'a str, block: &[&'a str]) {
    let mut rows = block.to_vec();
    rows.extend(take_wrapped(builder));
    add_text(builder, kind, first, strip_tip(&rows));
}

/// Returns the rows directly below that start nothing, and moves past them.
fn take_wrapped<'a>(builder: &mut SectionBuilder<'a>) -> &'a [&'a str] {
    if is_blank(builder.rows[builder.next_row - 1]) {
        return &[];
    }
    builder.take_rows(|row| !is_blank(row) && !starts_item(row))
}

/// Adds a section unless it is empty. `first` and `block`: its rows.
fn add_text(builder: &mut SectionBuilder<'_>, kind: SectionKind, first: &str, block: &[&str]) {
    let rows: Vec<&str> =
        std::iter::once(first).chain(block.iter().copied()).map(|row| dedent(row, 2)).collect();
    builder.push(kind, join(&rows));
}

/// Adds a tool or text; skips the status row. `rest`: the text of `row` behind the marker. `has_end`: the line with the duration
/// followed the block.
fn add_bullet(builder: &mut SectionBuilder<'_>, row: &str, rest: &str, block: &[&str], has_end: bool) {
    let is_bottom = builder.next_row >= builder.rows.len();
    if is_bottom && is_status_row(row) {
        return;
    }
    let is_asking = builder.has_dialog && is_bottom && rest.starts_with("Running ");
    let is_running = row.starts_with('◦') || is_asking;
    // Only the last text of a turn has a tip below; a command may print one.
    let is_tip = block.first().is_some_and(|row| is_tip(row)) && (has_end || !rest.starts_with("Ran "));
    let has_result =
        !is_tip && block.first().is_some_and(|row| row.starts_with("  └ ") || row.starts_with("  │ "));
    let user_command = rest.strip_prefix(USER_COMMAND_PREFIX).filter(|_| has_result);
    if let Some(command) = user_command {
        let section = parse_tool(&format!("Ran {command}"), block, false);
        // The output is the whole answer to the prompt `!command`.
        let output = Section::new(SectionKind::Text, section.content.clone());
        builder.sections.extend([section, output]);
        builder.has_ended = true;
    } else if is_running || (has_result && is_tool_verb(rest)) || is_edit(rest) {
        builder.add(parse_tool(rest, block, is_running));
    } else {
        add_text(builder, SectionKind::Text, rest, strip_tip(block));
    }
}

/// The words before a command that the user ran in shell mode.
const USER_COMMAND_PREFIX: &str = "You ran ";

/// Returns true for a tip of the program below the last text of a turn.
fn is_tip(row: &str) -> bool {
    row.starts_with("  └ Tip: ")
}

/// Returns true for a row at column 0 that starts an item, or that the program writes when it exits.
fn starts_item(row: &str) -> bool {
    after_marker(row, &['•', '◦', '■', '✗', '✔', '⚠', '›']).is_some()
        || row.starts_with('─')
        || is_exit_message(row)
}

/// Returns true for a row that the program writes when it exits.
fn is_exit_message(row: &str) -> bool {
    row.starts_with("Token usage: ") || row.starts_with("To continue this session")
}

/// Removes a tip of the program, which may be wrapped, from the end of a block.
fn strip_tip<'a, 'b>(block: &'b [&'a str]) -> &'b [&'a str] {
    let last = block.iter().rposition(|row| !is_blank(row)).map_or(0, |last| last + 1);
    match block[..last].iter().rposition(|row| is_tip(row)) {
        Some(tip) if block[tip + 1..last].iter().all(|row| indent(row) >= 4) => &block[..tip],
        _ => block,
    }
}

/// Removes the line `  Worked for 3s • 21:48` at the end of a block; elsewhere it is text.
fn split_end_line<'b>(block: &'b [&'b str]) -> (&'b [&'b str], bool) {
    let Some(last) = block.iter().rposition(|row| !is_blank(row)) else { return (block, false) };
    let is_alone = last == 0 || is_blank(block[last - 1]);
    if is_end_line(block[last]) && is_alone { (&block[..last], true) } else { (block, false) }
}

/// Returns true for `  Worked for 3s • 21:48`.
fn is_end_line(row: &str) -> bool {
    row.strip_prefix("  Worked for ")
        .is_some_and(|rest| is_duration(rest.split(" • ").next().unwrap_or(rest)))
}

/// Returns true for the verb of a tool call: `Ran`, `Explored`, `Searching the web`.
fn is_tool_verb(rest: &str) -> bool {
    let verb = rest.split(' ').next().unwrap_or(rest);
    verb.starts_with(char::is_uppercase) && (verb == "Ran" || verb.ends_with("ed") || verb.ends_with("ing"))
}

/// Returns true for `Edited notes.txt (+1 -2)`, whose result is a diff without a branch sign.
fn is_edit(rest: &str) -> bool {
    let verb = ["Edited ", "Added ", "Deleted "].iter().any(|verb| rest.starts_with(verb));
    verb && rest.rsplit_once(" (+").is_some_and(|(_, counts)| counts.ends_with(')') && counts.contains(" -"))
}

/// Returns the section of a tool. `rest`: its verb and arguments; `block`: the rows below.
fn parse_tool(rest: &str, block: &[&str], is_running: bool) -> Section {
    let (verb, args) = rest.split_once(' ').unwrap_or((rest, ""));
    let name = match verb {
        "Ran" | "Running" => "shell",
        "Explored" | "Exploring" => "explore",
        "Edited" | "Added" | "Deleted" => "edit",
        "Called" | "Calling" => args.split('(').next().unwrap_or(args),
        "Searched" | "Searching" => "web_search",
        "Viewed" => "view_image",
        "Updated" => "plan",
        _ => verb,
    };
    let mut args = args.to_string();
    let mut result = Vec::new();
    for row in block {
        if let Some(more) = row.strip_prefix("  │ ") {
            args.push('\n');
            args.push_str(more);
        } else if let Some(first) = row.strip_prefix("  └ ") {
            result.push(first);
        } else if row.trim() != "+ Show details" {
            result.push(dedent(row, 4));
        }
    }
    tool_section(name, &args, is_running.then_some("running"), join(&result))
}
