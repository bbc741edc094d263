//! Text search: patterns, the incremental scan for the next match, and the state of a search.

pub(crate) mod line_filter;
mod pattern;
mod scanner;
pub(crate) mod session;

pub use self::pattern::{Pattern, PatternOptions};
pub use self::scanner::Direction;
pub(crate) use self::scanner::{LINES_PER_STEP, MatchCounter, ScanStep, Scanner};
