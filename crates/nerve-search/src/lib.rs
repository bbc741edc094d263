//! The parts of a search that need no index: the text of a recording, what a pattern requires of a text, filters of texts by it, and
//! excerpts around matches. The index itself is in `nerve-engine`.
//!
//! A regular expression is not in an index. But most have literal parts, which every match contains:
//!
//! * [`required_words`]: whole words, which a full-text index looks up.
//! * [`RequiredTrigrams`]: all sequences of three bytes of the literals. A [`TrigramFilter`] of a block of texts excludes most blocks without
//!   them, in a fraction of the time that reading the texts would take.
#![warn(missing_docs)]

mod excerpt;
mod required_words;
mod screen_text;
mod trigrams;

pub use excerpt::{ELLIPSIS, MARKS, excerpt, shorten, split_marks};
pub use required_words::required_words;
pub use screen_text::{ScreenPart, ScreenText, read_screen_text};
pub use trigrams::{BLOCK_LEN, RequiredTrigrams, SHARDS, TrigramFilter};
