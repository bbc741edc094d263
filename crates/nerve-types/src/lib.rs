//! Values that all crates share: time, sizes, terminal events, answers, signals of agents, kinds of errors, and the rule for names.
//!
//! Nothing here does I/O or reads a clock.
#![warn(missing_docs)]

#[macro_use]
mod text_value;

mod answer;
mod error_kind;
mod event;
mod exit_status;
pub mod files;
mod foreground;
pub mod name;
mod signal;
mod size;
mod time;

pub use answer::{ParserKind, Section, SectionKind, Tokens, UnknownParser};
pub use error_kind::ErrorKind;
pub use event::{Event, EventKind, Origin};
pub use exit_status::ExitStatus;
pub use foreground::Foreground;
pub use signal::{BlockKind, Delivery, SignalSource};
pub use size::Size;
pub use time::TsNs;
