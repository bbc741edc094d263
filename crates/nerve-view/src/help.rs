//! The help sheet: keys and what they do, by where they do it, and what this terminal can do.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use unicode_width::UnicodeWidthStr;

use crate::bindings::Bindings;
use crate::facts::Abilities;
use crate::fitting::cut;
use crate::keys::{Code, Context, Entry, Key, OPERATIONS};
use crate::viewer::Kind;

/// Columns of the sheet side by side, at most.
const COLUMNS: u16 = 3;
/// Between two columns.
const GAP: u16 = 3;
/// A column is not wider than its rows need, and not narrower than this if there are others.
const COLUMN: u16 = 58;
/// Of a column, for the keys.
const KEYS: u16 = 24;

/// A row of the sheet.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Line {
    /// What follows is about this.
    Title(String),
    /// Keys, whether they arrive here, and what they do.
    Keys { keys: String, arrive: bool, help: String },
    /// Between two titles.
    Blank,
}

/// Where keys mean something, in the order of the sheet.
fn sections(kind: Kind) -> [(Context, &'static str); 6] {
    use Context::{Entry, List, Live, Modal, Prefix, Scroll};
    let lines = (Scroll, "Lines");
    let entry = (Entry, "Telling the agent something");
    let (list, modal) = ((List, "List of tools"), (Modal, "A tool that runs"));
    let prefix = (Prefix, "After the prefix");
    match kind {
        Kind::Live => [(Live, "While the program runs"), prefix, lines, entry, list, modal],
        // Nothing runs: its own keys are left out below.
        Kind::After => [lines, entry, list, modal, prefix, (Live, "")],
    }
}

fn sheet(bindings: &Bindings, kind: Kind, abilities: Abilities) -> Vec<Line> {
    let mut lines = Vec::new();
    let sections = sections(kind);
    for (at, (context, title)) in sections.iter().enumerate() {
        if title.is_empty() {
            continue;
        }
        let is_first = |entry: &&Entry| {
            let before = &sections[..at];
            entry.contexts.contains(context)
                && !before.iter().any(|(other, _)| entry.contexts.contains(other))
        };
        // What has no key here but one after the prefix is told there; among a program's own keys there is only what is taken from it.
        let has_row = |entry: &&Entry| {
            let is_bound = !bindings.keys_of(entry).is_empty();
            is_bound || *context != Context::Live && instead(bindings, entry).is_none()
        };
        let rows =
            OPERATIONS.iter().filter(is_first).filter(has_row).map(|entry| row(bindings, entry, abilities));
        let mut rows: Vec<Line> = rows.collect();
        if *context == Context::Scroll {
            rows.push(plain("10 before a key", "ten times, or to line 10"));
            rows.push(plain("a text after /", "regular expressions; capitals count if there is one"));
            rows.push(plain("wheel", "three lines"));
            rows.push(plain("shift and drag", "text is selected by the terminal itself"));
            rows.push(plain("click", "tell the agent something at that line; a moment in the timeline"));
        }
        if !rows.is_empty() {
            lines.push(Line::Title(title.to_string()));
            lines.append(&mut rows);
            lines.push(Line::Blank);
        }
    }
    lines.push(Line::Title("This terminal".to_string()));
    let has = |has, yes: &str, no: &str| if has { yes.to_string() } else { no.to_string() };
    let kitty =
        has(abilities.kitty_keyboard, "yes: all keys arrive", "no: keys in brackets do not arrive here");
    lines.push(plain("kitty keyboard protocol", &kitty));
    if !abilities.colours.is_empty() {
        lines.push(plain("colours", abilities.colours));
    }
    lines
}

fn plain(keys: &str, help: &str) -> Line {
    Line::Keys { keys: keys.to_string(), arrive: true, help: help.to_string() }
}

/// An operation's row. Keys that this terminal cannot send stand in brackets, with what does the same.
fn row(bindings: &Bindings, entry: &Entry, abilities: Abilities) -> Line {
    let names = bindings.keys_of(entry);
    let arrives = |name: &str| abilities.kitty_keyboard || !needs_protocol(name);
    let (here, not_here): (Vec<String>, Vec<String>) = names.into_iter().partition(|name| arrives(name));
    let mut help = entry.help.to_string();
    let arrive = !here.is_empty() || not_here.is_empty();
    if !arrive && let Some(instead) = instead(bindings, entry) {
        help = format!("not here: {instead} — {help}");
    }
    let missing = not_here.iter().map(|name| format!("[{name}]"));
    let keys: Vec<String> = here.into_iter().chain(missing).collect();
    let keys = if keys.is_empty() { "no key".to_string() } else { keys.join("  ") };
    Line::Keys { keys, arrive, help }
}

/// The keys that do the same after the prefix.
fn instead(bindings: &Bindings, entry: &Entry) -> Option<String> {
    let prefix = OPERATIONS.iter().find(|other| other.name == "prefix")?;
    let prefix = bindings.keys_of(prefix).into_iter().next()?;
    let after = bindings.keys_in(Context::Prefix, entry.operation).into_iter().next()?;
    Some(format!("{prefix} {after}"))
}

/// Terminals without the kitty keyboard protocol send these as other keys: what has a control character of its own, which has no place for
/// modifiers. Cursor and function keys have one (xterm, "PC-Style Function Keys": `CSI 1;6A` is Ctrl+Shift+Up).
fn needs_protocol(key: &str) -> bool {
    let Ok(Key { code, ctrl, shift, .. }) = key.parse() else { return false };
    match code {
        Code::Char(_) => ctrl && shift,
        Code::Enter | Code::Backspace => ctrl || shift,
        // Shift+Tab is a key of its own.
        Code::Tab => ctrl,
        _ => false,
    }
}

/// The sheet in an area: its rows, wrapped, and the columns, their width and height, that they make.
struct Grid {
    lines: Vec<Line>,
    columns: u16,
    width: u16,
    rows: u16,
}

fn grid(bindings: &Bindings, kind: Kind, abilities: Abilities, area: Rect) -> Grid {
    let columns = (area.width.saturating_add(GAP) / (COLUMN + GAP)).clamp(1, COLUMNS);
    let width = ((area.width + GAP) / columns).saturating_sub(GAP).max(1);
    let room = usize::from(width.saturating_sub(keys_width(width) + 2)).max(1);
    let lines = sheet(bindings, kind, abilities).into_iter();
    let lines: Vec<Line> = lines.flat_map(|line| wrapped(line, room)).collect();
    let rows = u16::try_from(lines.len()).unwrap_or(u16::MAX).div_ceil(columns);
    Grid { lines, columns, width, rows }
}

/// Of a column so wide, what is for the keys.
fn keys_width(width: u16) -> u16 {
    KEYS.min(width / 2)
}

/// A row whose words need more room than there is as several.
fn wrapped(line: Line, room: usize) -> Vec<Line> {
    let Line::Keys { keys, arrive, help } = line else { return vec![line] };
    let mut texts = vec![String::new()];
    for word in help.split(' ') {
        let last = texts.len() - 1;
        if !texts[last].is_empty() && texts[last].width() + 1 + word.width() > room {
            texts.push(word.to_string());
        } else if texts[last].is_empty() {
            texts[last] = word.to_string();
        } else {
            texts[last] = format!("{} {word}", texts[last]);
        }
    }
    let keys = std::iter::once(keys).chain(std::iter::repeat(String::new()));
    texts.into_iter().zip(keys).map(|(help, keys)| Line::Keys { keys, arrive, help }).collect()
}

/// The furthest row that the sheet can begin at.
pub(crate) fn furthest(bindings: &Bindings, kind: Kind, abilities: Abilities, area: Rect) -> u16 {
    grid(bindings, kind, abilities, area).rows.saturating_sub(area.height)
}

/// Draws as many rows as there is room for, from this one on; the last ones if it is beyond them.
pub(crate) fn draw(
    bindings: &Bindings,
    kind: Kind,
    abilities: Abilities,
    from: u16,
    area: Rect,
    buffer: &mut Buffer,
) {
    let Grid { lines, columns, width, rows } = grid(bindings, kind, abilities, area);
    let from = usize::from(from.min(rows.saturating_sub(area.height)));
    for (column, lines) in (0..columns).zip(lines.chunks(rows.max(1).into())) {
        let x = area.x + column * (width + GAP);
        for (line, y) in lines.iter().skip(from).zip(area.top()..area.bottom()) {
            draw_line(
                line,
                Rect { x, y, width: width.min(area.right().saturating_sub(x)), height: 1 },
                buffer,
            );
        }
    }
}

fn draw_line(line: &Line, area: Rect, buffer: &mut Buffer) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let room = usize::from(area.width);
    match line {
        Line::Blank => {}
        Line::Title(title) => {
            buffer.set_stringn(
                area.x,
                area.y,
                cut(title, room),
                room,
                bold.add_modifier(Modifier::UNDERLINED),
            );
        }
        Line::Keys { keys, arrive, help } => {
            let style = if *arrive { bold } else { Style::new().add_modifier(Modifier::DIM) };
            let wide = keys_width(area.width);
            // The first ones are the short ones; all of an operation's keys need not be read.
            buffer.set_stringn(area.x, area.y, whole(keys, wide.into()), wide.into(), style);
            let x = area.x + (wide + 2).min(area.width);
            let room = usize::from(area.right().saturating_sub(x));
            buffer.set_stringn(x, area.y, cut(help, room), room, Style::new());
        }
    }
}

/// As many names of keys as there is room for, or the first one cut.
fn whole(keys: &str, room: usize) -> String {
    let mut text = String::new();
    for key in keys.split("  ") {
        let more = if text.is_empty() { key.to_string() } else { format!("{text}  {key}") };
        if more.width() > room {
            return if text.is_empty() { cut(key, room) } else { text };
        }
        text = more;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(kind: Kind, abilities: Abilities) -> String {
        let lines = sheet(&Bindings::default(), kind, abilities).into_iter();
        let text = lines.map(|line| match line {
            Line::Title(title) => format!("# {title}\n"),
            Line::Keys { keys, help, .. } => format!("{keys}: {help}\n"),
            Line::Blank => "\n".to_string(),
        });
        text.collect()
    }

    /// The rows below a title.
    fn section(kind: Kind, kitty_keyboard: bool, title: &str) -> String {
        let all = text(kind, Abilities { kitty_keyboard, colours: "24 bit" });
        let begin = format!("# {title}\n");
        let rows = all.split("\n\n").find_map(|section| section.strip_prefix(&begin));
        rows.unwrap_or_default().trim_end().to_string()
    }

    #[test]
    fn every_operation_that_has_a_key_is_on_the_sheet() {
        let shown = text(Kind::Live, Abilities::default());
        for entry in OPERATIONS.iter().filter(|entry| !entry.keys.is_empty()) {
            let ends = format!(": {}\n", entry.help);
            assert!(
                shown.contains(&ends) || shown.contains(&format!("— {}\n", entry.help)),
                "{}",
                entry.name
            );
        }
        assert!(!text(Kind::After, Abilities::default()).contains("While the program runs"));
    }

    #[test]
    fn the_rows_of_a_program_that_runs() {
        let rows = section(Kind::Live, true, "While the program runs");
        assert_eq!(rows, LIVE_ROWS);
        let rows = section(Kind::Live, false, "While the program runs");
        assert_eq!(rows, LIVE_ROWS.replace("ctrl+shift+t: ", "[ctrl+shift+t]: not here: ctrl+] t — "));
        assert_eq!(section(Kind::Live, true, "After the prefix"), PREFIX_ROWS);
        assert_eq!(section(Kind::After, false, "This terminal"), TERMINAL_ROWS);
    }

    const LIVE_ROWS: &str = "ctrl+]: the next key is the viewer's
ctrl+shift+up: tell the agent something at the latest snapshot; at the one before
ctrl+shift+t: what the agent runs
shift+pageup: what was written before
pageup: the same, where no full-screen program runs";
    const PREFIX_ROWS: &str = "d: leave; the program goes on
[  pageup: what was written before
i  up: tell the agent something
down: the same at the next snapshot
t: what the agent runs
y: copy the text that can be seen
x: forget the tool that is shown
?  h: this sheet
q: end the program's session (asks)";
    const TERMINAL_ROWS: &str = "kitty keyboard protocol: no: keys in brackets do not arrive here
colours: 24 bit";

    #[test]
    fn keys_that_have_no_place_for_modifiers_need_the_protocol() {
        let needed = ["ctrl+shift+t", "shift+enter", "ctrl+enter", "ctrl+shift+backspace", "ctrl+tab"];
        assert!(needed.into_iter().all(needs_protocol));
        let others = ["ctrl+shift+up", "shift+pageup", "ctrl+home", "alt+enter", "shift+tab", "ctrl+]", "G"];
        assert!(!others.into_iter().any(needs_protocol));
    }

    #[test]
    fn long_rows_go_on_below() {
        let rows = wrapped(plain("j", "one two three"), 8);
        assert_eq!(rows, [plain("j", "one two"), plain("", "three")]);
        assert_eq!(wrapped(plain("j", "longest of words"), 3).len(), 3);
    }

    #[test]
    fn as_many_names_of_keys_as_fit() {
        assert_eq!(whole("j  e  down  enter", 9), "j  e");
        assert_eq!(whole("ctrl+shift+up", 5), "ctrl…");
        assert_eq!(whole("j", 5), "j");
    }
}
