//! Parses `config.toml` and reports problems with line and column.

use serde_json::json;
use std::fmt;
use std::ops::Range;
use std::path::Path;

use nerve_api::value::Occasion;
use strum::VariantNames;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{NotifySettings, Settings, notes};
use crate::terminal::NotificationFormat;
use crate::view::bindings::{Bindings, InvalidBinding};
use crate::view::keys::Key;
use crate::view::operations::OPERATIONS;

/// A known word is suggested if at most one in this many of its letters differs.
const LETTERS_PER_TYPO: usize = 3;

/// Settings of `[notify]` and their expected values.
const NOTIFY_SETTINGS: [(&str, &str); 7] = [
    ("on", "a list of occasions"),
    ("min-turn", "seconds"),
    ("terminal", "true, false, \"osc9\", \"osc99\" or \"osc777\""),
    ("desktop", "true or false"),
    ("command", "a shell command"),
    ("webhook", "a URL"),
    ("ntfy", "the URL of a topic"),
];

/// Errors or notes about a settings file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diagnostics(Vec<Diagnostic>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Diagnostic {
    /// 1-based.
    line: usize,
    /// 1-based, in characters.
    column: usize,
    message: String,
}

impl Diagnostics {
    /// Returns the number of diagnostics.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the diagnostics as a JSON list.
    pub fn as_json(&self) -> serde_json::Value {
        let diagnostic = |found: &Diagnostic| json!({ "line": found.line, "column": found.column, "message": found.message });
        self.0.iter().map(diagnostic).collect()
    }

    /// Formats the diagnostics with the file name, one per line.
    pub fn render(&self, path: &Path) -> String {
        let line = |diagnostic: &Diagnostic| format!("{}:{diagnostic}", path.display());
        self.0.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

type Table<'a> = DeTable<'a>;
type Value<'a> = Spanned<DeValue<'a>>;

/// Parses one file and collects diagnostics.
struct Parser<'a> {
    text: &'a str,
    errors: Vec<Diagnostic>,
    /// Remarks on valid settings.
    notes: Vec<Diagnostic>,
}

/// Parses the text of a settings file.
pub(super) fn parse(text: &str) -> Result<Settings, Diagnostics> {
    let mut parser = Parser { text, errors: Vec::new(), notes: Vec::new() };
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(error) => {
            let at = error.span().unwrap_or_default();
            parser.error(at, error.message().to_string());
            return Err(Diagnostics(parser.errors));
        }
    };
    let settings = parser.settings(table.get_ref());
    let Parser { mut errors, mut notes, .. } = parser;
    errors.sort_by_key(|diagnostic| (diagnostic.line, diagnostic.column));
    notes.sort_by_key(|note| (note.line, note.column));
    if errors.is_empty() {
        Ok(Settings { notes: Diagnostics(notes), ..settings })
    } else {
        Err(Diagnostics(errors))
    }
}

impl Parser<'_> {
    fn settings(&mut self, file: &Table<'_>) -> Settings {
        let mut settings = Settings::default();
        for (name, value) in file.iter() {
            match name.get_ref().as_ref() {
                "agent" => self.agent(value, &mut settings),
                "keys" => self.keys(value, &mut settings),
                "notify" => self.notify(value, &mut settings.notify),
                "snapshots" => self.snapshots(value, &mut settings),
                other => {
                    let known = ["agent", "keys", "notify", "snapshots"];
                    self.unknown_name(name.span(), "section", other, &known);
                }
            }
        }
        settings
    }

    fn agent(&mut self, value: &Value<'_>, settings: &mut Settings) {
        let Some(agent) = self.table("agent", value) else { return };
        for (name, value) in agent.iter() {
            match name.get_ref().as_ref() {
                "record" => self.record(value, settings),
                other => self.unknown_name(name.span(), "section", other, &["record"]),
            }
        }
    }

    fn record(&mut self, value: &Value<'_>, settings: &mut Settings) {
        let Some(record) = self.table("agent.record", value) else { return };
        for (name, value) in record.iter() {
            match (name.get_ref().as_ref(), value.get_ref()) {
                ("gutter", DeValue::String(side)) => match side.parse() {
                    Ok(gutter) => settings.gutter = gutter,
                    Err(_) => self.unknown_name(value.span(), "side", side, &["left", "right", "none"]),
                },
                ("gutter", other) => {
                    let kind = other.type_str();
                    self.error(
                        value.span(),
                        format!("gutter: expected \"left\", \"right\" or \"none\", found {kind}"),
                    );
                }
                ("clipboard", DeValue::Boolean(enabled)) => settings.clipboard = *enabled,
                ("task", DeValue::Boolean(enabled)) => settings.task = *enabled,
                (known @ ("clipboard" | "task"), other) => {
                    let kind = other.type_str();
                    self.error(value.span(), format!("{known}: expected true or false, found {kind}"));
                }
                (other, _) => {
                    self.unknown_name(name.span(), "setting", other, &["gutter", "clipboard", "task"]);
                }
            }
        }
    }

    fn snapshots(&mut self, value: &Value<'_>, settings: &mut Settings) {
        let Some(snapshots) = self.table("snapshots", value) else { return };
        for (name, value) in snapshots.iter() {
            let text = match value.get_ref() {
                DeValue::String(text) => text.as_ref(),
                DeValue::Integer(number) => number.as_str(),
                _ => "",
            };
            match name.get_ref().as_ref() {
                "max-size" => match text.parse() {
                    Ok(size) => settings.snapshot_limit = size,
                    Err(error) => self.error(value.span(), format!("max-size: {error}")),
                },
                other => self.unknown_name(name.span(), "setting", other, &["max-size"]),
            }
        }
    }

    fn notify(&mut self, value: &Value<'_>, settings: &mut NotifySettings) {
        let Some(notify) = self.table("notify", value) else { return };
        for (name, value) in notify.iter() {
            let text = value.get_ref().as_str().map(str::to_string);
            let enabled = value.get_ref().as_bool();
            match (name.get_ref().as_ref(), value.get_ref()) {
                ("on", DeValue::Array(occasions)) => {
                    settings.on = occasions.iter().filter_map(|value| self.occasion(value)).collect();
                }
                ("on", _) => settings.on = self.occasion(value).into_iter().collect(),
                ("min-turn", DeValue::Integer(number)) => match number.as_str().parse() {
                    Ok(seconds) => settings.min_turn = seconds,
                    Err(_) => self.error(value.span(), "min-turn: expected seconds from 0".to_string()),
                },
                ("terminal", _) if enabled.is_some() => settings.terminal = enabled.unwrap_or_default(),
                ("terminal", _) if text.is_some() => match text.unwrap_or_default().parse() {
                    Ok(format) => (settings.terminal, settings.terminal_format) = (true, Some(format)),
                    Err(_) => {
                        let name = value.get_ref().as_str().unwrap_or_default();
                        self.unknown_name(value.span(), "sequence", name, NotificationFormat::VARIANTS);
                    }
                },
                ("desktop", _) if enabled.is_some() => settings.desktop = enabled.unwrap_or_default(),
                ("command", _) if text.is_some() => settings.command = text,
                ("webhook", _) if text.is_some() => settings.webhook = text,
                ("ntfy", _) if text.is_some() => settings.ntfy = text,
                (known, other) if NOTIFY_SETTINGS.iter().any(|(name, _)| *name == known) => {
                    let expected = NOTIFY_SETTINGS.iter().find(|(name, _)| *name == known);
                    let expected = expected.map_or("", |(_, expected)| expected);
                    let kind = other.type_str();
                    self.error(value.span(), format!("{known}: expected {expected}, found {kind}"));
                }
                (other, _) => {
                    let known = NOTIFY_SETTINGS.map(|(name, _)| name);
                    self.unknown_name(name.span(), "setting", other, &known);
                }
            }
        }
    }

    /// Parses an occasion. Reports and omits unknown ones.
    fn occasion(&mut self, value: &Value<'_>) -> Option<Occasion> {
        let name = value.get_ref().as_str().unwrap_or_default();
        let occasion = name.parse().ok();
        if occasion.is_none() {
            self.unknown_name(value.span(), "occasion", name, Occasion::VARIANTS);
        }
        occasion
    }

    fn keys(&mut self, value: &Value<'_>, settings: &mut Settings) {
        let Some(keys) = self.table("keys", value) else { return };
        let known: Vec<&str> = OPERATIONS.iter().map(|entry| entry.name).collect();
        // In file order, so that a conflict is reported at the later entry.
        let mut entries: Vec<_> = keys.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        for (name, value) in entries {
            if !known.contains(&name.get_ref().as_ref()) {
                self.unknown_name(name.span(), "operation", name.get_ref(), &known);
                continue;
            }
            let parsed = self.parse_keys(value);
            settings.keys.push((name.get_ref().to_string(), parsed));
        }
        // Returns the position of an operation's name.
        let position = |operation: &str| {
            let entry = keys.iter().find(|(name, _)| name.get_ref() == operation);
            entry.map_or(value.span(), |(name, _)| name.span())
        };
        match Bindings::with(&settings.keys) {
            Ok(bindings) => {
                for note in notes::notes_for(&settings.keys, &bindings) {
                    let message = format!("note: {}", note.message);
                    self.notes.push(self.diagnostic(position(note.operation), message));
                }
            }
            Err(bad) => {
                let at = match &bad {
                    InvalidBinding::Conflict { second: name, .. } | InvalidBinding::Typed { name, .. } => {
                        position(name)
                    }
                    _ => value.span(),
                };
                self.error(at, bad.to_string());
            }
        }
    }

    /// Parses the keys of an operation: one or a list. Reports and omits invalid keys.
    fn parse_keys(&mut self, value: &Value<'_>) -> Vec<String> {
        let parse_key = |parser: &mut Self, value: &Value<'_>| {
            let Some(name) = value.get_ref().as_str() else {
                let kind = value.get_ref().type_str();
                parser.error(
                    value.span(),
                    format!("key: expected a string such as \"ctrl+t\" or \"j\", found {kind}"),
                );
                return None;
            };
            match name.parse::<Key>() {
                Ok(_) => Some(name.to_string()),
                Err(error) => {
                    parser.error(value.span(), error.to_string());
                    None
                }
            }
        };
        match value.get_ref() {
            DeValue::Array(keys) => keys.iter().filter_map(|value| parse_key(self, value)).collect(),
            _ => parse_key(self, value).into_iter().collect(),
        }
    }

    fn table<'t, 'd>(&mut self, name: &str, value: &'t Value<'d>) -> Option<&'t Table<'d>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.error(
                value.span(),
                format!("'{name}' must be a section: write [{name}] with settings below it"),
            );
        }
        table
    }

    fn unknown_name(&mut self, at: Range<usize>, kind: &str, name: &str, known: &[&str]) {
        let shown: String = name.chars().take(40).collect();
        let suggestion = known
            .iter()
            .map(|known| (strsim::damerau_levenshtein(known, &shown), known))
            .filter(|(distance, known)| {
                let letters = known.chars().count();
                *distance <= (letters / LETTERS_PER_TYPO).max(1) && *distance < letters
            })
            .min();
        let message = match suggestion {
            Some((_, near)) => format!("unknown {kind} '{shown}'; did you mean '{near}'?"),
            None => format!("unknown {kind} '{shown}'; known: {}", known.join(", ")),
        };
        self.error(at, message);
    }

    fn error(&mut self, at: Range<usize>, message: String) {
        let diagnostic = self.diagnostic(at, message);
        self.errors.push(diagnostic);
    }

    /// Creates a diagnostic for a position in the text.
    fn diagnostic(&self, at: Range<usize>, message: String) -> Diagnostic {
        let preceding = self.text.get(..at.start).unwrap_or(self.text);
        let line = preceding.matches('\n').count() + 1;
        let column = preceding.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Diagnostic { line, column, message }
    }
}

#[cfg(test)]
mod tests {
    use crate::view::draw::Gutter;

    use super::*;

    fn problems(text: &str) -> String {
        parse(text).expect_err("the file is invalid").render(Path::new("config.toml"))
    }

    #[test]
    fn notify_section_is_parsed() {
        let text = "[notify]\non = [\"blocked\"]\nmin-turn = 5\nterminal = false\nntfy = \"http://ntfy/x\"";
        let notify = parse(text).unwrap().notify;
        assert_eq!((notify.on, notify.min_turn, notify.terminal), (vec![Occasion::Blocked], 5, false));
        assert_eq!(notify.ntfy.as_deref(), Some("http://ntfy/x"));
        let notify = parse("[notify]\nterminal = \"osc777\"").unwrap().notify;
        assert_eq!((notify.terminal, notify.terminal_format), (true, Some(NotificationFormat::Osc777)));
        assert!(problems("[notify]\nterminal = \"osc77\"").contains("did you mean 'osc777'?"));
        let bad = "[notify]\non = [\"bloked\"]\nmin-turn = -1\ndesktop = \"yes\"\ncomand = \"x\"";
        assert_eq!(parse(bad).unwrap_err().count(), 4);
    }

    #[test]
    fn size_of_snapshots_has_a_unit_or_is_a_number_of_bytes() {
        let limit = |text: &str| parse(text).unwrap().snapshot_limit.0;
        assert_eq!(limit("[snapshots]\nmax-size = \"500M\""), 500 << 20);
        assert_eq!((limit("snapshots.max-size = 0"), limit("[snapshots]")), (0, 10 << 30));
        for bad in ["\"5X\"", "-1", "true", "1.5", "\"\""] {
            let found = problems(&format!("[snapshots]\nmax-size = {bad}"));
            assert!(found.starts_with("config.toml:2:12: max-size: "), "{found}");
        }
        assert!(problems("snapshots.maxsize = 1").contains("did you mean 'max-size'?"));
    }

    #[test]
    fn empty_file_gives_defaults() {
        assert_eq!(parse("").unwrap(), Settings::default());
        assert_eq!(parse("# mine\n[agent.record]\n[keys]\n").unwrap(), Settings::default());
    }

    #[test]
    fn reads_gutter_and_keys() {
        let settings =
            parse("agent.record.gutter = 'left'\n[keys]\nhelp = 'f1'\nline-down = ['j', 'ctrl+j']\n");
        let keys = [("help", &["f1"][..]), ("line-down", &["j", "ctrl+j"])];
        let keys =
            keys.map(|(name, keys)| (name.to_string(), keys.iter().map(ToString::to_string).collect()));
        let settings = settings.unwrap();
        assert_eq!((settings.gutter, settings.keys), (Gutter::Left, keys.to_vec()));
        assert_eq!(settings.notes.render(Path::new("c")), "", "nothing lost its key");
    }

    #[test]
    fn clipboard_is_enabled_by_default() {
        let clipboard = |text: &str| parse(text).unwrap().clipboard;
        assert!(clipboard("") && clipboard("agent.record.clipboard = true"));
        assert!(!clipboard("[agent.record]\nclipboard = false"));
    }

    #[test]
    fn notes_keys_taken_from_other_operations() {
        let notes = |text: &str| parse(text).unwrap().notes.render(Path::new("c"));
        assert_eq!(
            notes("[keys]\nhelp = 'f1'\nline-down = ['k', 'K']\n"),
            "c:3:1: note: 'line-down' takes 'k' and 'K' from 'line-up', which has y, up, ctrl+p, ctrl+y, ctrl+k left"
        );
        assert_eq!(
            notes("[keys]\nquit = 'ctrl+]'\n"),
            "c:2:1: note: 'quit' takes 'ctrl+]' from 'prefix' in scroll mode"
        );
        assert_eq!(
            notes("[keys]\nstart = '%'\n"),
            "c:2:1: note: 'start' takes '%' from 'percent', which has no key left"
        );
        assert_eq!(notes("[keys]\nline-down = ['k']\nline-up = ['j', 'up']\n"), "", "both are set");
        let none = notes("[keys]\nprefix = []\n");
        assert!(none.starts_with("c:2:1: note: without 'prefix' no key leaves a running program"), "{none}");
        let ways = "[keys]\nprefix = []\ndetach = 'ctrl+alt+d'\nend-session = 'ctrl+alt+q'\n";
        assert!(!notes(ways).contains("leaves"), "{}", notes(ways));
    }

    #[test]
    fn suggests_only_similar_names() {
        assert!(problems("[keys]\nhlep = 'x'").contains("did you mean 'help'?"));
        assert!(problems("[keys]\nhalf-dwon = 'x'").contains("did you mean 'half-down'?"));
        for far in ["zoo", "top", "kill", "jump"] {
            let found = problems(&format!("[keys]\n{far} = 'x'"));
            assert!(found.contains("known: prefix, "), "{found}");
        }
    }

    #[test]
    fn reports_all_errors_with_positions() {
        let text = "[agent.record]\ngutter = \"rigth\"\n\n[keys]\nhelpp = \"f1\"\nquit = \"ctrl+shft+x\"\n\
                    ready = [\"a\", 7]\nabcdefghijk = \"a\"\n[viewer]\n";
        let found = problems(text);
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(lines[0], "config.toml:2:10: unknown side 'rigth'; did you mean 'right'?");
        assert_eq!(lines[1], "config.toml:5:1: unknown operation 'helpp'; did you mean 'help'?");
        assert!(lines[2].starts_with("config.toml:6:8: unknown key \"ctrl+shft+x\""), "{found}");
        assert!(lines[4].starts_with("config.toml:8:1: unknown operation 'abcdefghijk'; known: "));
        assert_eq!(
            lines[5],
            "config.toml:9:2: unknown section 'viewer'; known: agent, keys, notify, snapshots"
        );
    }

    #[test]
    fn reports_syntax_and_type_errors() {
        assert!(problems("[keys\n").starts_with("config.toml:1:"), "{}", problems("[keys\n"));
        assert_eq!(
            problems("keys = 3\n"),
            "config.toml:1:8: 'keys' must be a section: write [keys] with settings below it"
        );
        assert_eq!(
            problems("agent.record.clipboard = 'no'\n"),
            "config.toml:1:26: clipboard: expected true or false, found string"
        );
        assert_eq!(
            problems("agent.record.gutter = 3\n"),
            "config.toml:1:23: gutter: expected \"left\", \"right\" or \"none\", found integer"
        );
        assert_eq!(
            problems("[keys]\n'ä' = 1\n").lines().next(),
            Some("config.toml:2:1: unknown operation 'ä'; known: ".to_string() + &names()).as_deref()
        );
    }

    fn names() -> String {
        OPERATIONS.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn reports_key_conflict_at_second_operation() {
        assert_eq!(
            problems("[keys]\nquit = \"x\"\n\nhelp = [\"h\", \"x\"]\n"),
            "config.toml:4:1: key 'x' is bound to both 'quit' and 'help' in scroll mode: remove one of them",
        );
    }
}
