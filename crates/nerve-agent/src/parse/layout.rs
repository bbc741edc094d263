//! Layout of a conversation on an agent's screen.

use super::echo::EchoStyle;

/// Separators of the turns of a conversation, and marks of its agent.
pub(super) struct Layout {
    /// The echoes of prompts.
    pub(super) echo: EchoStyle<'static>,
    /// Returns true for a row that ends an echo although it is blank or indented.
    pub(super) ends_echo: fn(&[&str], usize) -> bool,
    /// Returns true for a row that continues an echo although it is not indented: the terminal wrapped it.
    pub(super) is_wrapped_echo: fn(&[&str], usize) -> bool,
    /// Returns true for a row that occurs only in answers.
    pub(super) is_answer: fn(&str) -> bool,
    /// Text in the program's start-up banner.
    pub(super) banner: &'static str,
    /// Returns the first row of the composer or of a dialog in its place.
    pub(super) live: fn(&[&str]) -> Option<usize>,
    /// Returns how strongly a row identifies this agent: 0 for not at all; [`SURE`] or more is sufficient alone.
    pub(super) weight: fn(&str) -> u32,
}

/// Total weight that identifies an agent.
pub(super) const SURE: u32 = 10;
