//! Saved screens of real agents: `fixtures/screens/<agent>/<state>.txt`, with cursor and title in `info.tsv`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use nerve_agent::parse::{ParsedTurn, ParserKind, Section, TurnText};
use nerve_types::Size;
use nerve_vt::screen::{Cursor, Screen};

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../nerve-vt/tests/fixtures")
}

fn agent_dir(agent: &str) -> PathBuf {
    fixtures().join("screens").join(agent)
}

/// Returns the rows of a saved screen (or of its whole history, for `….hist`).
pub(crate) fn lines(agent: &str, state: &str) -> Vec<String> {
    read_rows(&agent_dir(agent).join(format!("{state}.txt")))
}

/// Returns the rows of a captured screen: `tests/fixtures/captures/<agent>/<state>.txt` of this crate.
pub(crate) fn captured_rows(agent: &str, state: &str) -> Vec<String> {
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/captures");
    read_rows(&captures.join(agent).join(format!("{state}.txt")))
}

fn read_rows(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| line.trim_end().to_string()).collect()
}

/// Returns all saved screens of an agent with cursor and title.
pub(crate) fn all(agent: &str) -> Vec<(String, Screen)> {
    let table = fs::read_to_string(agent_dir(agent).join("info.tsv")).expect("info.tsv");
    let rows = table.lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| {
        let fields: Vec<&str> = row.split('\t').collect();
        let [state, col, row, visible, title] = fields[..] else { panic!("{agent}: {row:?}") };
        let number = |text: &str| text.parse::<u16>().expect("a number");
        let cursor = Cursor { col: number(col), row: number(row), visible: visible == "1" };
        let text = lines(agent, state).join("\n");
        let screen =
            Screen { title: title.to_string(), ..Screen::from_text(&text, Size::new(120, 40), cursor) };
        (state.to_string(), screen)
    })
    .collect()
}

/// Parses rows as the answer to `prompt`.
pub(crate) fn parse(kind: ParserKind, prompt: &str, lines: &[String]) -> ParsedTurn {
    nerve_agent::parse::parser(kind).parse(&TurnText { prompt, lines })
}

/// Formats sections as text: a header row each (`tool_call tool=Bash`), the content indented by two, and the
/// completeness.
pub(crate) fn dump(parsed: &ParsedTurn) -> String {
    let mut text = dump_sections(&parsed.sections);
    if let Some(tokens) = parsed.tokens {
        let _ = writeln!(text, "tokens {:?} {:?} {:?}", tokens.input, tokens.output, tokens.total);
    }
    text.push_str(if parsed.is_complete { "complete\n" } else { "incomplete\n" });
    text
}

pub(crate) fn dump_sections(sections: &[Section]) -> String {
    let mut text = String::new();
    for section in sections {
        text.push_str(section.kind.as_str());
        for (key, value) in &section.metadata {
            let _ = write!(text, " {key}={}", value.replace('\n', "\\n"));
        }
        text.push('\n');
        for line in section.content.lines() {
            let _ = writeln!(text, "{}", format!("  {line}").trim_end());
        }
    }
    text
}

/// Compares a dump with the expected text, without its common indentation and first newline.
#[track_caller]
pub(crate) fn expect(parsed: &ParsedTurn, expected: &str) {
    expect_text(&dump(parsed), expected);
}

#[track_caller]
pub(crate) fn expect_text(got: &str, expected: &str) {
    let expected = expected.strip_prefix('\n').unwrap_or(expected);
    let margin = expected
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.len() - line.trim_start().len())
        .min();
    let expected: Vec<&str> =
        expected.trim_end().lines().map(|line| line.get(margin.unwrap_or(0)..).unwrap_or("")).collect();
    let expected = expected.join("\n") + "\n";
    assert!(got == expected, "got:\n{got}\nexpected:\n{expected}");
}
