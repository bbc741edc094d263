//! Layout of a conversation on an agent's screen.

/// Separators of the turns of a conversation, and marks of its agent.
pub(super) struct Layout {
    /// Returns the prompt text if an echo starts in this row.
    pub(super) echo: for<'a> fn(&[&'a str], usize) -> Option<&'a str>,
    /// Indentation of an echo's further rows, in columns.
    pub(super) indent: usize,
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
