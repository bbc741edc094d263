//! What the REPL shows: results as they are, events printer the line that is edited.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{SyncSender, TrySendError};

use anyhow::Result;

use super::parser::to_repl_syntax;
use crate::exit::{Failure, INTERRUPTED};
use crate::out;

/// The terminal, or what takes its location.
#[derive(Debug)]
pub(super) struct Screen {
    /// Somebody sits in front of it.
    interactive: bool,
    /// Where lines go while the person edits; `None` where the editor cannot show them.
    printer: Option<SyncSender<String>>,
    /// A line is edited now.
    editing: bool,
    /// Events are shown.
    events: bool,
    /// The last piece of an answer did not end its line.
    inside_line: bool,
    /// Lines the editor was too slow for.
    dropped: u64,
}

impl Screen {
    /// Of a person: with events.
    pub(super) fn interactive(printer: Option<SyncSender<String>>) -> Screen {
        Screen { interactive: true, printer, events: true, ..Screen::plain() }
    }

    /// Of a script: without events.
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

    pub(super) fn is_interactive(&self) -> bool {
        self.interactive
    }

    pub(super) fn shows_events(&self) -> bool {
        self.events
    }

    pub(super) fn show_events(&mut self, on: bool) {
        self.events = on;
    }

    /// A line is edited from now on, or no longer.
    pub(super) fn set_editing(&mut self, editing: bool) {
        self.editing = editing && self.interactive;
    }

    /// Tells of an event.
    pub(super) fn event(&mut self, line: &str) {
        if self.events {
            self.print_note(&format!("· {line}"));
        }
    }

    /// Tells what the REPL does. No data: scripts have it on stderr.
    pub(super) fn note(&mut self, text: &str) {
        self.print_note(text);
    }

    /// Shows a piece of an answer that grows.
    pub(super) fn print_chunk(&mut self, text: &str) -> Result<()> {
        if let Some(last) = text.chars().last() {
            self.inside_line = last != '\n';
        }
        out::piece(text)
    }

    /// What follows stands on a line of its own.
    pub(super) fn end_line(&mut self) -> Result<()> {
        if std::mem::take(&mut self.inside_line) { out::line("") } else { Ok(()) }
    }

    /// Says what went wrong. `location`: where in a script.
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
                    dropped => format!("· {dropped} lines are missing here\n"),
                };
                match printer.try_send(format!("{gap}{faint}\n")) {
                    Ok(()) => self.dropped = 0,
                    Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => self.dropped += 1,
                }
            }
            _ => {
                let _ = self.end_line();
                // Away with what a wait has written on the line.
                let _ = write!(std::io::stdout().lock(), "\r\x1b[K{faint}\n");
                let _ = std::io::stdout().flush();
            }
        }
    }
}

/// Both ends of it are a terminal: a line can be edited.
pub(super) fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

fn has_colors() -> bool {
    !matches!(anstream::AutoStream::choice(&std::io::stdout()), anstream::ColorChoice::Never)
}
