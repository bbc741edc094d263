//! Prices of tokens, and the table of the models' prices.
//!
//! The table comes from `prices.toml`: the built-in file, and the user's file, whose entries come first.

use std::path::Path;

use jiff::civil::Date;
use nerve_types::token_usage::TokenUsage;
use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::value::Datetime;

/// The built-in table.
const BUILT_IN: &str = include_str!("prices.toml");
/// Maximum size of the user's file, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Prices in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Prices {
    /// Input tokens.
    pub input: f64,
    /// Output tokens.
    pub output: f64,
    /// Input tokens read from the cache.
    pub cache_read: f64,
    /// Input tokens written to the cache.
    pub cache_write: f64,
}

impl Prices {
    /// Creates prices for input and output. Cache prices follow Anthropic's: a tenth of `input` to read, a quarter more
    /// to write.
    pub fn new(input: f64, output: f64) -> Prices {
        Prices { input, output, cache_read: input * 0.1, cache_write: input * 1.25 }
    }

    /// Returns the cost of these tokens, in US dollars.
    pub fn cost(&self, tokens: &TokenUsage) -> f64 {
        let of = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
        of(tokens.input, self.input)
            + of(tokens.output, self.output)
            + of(tokens.cache_read, self.cache_read)
            + of(tokens.cache_write, self.cache_write)
    }

    /// Returns true if all prices are finite and not negative.
    pub(crate) fn are_valid(&self) -> bool {
        [self.input, self.output, self.cache_read, self.cache_write].into_iter().all(is_valid)
    }
}

fn is_valid(price: f64) -> bool {
    price.is_finite() && price >= 0.0
}

/// The prices of the models whose names match a pattern, from a day on.
#[derive(Debug, Clone, PartialEq)]
pub struct PriceEntry {
    /// Name of the models; `*` stands for any text.
    pub name: String,
    /// First day of these prices.
    pub since: Date,
    /// The prices.
    pub prices: Prices,
    /// The entry is in the user's file.
    pub is_own: bool,
}

/// Prices of models by name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PriceTable {
    /// The user's entries, then the built-in ones, each in the order of their file.
    entries: Vec<PriceEntry>,
}

/// Reason why a file of prices cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PriceError {
    /// The file cannot be read.
    #[error("cannot read the prices in {path}: {source}")]
    Unreadable {
        /// The file.
        path: String,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The file is invalid.
    #[error("{path}:{line}:{column}: {message}")]
    Invalid {
        /// The file.
        path: String,
        /// Line of the error, from 1.
        line: usize,
        /// Column of the error in characters, from 1.
        column: usize,
        /// Description of the error.
        message: String,
    },
}

impl PriceTable {
    /// Returns the built-in table.
    pub fn built_in() -> PriceTable {
        // A test parses the file.
        PriceTable { entries: parse(BUILT_IN, false).unwrap_or_default() }
    }

    /// Reads the user's file, which need not exist, and completes it with the built-in table.
    ///
    /// # Errors
    /// The file exists and cannot be read or is invalid.
    pub fn load(path: &Path) -> Result<PriceTable, PriceError> {
        let path_text = || path.display().to_string();
        let text = match read(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => read.map_err(|source| PriceError::Unreadable { path: path_text(), source })?,
        };
        let mut entries = parse(&text, true).map_err(|InvalidEntry { at, message }| {
            let preceding = text.get(..at).unwrap_or(&text);
            let line_start = preceding.rfind('\n').map_or(0, |end| end + 1);
            let (line, column) =
                (preceding.matches('\n').count() + 1, preceding[line_start..].chars().count() + 1);
            PriceError::Invalid { path: path_text(), line, column, message }
        })?;
        entries.extend(PriceTable::built_in().entries);
        Ok(PriceTable { entries })
    }

    /// Returns all entries: the user's, then the built-in ones.
    pub fn entries(&self) -> &[PriceEntry] {
        &self.entries
    }

    /// Returns the prices of a model on a day; `None` if there is none. See [`PriceTable::find`].
    pub fn prices(&self, model: &str, day: Option<Date>) -> Option<Prices> {
        self.find(model, day).map(|entry| entry.prices)
    }

    /// Returns the cost of a model's tokens on a day, in US dollars; `None` if the model has no price.
    pub fn cost(&self, model: &str, day: Option<Date>, tokens: &TokenUsage) -> Option<f64> {
        self.prices(model, day).map(|prices| prices.cost(tokens))
    }

    /// Returns the entry with the prices of a model on a day; `None` if there is none. Without a day the newest applies.
    ///
    /// A name with a provider or a date, such as `anthropic/NAME-20260131`, also matches without them. Before the first day of
    /// a price that price applies, because the day may come from a wrong clock.
    pub fn find(&self, model: &str, day: Option<Date>) -> Option<&PriceEntry> {
        let find = |model: &str, is_own: bool| {
            let matching = || {
                self.entries
                    .iter()
                    .filter(move |entry| entry.is_own == is_own && is_match(&entry.name, model))
            };
            let longest = matching().map(|entry| entry.name.len()).max()?;
            let best = || matching().filter(|entry| entry.name.len() == longest);
            let current = best().filter(|entry| day.is_none_or(|day| entry.since <= day));
            let current = current.max_by_key(|entry| entry.since);
            current.or_else(|| best().min_by_key(|entry| entry.since))
        };
        let short = model.rsplit('/').next().unwrap_or(model);
        // Claude Code adds the size of a large context: `claude-opus-4-6[1m]`.
        let short = short.split('[').next().unwrap_or(short);
        let names = [model, short, without_date(short)];
        [true, false].iter().find_map(|is_own| names.iter().find_map(|name| find(name, *is_own)))
    }
}

/// Returns the name of a model without the date of its version: `-20260131` or `-2026-01-31`.
fn without_date(model: &str) -> &str {
    let is_date = |text: &str| {
        let digits = text.chars().filter(char::is_ascii_digit).count();
        digits == 8 && text.chars().all(|char| char.is_ascii_digit() || char == '-')
    };
    // The day may begin with 20, too.
    let mut parts = model.match_indices("-20").map(|(at, _)| model.split_at(at));
    parts.find(|(_, date)| is_date(date)).map_or(model, |(name, _)| name)
}

/// Returns true if a text matches a pattern in which `*` stands for any text. Case does not matter.
fn is_match(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_lowercase(), text.to_lowercase());
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*') {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(end)
}

fn read(path: &Path) -> std::io::Result<String> {
    let size = std::fs::metadata(path)?.len();
    if size > MAX_FILE {
        return Err(std::io::Error::other(format!("its {size} bytes exceed {MAX_FILE}")));
    }
    std::fs::read_to_string(path)
}

/// An error in the text of a file.
#[derive(Debug)]
struct InvalidEntry {
    /// Offset in the text, in bytes.
    at: usize,
    message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFile {
    #[serde(default)]
    model: Vec<StoredEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredEntry {
    name: Spanned<String>,
    since: Spanned<Datetime>,
    input: Spanned<f64>,
    output: Spanned<f64>,
    cache_read: Option<Spanned<f64>>,
    cache_write: Option<Spanned<f64>>,
}

fn parse(text: &str, is_own: bool) -> Result<Vec<PriceEntry>, InvalidEntry> {
    let file: PriceFile = toml::from_str(text).map_err(|error| InvalidEntry {
        at: error.span().map_or(0, |span| span.start),
        message: error.message().trim().to_string(),
    })?;
    file.model.into_iter().map(|entry| entry.check(is_own)).collect()
}

impl StoredEntry {
    fn check(self, is_own: bool) -> Result<PriceEntry, InvalidEntry> {
        let invalid = |at: usize, message: &str| InvalidEntry { at, message: message.to_string() };
        let price = |price: &Spanned<f64>| match is_valid(*price.get_ref()) {
            true => Ok(*price.get_ref()),
            false => Err(invalid(price.span().start, "a price must be a number of dollars, 0 or more")),
        };
        let input = price(&self.input)?;
        let prices = Prices {
            input,
            output: price(&self.output)?,
            cache_read: self.cache_read.as_ref().map_or(Ok(input), price)?,
            cache_write: self.cache_write.as_ref().map_or(Ok(input), price)?,
        };
        let date = self.since.get_ref().date.and_then(|date| {
            let number = |number: u8| i8::try_from(number).ok();
            Date::new(i16::try_from(date.year).ok()?, number(date.month)?, number(date.day)?).ok()
        });
        let since =
            date.ok_or_else(|| invalid(self.since.span().start, "'since' must be a date: 2026-01-31"))?;
        let name = self.name.get_ref().trim().to_string();
        if name.is_empty() {
            return Err(invalid(self.name.span().start, "the name of the model is empty"));
        }
        Ok(PriceEntry { name, since, prices, is_own })
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    fn load(text: &str) -> Result<PriceTable, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.toml");
        std::fs::write(&path, text).unwrap();
        PriceTable::load(&path).map_err(|error| error.to_string().replace(&path.display().to_string(), "F"))
    }

    #[test]
    fn built_in_file_is_valid_and_has_current_models() {
        assert!(!parse(BUILT_IN, false).unwrap().is_empty());
        let table = PriceTable::built_in();
        for (model, input) in [
            ("claude-opus-4-1-20250805", 15.0),
            ("claude-opus-4-6[1m]", 5.0),
            ("claude-opus-5-5", 4.0),
            ("anthropic/claude-haiku-4-5-20251001", 1.0),
            ("gpt-5-codex", 1.25),
            ("GPT-5-mini-2025-08-07", 0.25),
            ("claude-opus-5-20260724[1m]", 5.0),
            ("gpt-5.4-2026-03-05", 2.5),
            ("gemini-2.5-flash", 0.3),
        ] {
            assert_eq!(table.prices(model, None).map(|prices| prices.input), Some(input), "{model}");
        }
        for unknown in ["gpt-5.4-pro", "claude-opus-9", "fake-model", ""] {
            assert_eq!(table.prices(unknown, None), None, "{unknown}");
        }
    }

    #[test]
    fn price_depends_on_the_day() {
        let table = PriceTable::built_in();
        let cache_read = |day| table.prices("claude-sonnet-5-5", day).unwrap().cache_read;
        assert_eq!(cache_read(Some(date(2026, 10, 6))), 0.2);
        assert_eq!(cache_read(Some(date(2026, 10, 7))), 0.1);
        assert_eq!(cache_read(None), 0.1, "the newest");
        assert_eq!(cache_read(Some(date(1970, 1, 1))), 0.2, "the first one, also with a wrong clock");
    }

    #[test]
    fn own_entries_replace_built_in_ones() {
        let table = load(
            "[[model]]\nname = 'claude-*'\nsince = 2026-01-01\ninput = 1\noutput = 2\n\
             [[model]]\nname = 'claude-opus-*'\nsince = 2026-01-01\ninput = 7\noutput = 8\ncache_read = 0.5\n",
        )
        .unwrap();
        assert_eq!(
            table.prices("claude-sonnet-4-5", None).unwrap().input,
            1.0,
            "a shorter name of the user's"
        );
        let opus = table.prices("claude-opus-5-5", None).unwrap();
        assert_eq!((opus.input, opus.cache_read, opus.cache_write), (7.0, 0.5, 7.0));
        assert!(table.prices("gpt-5", None).is_some(), "built-in entries stay");
    }

    #[test]
    fn invalid_file_is_an_error_with_line_and_column() {
        let entry = "[[model]]\nname = 'm'\nsince = 2026-01-01\n";
        let cases = [
            (format!("{entry}input = 1\n"), "F:1:1: missing field `output`"),
            (format!("{entry}input = -1\noutput = 2\n"), "F:4:9: a price must be"),
            (format!("{entry}input = nan\noutput = 2\n"), "F:4:9: a price must be"),
            (format!("{entry}input = 1\noutput = 2\ncashe = 3\n"), "F:6:1: unknown field `cashe`"),
            (format!("{entry}input = 1\noutput = 2 3\n"), "F:5:10: "),
            ("[[model]]\nname = ' '\nsince = 2026-01-01\ninput=1\noutput=1".to_string(), "F:2:8: the name"),
            ("[[model]]\nname = 'm'\nsince = 10:00:00\ninput=1\noutput=1".to_string(), "F:3:9: 'since' must"),
        ];
        for (text, expected) in cases {
            let error = load(&text).unwrap_err();
            assert!(error.starts_with(expected), "{error}\n{text}");
        }
        assert_eq!(load("").unwrap(), PriceTable::built_in());
        let folder = tempfile::tempdir().unwrap();
        assert!(PriceTable::load(folder.path()).unwrap_err().to_string().starts_with("cannot read"));
        assert_eq!(PriceTable::load(&folder.path().join("none")).unwrap(), PriceTable::built_in());
    }

    #[test]
    fn pattern_matches_whole_text() {
        for (pattern, text, expected) in [
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("ab*ba", "aba", false),
            ("*", "", true),
            ("ab", "abc", false),
        ] {
            assert_eq!(is_match(pattern, text), expected, "{pattern} {text}");
        }
    }
}
