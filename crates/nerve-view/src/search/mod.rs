//! Text search: patterns, the incremental scan for the next match, and the search of a window.

mod pattern;
mod scanner;
pub(crate) mod session;

pub use self::pattern::{How, Pattern};
pub use self::scanner::{Count, Direction, Hunt, Step};
