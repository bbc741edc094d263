//! The line that is edited. rustyline works on a thread of its own and is talked to over channels.

use std::cell::Cell;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self as blocking, SyncSender};

use anyhow::{Context, Result};
use rustix::stdio::stdin;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::config::Config;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::{DefaultHistory, History};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, ExternalPrinter, Helper};
use tokio::sync::mpsc;

use super::completion::{WordKind, matching, word_at_cursor};
use super::input;
use super::name_lookup::Lookup;
use super::parser::declaration;
use super::source::RawInput;

/// Lines kept from one REPL to the next.
const HISTORY_LINES: usize = 1_000;
/// Lines of events that wait for an editor that is busy.
const PRINT_QUEUE: usize = 256;

/// The editor's thread.
#[derive(Debug)]
pub(super) struct Editor {
    /// Where lines go that are to be shown above the one that is edited; `None` on a terminal that cannot.
    pub(super) printer: Option<SyncSender<String>>,
    /// The prompt under which the next line is edited.
    pub(super) prompts: blocking::Sender<String>,
    /// What came of it.
    pub(super) input: mpsc::Receiver<RawInput>,
}

impl Editor {
    /// Starts it. `history`: where lines are kept.
    ///
    /// # Errors
    /// The terminal cannot be used.
    pub(super) async fn start(history: Option<PathBuf>, lookup: Lookup) -> Result<Editor> {
        let (prompts, requests) = blocking::channel::<String>();
        let (sender, input) = mpsc::channel(1);
        let (started, ready) = tokio::sync::oneshot::channel();
        let work = move || {
            let mut line = match LineEditor::new(history, lookup) {
                Ok(line) => line,
                Err(error) => return drop(started.send(Err(error))),
            };
            if started.send(Ok(line.start_printer())).is_err() {
                return;
            }
            while let Ok(prompt) = requests.recv() {
                if sender.blocking_send(line.read_line(&prompt)).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("editor".to_string())
            .spawn(work)
            .context("cannot start a thread")?;
        let printer = ready.await.context("the editor ended")?.context("cannot use this terminal")?;
        Ok(Editor { printer, prompts, input })
    }
}

/// The line, on its thread.
struct LineEditor {
    editor: rustyline::Editor<Assistant, DefaultHistory>,
    history: Option<PathBuf>,
}

impl LineEditor {
    fn new(history: Option<PathBuf>, lookup: Lookup) -> rustyline::Result<LineEditor> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .history_ignore_space(true)
            .history_ignore_dups(true)?
            .max_history_size(HISTORY_LINES)?
            .build();
        let entries = DefaultHistory::with_config(&config);
        let mut editor = rustyline::Editor::with_history(config, entries)?;
        editor.set_helper(Some(Assistant::new(lookup)));
        if let Some(path) = &history {
            // What others may have put there is not ours to show to others.
            let _ = fs::set_permissions(path, Permissions::from_mode(0o600));
            // There is none at first.
            let _ = editor.load_history(path);
        }
        Ok(LineEditor { editor, history })
    }

    /// A way for other threads to print above the line. It has a thread of its own: rustyline takes one line at a time.
    fn start_printer(&mut self) -> Option<SyncSender<String>> {
        let mut printer = self.editor.create_external_printer().ok()?;
        let (printer_lines, lines) = blocking::sync_channel::<String>(PRINT_QUEUE);
        let work = move || lines.into_iter().try_for_each(|line| printer.print(line));
        std::thread::Builder::new().name("printer".to_string()).spawn(work).ok()?;
        Some(printer_lines)
    }

    fn read_line(&mut self, prompt: &str) -> RawInput {
        if let Some(assistant) = self.editor.helper() {
            assistant.blank.set(true);
        }
        match self.editor.readline(prompt) {
            Ok(text) => {
                self.add_to_history(&text);
                RawInput::Text(text)
            }
            Err(ReadlineError::Interrupted) => RawInput::Interrupted {
                blank: self.editor.helper().is_none_or(|assistant| assistant.blank.get()),
            },
            Err(ReadlineError::Eof) => RawInput::End,
            Err(error) => RawInput::Failed(error.to_string()),
        }
    }

    /// Kept at once: what comes after it may end the program.
    fn add_to_history(&mut self, text: &str) {
        if text.trim().is_empty() || !self.editor.add_history_entry(text).unwrap_or_default() {
            return;
        }
        if let Some(path) = &self.history {
            // A history that cannot be written is none.
            let _ = append_history(self.editor.history_mut(), path);
        }
    }
}

fn append_history(history: &mut DefaultHistory, path: &Path) -> rustyline::Result<()> {
    history.append(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(())
}

/// What rustyline asks while a line is edited.
struct Assistant {
    commands: clap::Command,
    lookup: Lookup,
    files: FilenameCompleter,
    /// Nothing is typed. rustyline does not say what was on a line that is given up.
    blank: Cell<bool>,
}

impl Assistant {
    fn new(lookup: Lookup) -> Assistant {
        Assistant { commands: declaration(), lookup, files: FilenameCompleter::new(), blank: Cell::new(true) }
    }
}

impl Helper for Assistant {}
impl Highlighter for Assistant {}

impl Hinter for Assistant {
    type Hint = String;

    /// Gives no hint: this is where every change of the line is seen.
    fn hint(&self, line: &str, _pos: usize, _context: &rustyline::Context<'_>) -> Option<String> {
        self.blank.set(line.is_empty());
        None
    }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match input::incomplete(context.input()) {
            Some(_) => ValidationResult::Incomplete,
            None => ValidationResult::Valid(None),
        })
    }
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _context: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let word = word_at_cursor(&self.commands, line, pos);
        let words = match word.kind {
            WordKind::File => return self.files.complete_path(line, pos),
            WordKind::FreeText => Vec::new(),
            WordKind::Words(words) => words,
            WordKind::Name(kind) => self.lookup.names(kind),
        };
        let pair = |word: String| Pair { replacement: format!("{word} "), display: word };
        Ok((word.start, matching(&word.prefix, words).into_iter().map(pair).collect()))
    }
}

/// The terminal is as it was when this is dropped, wherever the editor is then.
#[derive(Debug)]
pub(super) struct TerminalGuard(Option<Termios>);

impl TerminalGuard {
    pub(super) fn save() -> TerminalGuard {
        TerminalGuard(tcgetattr(stdin()).ok())
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        let Some(before) = &self.0 else { return };
        let is_changed = tcgetattr(stdin()).is_ok_and(|now| now.local_modes != before.local_modes);
        if is_changed {
            // A terminal that is gone needs no modes.
            let _ = tcsetattr(stdin(), OptionalActions::Now, before);
            // Bracketed paste off (xterm's DECSET 2004).
            let _ = std::io::stdout().write_all(b"\x1b[?2004l\r\n");
        }
    }
}
