//! Sources of commands: the line editor, standard input or a file.

use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use std::sync::mpsc as blocking;

use anyhow::{Context, Result};
use tokio::sync::mpsc;

use super::editor::Editor;
use super::input::{Continuation, Input, InputReader, RawInput, split_inputs};

/// Maximum length of a line, in bytes.
const MAX_LINE: u64 = 4 << 20;

/// A source of commands.
#[derive(Debug)]
pub(super) struct Source {
    input: mpsc::Receiver<RawInput>,
    /// Starts an edit. `None` for scripts.
    prompts: Option<blocking::Sender<String>>,
    /// An edit was started and has not ended.
    editing: bool,
    /// Name and current line of a script.
    script: Option<(String, usize)>,
    /// Location of the first line of an incomplete command.
    input_start: Option<String>,
    reader: InputReader,
}

/// An item that a source delivers.
#[derive(Debug)]
pub(super) enum SourceEvent {
    /// Commands, with their location in a script.
    Inputs(Vec<Input>, Option<String>),
    /// Ctrl-C at the prompt. `blank`: the line was empty.
    Interrupted { blank: bool },
    /// End of input.
    End,
    /// Reading failed, or the source ended within a command.
    Failed(String),
}

impl Source {
    /// Creates a source from the line editor.
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

    /// Creates a source from standard input.
    ///
    /// # Errors
    /// The reading thread cannot be started.
    pub(super) fn standard_input() -> Result<Source> {
        Source::script("standard input".to_string(), std::io::stdin())
    }

    /// Creates a source from a file.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(super) fn file(path: &Path) -> Result<Source> {
        let context = || format!("cannot read {}", path.display());
        let file = std::fs::File::open(path).with_context(context)?;
        Source::script(path.display().to_string(), file)
    }

    /// Reads on a detached thread, because a pipe may stay open forever.
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

    /// Returns true for standard input and files.
    pub(super) fn is_script(&self) -> bool {
        self.prompts.is_none()
    }

    /// Starts an edit unless one is in progress. Does nothing for scripts.
    pub(super) fn start_edit(&mut self, prompt: String) {
        if let Some(prompts) = self.prompts.as_ref().filter(|_| !self.editing) {
            // If the editor has ended, the next read reports it.
            let _ = prompts.send(prompt);
            self.editing = true;
        }
    }

    /// Returns the next event. Cancel safe.
    pub(super) async fn next(&mut self) -> SourceEvent {
        loop {
            let read = self.input.recv().await.unwrap_or(RawInput::End);
            self.editing = false;
            match read {
                RawInput::Text(text) => return SourceEvent::Inputs(split_inputs(&text), None),
                RawInput::Interrupted { blank } => return SourceEvent::Interrupted { blank },
                RawInput::Failed(reason) => return SourceEvent::Failed(reason),
                RawInput::Line(text) => {
                    let location = self.next_location();
                    let location = self.input_start.take().unwrap_or(location);
                    match self.reader.push(&text) {
                        Some(input) => return SourceEvent::Inputs(vec![input], Some(location)),
                        None => self.input_start = self.reader.continuation().map(|_| location),
                    }
                }
                RawInput::End => {
                    let location = self.input_start.take().unwrap_or_default();
                    return match self.reader.continuation() {
                        None => SourceEvent::End,
                        Some(Continuation::Block) => {
                            SourceEvent::Failed(format!("{location}: unclosed block: close it with \"\"\""))
                        }
                        Some(Continuation::Backslash) => {
                            SourceEvent::Failed(format!("{location}: the input ends after a continued line"))
                        }
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
        Err(error) => return RawInput::Failed(format!("cannot read: {error}")),
    }
    if bytes.len() as u64 == MAX_LINE {
        return RawInput::Failed(format!("a line exceeds {MAX_LINE} bytes"));
    }
    let text = String::from_utf8(bytes).map(|text| text.trim_end_matches(['\n', '\r']).to_string());
    text.map_or_else(|_| RawInput::Failed("a line is not UTF-8".to_string()), RawInput::Line)
}

/// Returns true if the file extension is that of a graph file.
pub(super) fn is_graph_file(path: &Path) -> bool {
    let extension = path.extension().map(|extension| extension.to_ascii_lowercase());
    extension.is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known))
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
                SourceEvent::Failed(reason) => {
                    seen.push(reason);
                    return seen;
                }
                SourceEvent::End | SourceEvent::Interrupted { .. } => return seen,
            }
        }
    }

    #[tokio::test]
    async fn script_commands_have_locations() {
        let script = "# first\n\nnode list\r\n@me one\\\ntwo\nsend me \"\"\"\nx\n\"\"\"\nsessions";
        assert_eq!(
            read_all(script).await,
            ["f:3 node list", "f:4 @me one\ntwo", "f:6 send me ", "f:9 sessions"]
        );
    }

    #[tokio::test]
    async fn incomplete_input_reports_first_line() {
        assert_eq!(
            read_all("sessions\n@me\nhello\n").await,
            ["f:1 sessions", "f:2: unclosed block: close it with \"\"\""]
        );
        assert!(read_all("sessions\\").await[0].starts_with("f:1: the input ends after a continued line"));
    }

    #[test]
    fn recognizes_graph_files_by_extension() {
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
