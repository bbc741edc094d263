//! A deterministic terminal agent. It looks like Claude Code's classic renderer, so that the same profile rules apply.
//! Words in the prompt select its behaviour:
//!
//! | word | answer |
//! |---|---|
//! | (none) | `You said: <prompt>` |
//! | `LONG`, `HUGE n`, `WIDE`, `QUOTE` | a long answer, n lines, unusual widths, text that quotes a terminal agent's marks |
//! | `SLOW`, `STALL n` | word by word; nothing for n tenths of a second |
//! | `TOOL`, `PERMIT` | a tool use; one that asks for permission |
//! | `THINK`, `TOKENS` | thinking; a spinner that counts tokens |
//! | `ERR n` | an API error |
//! | `CR`, `HUGELINE`, `BADUTF8`, `FLOOD n` | carriage returns, a line of 1 MB, invalid bytes, n MB at once |
//! | `RECALL` | what the user said before in this conversation, one after the other with a bar between |
//! | `CRASH`, `EXIT`, `HANG` | ends with code 70 in mid-answer, ends with 0, busy forever |
//!
//! [`Agent`] is a state machine without I/O, and [`run`] runs it on a terminal. [`Replay`] plays a recording instead.

mod agent;
mod classic_renderer;
mod composer;
mod dialog;
mod full_screen_renderer;
mod input_matcher;
mod keys;
mod line;
mod options;
mod program;
mod replay;
mod scenario;
mod screen;
mod terminal;
mod texts;
mod transcript;
mod turn;

pub use agent::Agent;
pub use options::{FLAGS, MockAgentOptions, parse_args};
pub use program::Program;
pub use replay::Replay;
pub use screen::ScreenSize;
pub use terminal::{HANGUP, run, run_on};
pub use transcript::Message;
