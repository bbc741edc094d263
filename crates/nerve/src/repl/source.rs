//! Where commands come from: a person at a terminal, a pipe, a file.

use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc as blocking;

use anyhow::{Context, Result};
use tokio::sync::mpsc;

use super::editor::Editor;
use super::input::{Incomplete, Input, InputReader, split_inputs};

/// A longer line is no command: bytes.
const MAX_LINE: u64 = 4 << 20;

/// What was read.
#[derive(Debug)]
pub(super) enum RawInput {
    /// One or more commands, edited and whole.
    Text(String),
    /// A line of a script, without its end.
    Line(String),
    /// Ctrl-C. `blank`: nothing was typed.
    Interrupted { blank: bool },
    /// There is no more.
    End,
    /// It cannot be read.
    Failed(String),
}

/// Where commands come from.
#[derive(Debug)]
pub(super) struct Source {
    input: mpsc::Receiver<RawInput>,
    /// Of an editor: tells it to go on.
    prompts: Option<blocking::Sender<String>>,
    /// The editor was told to go on, and has not answered yet.
    editing: bool,
    /// What a script is called, and the line it is at.
    script: Option<(String, usize)>,
    /// Where the command input_start that is read.
    input_start: Option<String>,
    reader: InputReader,
}

/// One thing to do after the other.
#[derive(Debug)]
pub(super) enum SourceEvent {
    /// Commands; in a script, where they stand.
    Inputs(Vec<Input>, Option<String>),
    /// Ctrl-C at the prompt. `blank`: nothing was typed.
    Interrupted { blank: bool },
    /// There is no more.
    End,
    /// It cannot be read, or ends in the middle of a command.
    Failed(String),
}

impl Source {
    /// A person.
    pub(super) fn editor(editor: Editor) -> Source {
        Source {
            input: editor.input,
            prompts: Some(editor.prompts),
            editing: false,
            script: None,
            input_start: None,
            reader: InputReader::default(),
        }
    }

    /// Standard input.
    ///
    /// # Errors
    /// There are no more threads.
    pub(super) fn standard_input() -> Result<Source> {
        Source::script("standard input".to_string(), std::io::stdin())
    }

    /// A file.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(super) fn file(path: &Path) -> Result<Source> {
        let context = || format!("cannot read {}", path.display());
        let file = std::fs::File::open(path).with_context(context)?;
        Source::script(path.display().to_string(), file)
    }

    /// RawInput by a thread that nobody waits for: a pipe may stay open for ever.
    fn script(name: String, reader: impl std::io::Read + Send + 'static) -> Result<Source> {
        let (sender, input) = mpsc::channel(1);
        let work = move || {
            let mut reader = BufReader::new(reader);
            loop {
                let next = read_line(&mut reader);
                let last = !matches!(next, RawInput::Line(_));
                if sender.blocking_send(next).is_err() || last {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("script".to_string())
            .spawn(work)
            .context("cannot start a thread")?;
        Ok(Source {
            input,
            prompts: None,
            editing: false,
            script: Some((name, 0)),
            input_start: None,
            reader: InputReader::default(),
        })
    }

    /// It is a script.
    pub(super) fn is_script(&self) -> bool {
        self.prompts.is_none()
    }

    /// Lets the person edit the next line, unless one is edited.
    pub(super) fn start_edit(&mut self, prompt: String) {
        if let Some(prompts) = self.prompts.as_ref().filter(|_| !self.editing) {
            // An editor that is gone says so when it is read.
            let _ = prompts.send(prompt);
            self.editing = true;
        }
    }

    /// The next thing to do. May be dropped before it is done.
    pub(super) async fn next(&mut self) -> SourceEvent {
        loop {
            let read = self.input.recv().await.unwrap_or(RawInput::End);
            self.editing = false;
            match read {
                RawInput::Text(text) => return SourceEvent::Inputs(split_inputs(&text), None),
                RawInput::Interrupted { blank } => return SourceEvent::Interrupted { blank },
                RawInput::Failed(why) => return SourceEvent::Failed(why),
                RawInput::Line(text) => {
                    let location = self.next_location();
                    let location = self.input_start.take().unwrap_or(location);
                    match self.reader.push(&text) {
                        Some(input) => return SourceEvent::Inputs(vec![input], Some(location)),
                        None => self.input_start = self.reader.incomplete().map(|_| location),
                    }
                }
                RawInput::End => {
                    let location = self.input_start.take().unwrap_or_default();
                    return match self.reader.incomplete() {
                        None => SourceEvent::End,
                        Some(Incomplete::Block) => SourceEvent::Failed(format!(
                            "{location}: a block is not closed: \"\"\" closes it"
                        )),
                        Some(Incomplete::Continued) => SourceEvent::Failed(format!(
                            "{location}: the line ends with a backslash, and no other follows"
                        )),
                    };
                }
            }
        }
    }

    fn next_location(&mut self) -> String {
        let Some((name, at)) = &mut self.script else { return String::new() };
        *at += 1;
        format!("{name}:{at}")
    }
}

fn read_line(reader: &mut impl BufRead) -> RawInput {
    let mut bytes = Vec::new();
    match reader.take(MAX_LINE).read_until(b'\n', &mut bytes) {
        Ok(0) => return RawInput::End,
        Ok(_) => {}
        Err(error) => return RawInput::Failed(format!("it cannot be read: {error}")),
    }
    if bytes.len() as u64 == MAX_LINE {
        return RawInput::Failed(format!("a line has more than {MAX_LINE} bytes"));
    }
    let text = String::from_utf8(bytes).map(|text| text.trim_end_matches(['\n', '\r']).to_string());
    text.map_or_else(|_| RawInput::Failed("a line is not UTF-8".to_string()), RawInput::Line)
}

/// A graph file, by its ending: not a file of commands.
pub(super) fn is_graph_file(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    ending.is_some_and(|ending| ["yaml", "yml", "json"].iter().any(|known| ending == *known))
}

/// The history of the editor.
pub(super) fn history_file(state: &Path) -> PathBuf {
    state.join("repl_history")
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    async fn read_all(text: &'static str) -> Vec<String> {
        let mut source = Source::script("f".to_string(), Cursor::new(text)).unwrap();
        let mut seen = Vec::new();
        loop {
            match source.next().await {
                SourceEvent::Inputs(inputs, location) => {
                    seen.extend(
                        inputs.iter().map(|input| format!("{} {}", location.clone().unwrap(), input.head)),
                    );
                }
                SourceEvent::Failed(why) => {
                    seen.push(why);
                    return seen;
                }
                SourceEvent::End | SourceEvent::Interrupted { .. } => return seen,
            }
        }
    }

    #[tokio::test]
    async fn commands_of_a_script_come_with_their_lines() {
        let script = "# first\n\nnode list\r\n@me one\\\ntwo\nsend me \"\"\"\nx\n\"\"\"\nsessions";
        assert_eq!(
            read_all(script).await,
            ["f:3 node list", "f:4 @me one\ntwo", "f:6 send me ", "f:9 sessions"]
        );
    }

    #[tokio::test]
    async fn what_is_not_whole_is_told_with_its_beginning() {
        assert_eq!(
            read_all("sessions\n@me\nhello\n").await,
            ["f:1 sessions", "f:2: a block is not closed: \"\"\" closes it"]
        );
        assert!(read_all("sessions\\").await[0].starts_with("f:1: the line ends with a backslash"));
    }

    #[test]
    fn graphs_are_known_by_their_ending() {
        assert!(
            is_graph_file(Path::new("a/g.YAML"))
                && is_graph_file(Path::new("g.json"))
                && is_graph_file(Path::new("g.yml"))
        );
        assert!(
            !is_graph_file(Path::new("commands"))
                && !is_graph_file(Path::new("yaml"))
                && !is_graph_file(Path::new("g.nerve"))
        );
    }
}
