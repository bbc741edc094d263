//! Parser for programs without a known structure.

use nerve_vt::screen::Screen;

use super::rows::join;
use super::{ParsedTurn, Parser, Section, SectionKind, TurnText};

/// Returns the whole text as one section.
pub(super) struct NoneParser;

impl Parser for NoneParser {
    /// Returns true: the screen of an unknown program is no evidence against readiness.
    fn is_ready(&self, _screen: &Screen) -> bool {
        true
    }

    fn parse(&self, turn: &TurnText<'_>) -> ParsedTurn {
        let text = join(&turn.rows());
        let sections = if text.is_empty() { Vec::new() } else { vec![Section::new(SectionKind::Text, text)] };
        ParsedTurn { sections, is_complete: true, ..ParsedTurn::default() }
    }
}
