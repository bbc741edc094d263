//! Regular expressions in profiles.

use regex::Regex;
use serde::Deserialize;

/// A compiled regular expression. Deserializes from a string; an invalid one is an error with the file's line and
/// column.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl Pattern {
    /// Returns the expression.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Returns true if it matches anywhere in `text`.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    /// Returns the text after the first match.
    pub fn after<'t>(&self, text: &'t str) -> Option<&'t str> {
        self.0.find(text).map(|matched| &text[matched.end()..])
    }

    /// Returns the groups (`selected`, and `label` or `other_label`) of a match.
    pub fn choice<'t>(&self, text: &'t str) -> Option<(bool, &'t str)> {
        let groups = self.0.captures(text)?;
        let selected = groups.name("selected").is_some_and(|group| !group.is_empty());
        let label = groups.name("label").or_else(|| groups.name("other_label"));
        Some((selected, label.map_or("", |group| group.as_str())))
    }

    /// Returns the group `choices` of a match and its byte offset in `text`.
    pub fn choices<'t>(&self, text: &'t str) -> Option<(usize, &'t str)> {
        let group = self.0.captures(text)?.name("choices")?;
        Some((group.start(), group.as_str()))
    }

    /// Returns the matched text and its group `until`.
    pub fn until<'t>(&self, text: &'t str) -> Option<(&'t str, Option<&'t str>)> {
        let groups = self.0.captures(text)?;
        Some((groups.get_match().as_str(), groups.name("until").map(|group| group.as_str())))
    }

    /// Compiles a built-in pattern.
    pub(crate) fn known(source: &str) -> Pattern {
        #[expect(clippy::expect_used, reason = "a constant of this crate, compiled by every test run")]
        Pattern(Regex::new(source).expect("a valid pattern"))
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Pattern, D::Error> {
        let source = String::deserialize(deserializer)?;
        // Profiles contain short patterns: a larger compiled size is a mistake.
        regex::RegexBuilder::new(&source)
            .size_limit(1 << 20)
            .build()
            .map(Pattern)
            .map_err(|error| serde::de::Error::custom(format!("invalid pattern '{source}': {error}")))
    }
}
