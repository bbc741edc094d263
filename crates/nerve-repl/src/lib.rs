//! An interactive client for nodes and graphs.
//!
//! | module | content |
//! |---|---|
//! | `input`, `parser`, `command` | parse typed lines into requests; no I/O |
//! | `completion` | Tab completion; no I/O |
//! | `draft` | the current graph |
//! | `source`, `editor`, `name_lookup` | where commands come from; the editor thread; names for completion |
//! | `screen` | output above the edited line |
//! | `shell`, `nodes`, `graphs` | the main loop and the commands |
//! | `interruption` | Ctrl-C and termination signals |
//! | `runs`, `started_nodes` | runs and nodes to stop at exit |
#![warn(missing_docs)]

mod command;
mod completion;
mod draft;
mod editor;
mod graphs;
mod help;
mod input;
mod interruption;
mod name_lookup;
mod nodes;
mod parser;
mod runs;
mod screen;
mod shell;
mod source;
mod started_nodes;

use std::path::PathBuf;

use anyhow::Result;
use nerve_api::DEFAULT_SESSION;
use nerve_client::NerveClient;
use nerve_commands::failure::{DONE, Failure, INTERRUPTED, NOT_FOUND};

use self::editor::{Editor, TerminalGuard};
use self::name_lookup::{Lookup, SharedState};
use self::screen::Screen;
use self::shell::{Exit, Shell};
use self::source::{Source, is_graph_file};

/// Options of a REPL.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Server name for the prompt and messages. `None`: the server is in this process.
    pub server: Option<String>,
    /// Command script or graph file to run first.
    pub file: Option<PathBuf>,
    /// Continue after script errors; the exit code is still 1.
    pub keep_going: bool,
    /// Initial session. `None`: the server's default session.
    pub session: Option<String>,
    /// History of the editor. `None`: not kept.
    pub history: Option<PathBuf>,
}

/// Runs a REPL until its input ends or a command exits. Returns the exit code.
///
/// # Errors
/// The file does not exist or cannot be read, the session cannot be used, or the terminal has no line editor.
pub async fn run(client: NerveClient, options: Options) -> Result<u8> {
    let terminal = TerminalGuard::save();
    let state = SharedState::default();
    if let Some(session) = options.session.filter(|session| session != DEFAULT_SESSION) {
        client.session(Some(&session)).await?;
        state.lock().session = Some(session);
    }
    let file = options.file.map(InputFile::classify).transpose()?;
    // On a terminal the REPL becomes interactive after the script. Otherwise standard input is read only without a script.
    let is_script = matches!(file, Some(InputFile::Commands(_)));
    let remaining_input = match (screen::is_terminal(), is_script) {
        (true, _) => Some(RemainingInput::Terminal),
        (false, true) => None,
        (false, false) => Some(RemainingInput::StandardInput),
    };
    let mut shell = Shell::new(client.clone(), options.server, Screen::plain(), state.clone())?;
    let mut exit = Exit { code: DONE, keep: false };
    let mut is_done = false;
    match file {
        Some(InputFile::Graph(path)) => shell.load(&path)?,
        Some(InputFile::Commands(path)) => {
            let mut source = Source::file(&path)?;
            exit = shell.run(&mut source, options.keep_going).await;
            let continues = exit.code == DONE || (options.keep_going && exit.code != INTERRUPTED);
            is_done = shell.has_exited() || !continues;
        }
        None => {}
    }
    if let (false, Some(remaining_input)) = (is_done, remaining_input) {
        let source = match remaining_input {
            RemainingInput::StandardInput => Source::standard_input(),
            RemainingInput::Terminal => interactive_source(&mut shell, client, state, options.history).await,
        };
        let mut source = match source {
            Ok(source) => source,
            Err(error) => {
                shell.finish(exit).await;
                return Err(error);
            }
        };
        exit = shell.run(&mut source, options.keep_going).await;
    }
    // A line may still be in the editor.
    drop(terminal);
    Ok(shell.finish(exit).await)
}

/// The source of commands after the script.
enum RemainingInput {
    Terminal,
    StandardInput,
}

/// Switches the shell to interactive mode.
async fn interactive_source(
    shell: &mut Shell,
    client: NerveClient,
    state: SharedState,
    history: Option<PathBuf>,
) -> Result<Source> {
    let editor = Editor::start(history, Lookup::start(client, state)).await?;
    shell.screen = Screen::interactive(editor.printer.clone());
    shell.print_greeting();
    Ok(Source::editor(editor))
}

/// The file to run first.
enum InputFile {
    Graph(PathBuf),
    /// A script of commands.
    Commands(PathBuf),
}

impl InputFile {
    /// Distinguishes files by their extension.
    fn classify(path: PathBuf) -> Result<InputFile> {
        if !path.exists() {
            return Err(Failure::new(NOT_FOUND, format!("file not found: {}", path.display())).into());
        }
        Ok(if is_graph_file(&path) { InputFile::Graph(path) } else { InputFile::Commands(path) })
    }
}
