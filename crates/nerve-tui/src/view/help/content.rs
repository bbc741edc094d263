//! The content of the help sheet: keys by context, and the terminal's capabilities.

use crate::view::bindings::Bindings;
use crate::view::effect::Source;
use crate::view::keys::{Code, Context, Key};
use crate::view::operations::{OPERATIONS, OperationInfo};
use crate::view::status_info::Capabilities;

/// Rows of the section about lines that have no operation.
const LINES_ROWS: [(&str, &str); 4] = [
    ("10 before a key", "ten times, or to line 10"),
    ("wheel", "three lines"),
    ("shift and drag", "select text with the terminal"),
    ("click", "new task at that line; in the timeline: seek"),
];
/// Rows of the section about the search prompt.
const PROMPT_ROWS: [(&str, &str); 6] = [
    ("a text after / ? &", "regular expression; with a capital, case-sensitive"),
    ("! before it  ctrl+n", "lines that do not match"),
    ("ctrl+r", "literal text, not an expression"),
    ("@ before it  ctrl+f", "from the first line, or upwards from the last"),
    ("ctrl+k", "highlight matches without moving"),
    ("up  down", "previous patterns"),
];

/// A row of the help sheet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// Section title.
    Title(String),
    /// Key names, whether the terminal can send them, and the help text.
    Keys { keys: String, arrive: bool, help: String },
    /// Separates sections.
    Blank,
}

/// Returns the contexts in the order of the sheet.
fn sections(source: Source) -> [(Context, &'static str); 6] {
    use Context::{Entry, List, Live, Modal, Prefix, Scroll};
    let lines = (Scroll, "Lines");
    let entry = (Entry, "Task entry");
    let (list, modal) = ((List, "List of tools"), (Modal, "Running tool"));
    let prefix = (Prefix, "After the prefix");
    match source {
        Source::Live => [(Live, "Running program"), prefix, lines, entry, list, modal],
        // Recordings have no live section.
        Source::Recording => [lines, entry, list, modal, prefix, (Live, "")],
    }
}

pub(crate) fn sheet(bindings: &Bindings, source: Source, capabilities: Capabilities) -> Vec<Line> {
    let mut lines = Vec::new();
    let sections = sections(source);
    for (at, (context, title)) in sections.iter().enumerate() {
        if title.is_empty() {
            continue;
        }
        let mut rows = operation_rows(bindings, *context, &sections[..at], capabilities);
        if *context == Context::Scroll {
            rows.extend(text_rows(&LINES_ROWS));
            if source == Source::Recording {
                rows.push(text_row("●  ▶  ◆", "in the timeline: the moment shown, a snapshot, both"));
            }
        }
        push_section(title, rows, &mut lines);
        if *context == Context::Scroll {
            push_section("Search prompt", text_rows(&PROMPT_ROWS), &mut lines);
        }
    }
    lines.push(Line::Title("This terminal".to_string()));
    let kitty = match capabilities.kitty_keyboard {
        true => "yes: all keys arrive",
        false => "no: keys in brackets do not arrive here",
    };
    lines.push(text_row("kitty keyboard protocol", kitty));
    if !capabilities.colours.is_empty() {
        lines.push(text_row("colours", capabilities.colours));
    }
    lines
}

/// Adds a section and a blank line, unless the section is empty.
fn push_section(title: &str, rows: Vec<Line>, lines: &mut Vec<Line>) {
    if !rows.is_empty() {
        lines.push(Line::Title(title.to_string()));
        lines.extend(rows);
        lines.push(Line::Blank);
    }
}

fn text_rows(rows: &[(&str, &str)]) -> Vec<Line> {
    rows.iter().map(|(keys, help)| text_row(keys, help)).collect()
}

/// Returns the rows of a context's operations that no section `before` has.
fn operation_rows(
    bindings: &Bindings,
    context: Context,
    before: &[(Context, &str)],
    capabilities: Capabilities,
) -> Vec<Line> {
    let is_first = |entry: &&OperationInfo| {
        entry.contexts.contains(&context) && !before.iter().any(|(other, _)| entry.contexts.contains(other))
    };
    // An operation without a key is omitted if it has one after the prefix. The live section lists only bound
    // operations.
    let has_row = |entry: &&OperationInfo| {
        let is_bound = !bindings.keys_of(entry).is_empty();
        is_bound || context != Context::Live && prefix_alternative(bindings, entry).is_none()
    };
    let entries = OPERATIONS.iter().filter(is_first).filter(has_row);
    entries.map(|entry| row(bindings, entry, capabilities)).collect()
}

pub(crate) fn text_row(keys: &str, help: &str) -> Line {
    Line::Keys { keys: keys.to_string(), arrive: true, help: help.to_string() }
}

/// Returns an operation's row. Keys that the terminal cannot send are in brackets, followed by an alternative.
fn row(bindings: &Bindings, entry: &OperationInfo, capabilities: Capabilities) -> Line {
    let names = bindings.keys_of(entry);
    let arrives = |name: &str| capabilities.kitty_keyboard || !needs_protocol(name);
    let (here, not_here): (Vec<String>, Vec<String>) = names.into_iter().partition(|name| arrives(name));
    let mut help = entry.help.to_string();
    let arrive = !here.is_empty() || not_here.is_empty();
    if !arrive && let Some(instead) = prefix_alternative(bindings, entry) {
        help = format!("not here: {instead} — {help}");
    }
    let missing = not_here.iter().map(|name| format!("[{name}]"));
    let keys: Vec<String> = here.into_iter().chain(missing).collect();
    let keys = if keys.is_empty() { "no key".to_string() } else { keys.join("  ") };
    Line::Keys { keys, arrive, help }
}

/// Returns the keys that do the same after the prefix.
fn prefix_alternative(bindings: &Bindings, entry: &OperationInfo) -> Option<String> {
    let prefix = OPERATIONS.iter().find(|other| other.name == "prefix")?;
    let prefix = bindings.keys_of(prefix).into_iter().next()?;
    let after = bindings.keys_in(Context::Prefix, entry.operation).into_iter().next()?;
    Some(format!("{prefix} {after}"))
}

/// Returns true for keys that need the kitty keyboard protocol: control characters cannot carry further modifiers.
/// Cursor and function keys can (xterm, "PC-Style Function Keys": `CSI 1;6A` is Ctrl+Shift+Up).
fn needs_protocol(key: &str) -> bool {
    let Ok(Key { code, ctrl, shift, .. }) = key.parse() else { return false };
    match code {
        Code::Char(_) => ctrl && shift,
        Code::Enter | Code::Backspace => ctrl || shift,
        // Shift+Tab has its own sequence.
        Code::Tab => ctrl,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(source: Source, capabilities: Capabilities) -> String {
        let lines = sheet(&Bindings::default(), source, capabilities).into_iter();
        let text = lines.map(|line| match line {
            Line::Title(title) => format!("# {title}\n"),
            Line::Keys { keys, help, .. } => format!("{keys}: {help}\n"),
            Line::Blank => "\n".to_string(),
        });
        text.collect()
    }

    /// Returns the rows of a section.
    fn section(source: Source, kitty_keyboard: bool, title: &str) -> String {
        let all = text(source, Capabilities { kitty_keyboard, colours: "24 bit" });
        let begin = format!("# {title}\n");
        let rows = all.split("\n\n").find_map(|section| section.strip_prefix(&begin));
        rows.unwrap_or_default().trim_end().to_string()
    }

    #[test]
    fn every_bound_operation_is_listed() {
        let shown = text(Source::Live, Capabilities::default());
        for entry in OPERATIONS.iter().filter(|entry| !entry.keys.is_empty()) {
            let ends = format!(": {}\n", entry.help);
            assert!(
                shown.contains(&ends) || shown.contains(&format!("— {}\n", entry.help)),
                "{}",
                entry.name
            );
        }
        assert!(!text(Source::Recording, Capabilities::default()).contains("Running program"));
    }

    #[test]
    fn live_sections_name_bound_and_unbound_keys() {
        let rows = section(Source::Live, true, "Running program");
        assert_eq!(rows, LIVE_ROWS);
        let rows = section(Source::Live, false, "Running program");
        assert_eq!(rows, LIVE_ROWS.replace("ctrl+shift+t: ", "[ctrl+shift+t]: not here: ctrl+] t — "));
        assert_eq!(section(Source::Live, true, "After the prefix"), PREFIX_ROWS);
        assert_eq!(section(Source::Recording, false, "This terminal"), TERMINAL_ROWS);
    }

    const LIVE_ROWS: &str = "ctrl+]: prefix for the viewer's keys
ctrl+shift+up: new task at the latest snapshot; again: at the previous one
ctrl+shift+t: list the agent's tools
shift+pageup: scroll back
pageup: scroll back, unless a full-screen program runs";
    const PREFIX_ROWS: &str = "d: detach; the program keeps running
[  pageup: scroll back
i  up: new task at the latest snapshot
down: new task at the next snapshot
s: take a snapshot
t: list the agent's tools
b: switch to the branch made last
y: copy the visible text
x: dismiss the shown tool
?  h: this sheet
q: end the session (asks first)";
    const TERMINAL_ROWS: &str = "kitty keyboard protocol: no: keys in brackets do not arrive here
colours: 24 bit";

    #[test]
    fn keys_that_need_the_kitty_protocol() {
        let needed = ["ctrl+shift+t", "shift+enter", "ctrl+enter", "ctrl+shift+backspace", "ctrl+tab"];
        assert!(needed.into_iter().all(needs_protocol));
        let others = ["ctrl+shift+up", "shift+pageup", "ctrl+home", "alt+enter", "shift+tab", "ctrl+]", "G"];
        assert!(!others.into_iter().any(needs_protocol));
    }
}
