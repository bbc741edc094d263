//! The line editor. rustyline runs on its own thread and is controlled over channels.

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
use super::input::RawInput;
use super::name_lookup::Lookup;
use super::parser::declaration;

/// Maximum number of lines in the history file.
const MAX_HISTORY_LINES: usize = 1_000;
/// Maximum number of event lines waiting to be printed.
const PRINT_QUEUE_CAPACITY: usize = 256;

/// Handle to the editor thread.
#[derive(Debug)]
pub(super) struct Editor {
    /// Prints lines above the edited line. `None` if the terminal does not support that.
    pub(super) printer: Option<SyncSender<String>>,
    /// Starts an edit with the given prompt.
    pub(super) prompts: blocking::Sender<String>,
    /// Results of the edits.
    pub(super) input: mpsc::Receiver<RawInput>,
}

impl Editor {
    /// Starts the thread. `history` is the history file.
    ///
    /// # Errors
    /// The terminal cannot be used.
    pub(super) async fn start(history: Option<PathBuf>, lookup: Lookup) -> Result<Editor> {
        let (prompts, requests) = blocking::channel::<String>();
        let (sender, input) = mpsc::channel(1);
        let (started, ready) = tokio::sync::oneshot::channel();
        let work = move || {
            let mut editor = match LineEditor::new(history, lookup) {
                Ok(editor) => editor,
                Err(error) => return drop(started.send(Err(error))),
            };
            if started.send(Ok(editor.start_printer())).is_err() {
                return;
            }
            while let Ok(prompt) = requests.recv() {
                if sender.blocking_send(editor.read_line(&prompt)).is_err() {
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

/// The editor on its thread.
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
            .max_history_size(MAX_HISTORY_LINES)?
            .build();
        let entries = DefaultHistory::with_config(&config);
        let mut editor = rustyline::Editor::with_history(config, entries)?;
        editor.set_helper(Some(Assistant::new(lookup)));
        if let Some(path) = &history {
            // Prompts may contain secrets.
            let _ = fs::set_permissions(path, Permissions::from_mode(0o600));
            // The file may not exist yet.
            let _ = editor.load_history(path);
        }
        Ok(LineEditor { editor, history })
    }

    /// Starts a thread that prints lines above the edited line. rustyline blocks for each of them.
    fn start_printer(&mut self) -> Option<SyncSender<String>> {
        let mut printer = self.editor.create_external_printer().ok()?;
        let (printer_lines, lines) = blocking::sync_channel::<String>(PRINT_QUEUE_CAPACITY);
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

    /// Saves the line immediately, because its command may end the program.
    fn add_to_history(&mut self, text: &str) {
        if text.trim().is_empty() || !self.editor.add_history_entry(text).unwrap_or_default() {
            return;
        }
        if let Some(path) = &self.history {
            // The history is optional.
            let _ = append_history(self.editor.history_mut(), path);
        }
    }
}

fn append_history(history: &mut DefaultHistory, path: &Path) -> rustyline::Result<()> {
    history.append(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(())
}

/// Callbacks for rustyline.
struct Assistant {
    commands: clap::Command,
    lookup: Lookup,
    files: FilenameCompleter,
    /// The line is empty. rustyline does not report the text of an interrupted line.
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

    /// Returns no hint. rustyline calls this after every change of the line.
    fn hint(&self, line: &str, _pos: usize, _context: &rustyline::Context<'_>) -> Option<String> {
        self.blank.set(line.is_empty());
        None
    }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match input::continuation(context.input()) {
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

/// Restores the terminal modes when dropped, even while a line is being edited.
#[derive(Debug)]
pub(super) struct TerminalGuard(Option<Termios>);

impl TerminalGuard {
    /// Saves the current modes.
    pub(super) fn save() -> TerminalGuard {
        TerminalGuard(tcgetattr(stdin()).ok())
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        let Some(saved) = &self.0 else { return };
        let is_changed = tcgetattr(stdin()).is_ok_and(|now| now.local_modes != saved.local_modes);
        if is_changed {
            // The terminal may have been closed.
            let _ = tcsetattr(stdin(), OptionalActions::Now, saved);
            // Bracketed paste off (xterm's DECSET 2004).
            let _ = std::io::stdout().write_all(b"\x1b[?2004l\r\n");
        }
    }
}
