//! A regular expression that comes from a profile file.

use regex::Regex;
use serde::Deserialize;

/// A compiled pattern. Reads from a string; a bad one is an error that carries the file's line and column.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl Pattern {
    /// Does it match somewhere in `text`?
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    /// What follows a match in `text`.
    pub fn after<'t>(&self, text: &'t str) -> Option<&'t str> {
        self.0.find(text).map(|found| &text[found.end()..])
    }

    /// The named groups of a match: (`selected`, `label`).
    pub fn choice<'t>(&self, text: &'t str) -> Option<(bool, &'t str)> {
        let groups = self.0.captures(text)?;
        let selected = groups.name("selected").is_some_and(|group| !group.is_empty());
        Some((selected, groups.name("label").map_or("", |group| group.as_str())))
    }

    /// What the group `choices` of a match holds, and at which byte of `text` it begins.
    pub fn choices<'t>(&self, text: &'t str) -> Option<(usize, &'t str)> {
        let group = self.0.captures(text)?.name("choices")?;
        Some((group.start(), group.as_str()))
    }

    /// A match in `text`, and what its group `until` holds.
    pub fn until<'t>(&self, text: &'t str) -> Option<(&'t str, Option<&'t str>)> {
        let groups = self.0.captures(text)?;
        Some((groups.get_match().as_str(), groups.name("until").map(|group| group.as_str())))
    }

    /// A pattern of this crate's own source.
    pub(crate) fn known(source: &str) -> Pattern {
        #[expect(clippy::expect_used, reason = "a constant of this crate, compiled by every test run")]
        Pattern(Regex::new(source).expect("a valid pattern"))
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Pattern, D::Error> {
        let source = String::deserialize(deserializer)?;
        // A profile is a small file of short patterns: a pattern that compiles to more than this is a mistake.
        regex::RegexBuilder::new(&source)
            .size_limit(1 << 20)
            .build()
            .map(Pattern)
            .map_err(|error| serde::de::Error::custom(format!("bad pattern '{source}': {error}")))
    }
}
