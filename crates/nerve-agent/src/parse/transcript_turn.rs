//! A turn as a session file has it.

use nerve_types::{Section, Tokens};

/// One turn of a transcript.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TranscriptTurn {
    /// The prompt is in the transcript. If not, only `unknown` is meaningful.
    pub is_found: bool,
    /// The sections in order. Tool calls have `tool`, `args` (compact JSON) and `id`; once there is a result, also
    /// `status` (`ok`, `error`, `rejected`) and the result as content.
    pub sections: Vec<Section>,
    /// Sums over the turn's requests, each counted once. Input includes tokens read from and written to the cache.
    pub tokens: Option<Tokens>,
    /// The turn is over: its duration was written, it was interrupted, the API rejected it, or another prompt follows.
    pub is_complete: bool,
    /// The last message is marked as final (`stop_reason` `end_turn` or `stop_sequence`) and has text. Meaningful only
    /// together with another signal that the turn is over: each block of a message has its own line, and a hook may
    /// make the agent continue.
    pub said_end: bool,
    /// The session of the prompt.
    pub session_id: Option<String>,
    /// Number of unknown lines and blocks and of malformed lines. A truncated last line is still being written and does
    /// not count.
    pub unknown: usize,
}
