//! The text that a query searches for.

use nerve_node::error::EngineError;
use nerve_search::{RequiredTrigrams, required_words};
use regex::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;

/// Maximum length of a pattern in bytes.
pub(super) const MAX_PATTERN: usize = 4096;

/// A text to search for.
#[derive(Debug, Clone)]
pub enum Pattern {
    /// Words in this order; the last one may continue. Ignores case, accents and punctuation.
    Text(String),
    /// A regular expression. Without `words` and `trigrams`, every document is read.
    Regex {
        /// The expression.
        regex: Regex,
        /// An FTS5 expression that every document with a match fulfils.
        words: Option<String>,
        /// Trigrams that every document with a match contains.
        trigrams: Option<RequiredTrigrams>,
    },
}

impl Pattern {
    /// Parses `/REGEX/` or a text. The index has no words of a text without letters and digits, or in a script without spaces
    /// between words. Such a text is searched for literally.
    ///
    /// # Errors
    /// InvalidRequest: empty or too long, or an invalid regular expression.
    pub fn parse(text: &str) -> Result<Pattern, EngineError> {
        if text.trim().is_empty() {
            return Err(EngineError::invalid_request("the text to search for is empty")
                .hint("pass words, or a regular expression as /REGEX/"));
        }
        if text.len() > MAX_PATTERN {
            let message = format!("the pattern exceeds {MAX_PATTERN} bytes");
            return Err(EngineError::invalid_request(message).hint("search for a part of it"));
        }
        if text.contains('\0') {
            return Err(EngineError::invalid_request("the pattern contains a NUL character")
                .hint("search for the text before or after it"));
        }
        let inner =
            text.strip_prefix('/').and_then(|text| text.strip_suffix('/')).filter(|text| !text.is_empty());
        let is_literal = !text.chars().any(char::is_alphanumeric) || text.chars().any(is_unspaced);
        let (expression, is_literal) = match inner {
            Some(inner) => (inner.to_string(), false),
            None if is_literal => (regex::escape(text), true),
            None => return Ok(Pattern::Text(text.to_string())),
        };
        let regex = RegexBuilder::new(&expression).multi_line(true).case_insensitive(is_literal).build();
        let mut parser = ParserBuilder::new().multi_line(true).case_insensitive(is_literal).build();
        let parsed = parser.parse(&expression).ok();
        let words = parsed.as_ref().and_then(required_words);
        let trigrams = parsed.as_ref().and_then(RequiredTrigrams::of);
        regex.map(|regex| Pattern::Regex { regex, words, trigrams }).map_err(|error| {
            EngineError::invalid_request(error.to_string())
                .hint("leave out the slashes to search for words; syntax: https://docs.rs/regex/#syntax")
        })
    }
}

/// Returns true for a letter of a script that does not separate words: Thai, Lao, Burmese, kana, Chinese characters.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}
