//! Values that all crates share: time, sizes, terminal events, activities, answers, signals of agents, kinds of errors, the rule for
//! names, suggestions for misspelled ones, terminal multiplexers, counts of tokens, hosts of addresses, short forms and limits of texts, and the connection
//! limiter.
//!
//! Nothing here does I/O or reads a clock, except `files`, `regular_file` and `os`, which has all calls that depend on the operating system.
#![warn(missing_docs)]

#[macro_use]
mod text_value;

pub mod activity;
mod answer;
mod byte_count;
#[cfg(feature = "connections")]
pub mod connection_limit;
pub mod cost;
mod error_kind;
mod event;
mod exit_status;
pub mod files;
mod foreground;
mod history_op;
mod multiplexer;
pub mod name;
pub mod network_address;
#[cfg(feature = "os")]
pub mod os;
#[cfg(feature = "os")]
pub mod regular_file;
mod signal;
mod size;
pub mod suggestion;
pub mod text;
pub mod text_limit;
mod time;
pub mod token_usage;

pub use answer::{ParserKind, Section, SectionKind, Tokens, UnknownParser};
pub use byte_count::{ByteCount, InvalidByteCount};
pub use error_kind::ErrorKind;
pub use event::{Event, EventKind, Origin};
pub use exit_status::ExitStatus;
pub use foreground::Foreground;
pub use history_op::HistoryOp;
pub use multiplexer::Multiplexer;
pub use signal::{BlockKind, Delivery, SignalSource};
pub use size::Size;
pub use time::{TimeSpan, TsNs, millis};
