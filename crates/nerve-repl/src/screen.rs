//! Output of the REPL: prints results, and events above the edited line.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{SyncSender, TrySendError};

use anyhow::Result;
use nerve_commands::failure::{Failure, INTERRUPTED};
use nerve_commands::out;

use super::parser::to_repl_syntax;

/// The terminal or the output of a script.
#[derive(Debug)]
pub(super) struct Screen {
    interactive: bool,
    /// Prints above the edited line. `None` if the editor cannot.
    printer: Option<SyncSender<String>>,
    /// A line is being edited.
    editing: bool,
    /// Events are shown.
    events: bool,
    /// The last chunk of an answer did not end its line.
    inside_line: bool,
    /// Lines dropped because the editor was too slow.
    dropped: u64,
}

impl Screen {
    /// Creates the output of an interactive REPL, with events.
    pub(super) fn interactive(printer: Option<SyncSender<String>>) -> Screen {
        Screen { interactive: true, printer, events: true, ..Screen::plain() }
    }

    /// Creates the output of a script, without events.
    pub(super) fn plain() -> Screen {
        Screen {
            interactive: false,
            printer: None,
            editing: false,
            events: false,
            inside_line: false,
            dropped: 0,
        }
    }

    /// Returns true for an interactive REPL.
    pub(super) fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// Returns true if events are shown.
    pub(super) fn shows_events(&self) -> bool {
        self.events
    }

    /// Shows or hides events.
    pub(super) fn show_events(&mut self, on: bool) {
        self.events = on;
    }

    /// Sets whether a line is being edited.
    pub(super) fn set_editing(&mut self, editing: bool) {
        self.editing = editing && self.interactive;
    }

    /// Prints an event, if events are shown.
    pub(super) fn event(&mut self, line: &str) {
        if self.events {
            self.print_note(&format!("· {line}"));
        }
    }

    /// Prints a message of the REPL: to stderr for scripts.
    pub(super) fn note(&mut self, text: &str) {
        self.print_note(text);
    }

    /// Prints a chunk of an answer.
    pub(super) fn print_chunk(&mut self, text: &str) -> Result<()> {
        if let Some(last) = text.chars().last() {
            self.inside_line = last != '\n';
        }
        out::piece(text)
    }

    /// Ends the current line, if necessary.
    pub(super) fn end_line(&mut self) -> Result<()> {
        if std::mem::take(&mut self.inside_line) { out::line("") } else { Ok(()) }
    }

    /// Prints a failure. `location` is the position in a script.
    pub(super) fn failure(&mut self, mut failure: Failure, location: Option<&str>) {
        let _ = self.end_line();
        if failure.code == INTERRUPTED && self.interactive {
            return self.note(&failure.message);
        }
        failure.message = to_repl_syntax(&failure.message);
        failure.hint = failure.hint.map(|hint| to_repl_syntax(&hint));
        if let Some(location) = location {
            failure.message = format!("{location}: {}", failure.message);
        }
        out::failure(&failure, false);
    }

    fn print_note(&mut self, text: &str) {
        if !self.interactive {
            out::note(text);
            return;
        }
        let faint =
            if has_colors() { format!("{}{text}{:#}", out::FAINT, out::FAINT) } else { text.to_string() };
        match (&self.printer, self.editing) {
            (Some(printer), true) => {
                let gap = match self.dropped {
                    0 => String::new(),
                    dropped => format!("· {dropped} lines dropped\n"),
                };
                match printer.try_send(format!("{gap}{faint}\n")) {
                    Ok(()) => self.dropped = 0,
                    Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => self.dropped += 1,
                }
            }
            _ => {
                let _ = self.end_line();
                // Erases a progress message on the line.
                let _ = write!(std::io::stdout().lock(), "\r\x1b[K{faint}\n");
                let _ = std::io::stdout().flush();
            }
        }
    }
}

/// Returns true if standard input and output are terminals.
pub(super) fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

fn has_colors() -> bool {
    !matches!(anstream::AutoStream::choice(&std::io::stdout()), anstream::ColorChoice::Never)
}
