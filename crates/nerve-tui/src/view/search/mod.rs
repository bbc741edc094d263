//! Text search: patterns, the incremental scan for the next match, and the search of a window.

mod pattern;
mod scanner;
pub(crate) mod session;

pub use self::pattern::{Pattern, PatternOptions};
pub use self::scanner::{Direction, MatchCounter, ScanStep, Scanner};
