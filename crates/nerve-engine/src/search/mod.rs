//! Full-text search over the transcripts and screens of all recordings, and the histories of nodes without one.
//!
//! The index is a SQLite database with an FTS5 table in the state directory. It contains nothing that cannot be built again
//! from the recordings, histories and session files, so it can be deleted at any time. SQLite is part of the binary anyway
//! (opencode keeps its conversations in it), updates one file in place, and several processes can use it at once.

mod index;
mod query;
mod screen_text;
mod update;

pub use index::SearchIndex;
pub use query::{Hit, Pattern, Query};
pub use update::{Progress, Updated};

/// What a document contains.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    serde::Serialize,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum DocumentKind {
    /// A prompt.
    Prompt,
    /// The text of an answer.
    Answer,
    /// A tool call with its result.
    Tool,
    /// Text on the screen.
    Screen,
}
