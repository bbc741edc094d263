//! Where commands come from: a person at a terminal, a pipe, a file.

use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc as blocking;

use anyhow::{Context, Result};
use tokio::sync::mpsc;

use super::editor::Editor;
use super::input::{Input, Lines, Open, inputs};

/// A longer line is no command: bytes.
const LONGEST_LINE: u64 = 4 << 20;

/// What was read.
#[derive(Debug)]
pub(super) enum Read {
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
    read: mpsc::Receiver<Read>,
    /// Of an editor: tells it to go on.
    prompts: Option<blocking::Sender<String>>,
    /// The editor was told to go on, and has not answered yet.
    asked: bool,
    /// What a script is called, and the line it is at.
    script: Option<(String, usize)>,
    /// Where the command begins that is read.
    begins: Option<String>,
    lines: Lines,
}

/// One thing to do after the other.
#[derive(Debug)]
pub(super) enum Next {
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
            read: editor.read,
            prompts: Some(editor.prompts),
            asked: false,
            script: None,
            begins: None,
            lines: Lines::default(),
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
        let cannot = || format!("cannot read {}", path.display());
        let file = std::fs::File::open(path).with_context(cannot)?;
        Source::script(path.display().to_string(), file)
    }

    /// Read by a thread that nobody waits for: a pipe may stay open for ever.
    fn script(name: String, from: impl std::io::Read + Send + 'static) -> Result<Source> {
        let (sender, read) = mpsc::channel(1);
        let work = move || {
            let mut from = BufReader::new(from);
            loop {
                let next = line(&mut from);
                let last = !matches!(next, Read::Line(_));
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
            read,
            prompts: None,
            asked: false,
            script: Some((name, 0)),
            begins: None,
            lines: Lines::default(),
        })
    }

    /// It is a script.
    pub(super) fn is_script(&self) -> bool {
        self.prompts.is_none()
    }

    /// Lets the person edit the next line, unless one is edited.
    pub(super) fn ask(&mut self, prompt: String) {
        if let Some(prompts) = self.prompts.as_ref().filter(|_| !self.asked) {
            // An editor that is gone says so when it is read.
            let _ = prompts.send(prompt);
            self.asked = true;
        }
    }

    /// The next thing to do. May be dropped before it is done.
    pub(super) async fn next(&mut self) -> Next {
        loop {
            let read = self.read.recv().await.unwrap_or(Read::End);
            self.asked = false;
            match read {
                Read::Text(text) => return Next::Inputs(inputs(&text), None),
                Read::Interrupted { blank } => return Next::Interrupted { blank },
                Read::Failed(why) => return Next::Failed(why),
                Read::Line(text) => {
                    let place = self.at_next_line();
                    let place = self.begins.take().unwrap_or(place);
                    match self.lines.push(&text) {
                        Some(input) => return Next::Inputs(vec![input], Some(place)),
                        None => self.begins = self.lines.open().map(|_| place),
                    }
                }
                Read::End => {
                    let place = self.begins.take().unwrap_or_default();
                    return match self.lines.open() {
                        None => Next::End,
                        Some(Open::Block) => {
                            Next::Failed(format!("{place}: a block is not closed: \"\"\" closes it"))
                        }
                        Some(Open::Continued) => Next::Failed(format!(
                            "{place}: the line ends with a backslash, and no other follows"
                        )),
                    };
                }
            }
        }
    }

    fn at_next_line(&mut self) -> String {
        let Some((name, at)) = &mut self.script else { return String::new() };
        *at += 1;
        format!("{name}:{at}")
    }
}

fn line(from: &mut impl BufRead) -> Read {
    let mut bytes = Vec::new();
    match from.take(LONGEST_LINE).read_until(b'\n', &mut bytes) {
        Ok(0) => return Read::End,
        Ok(_) => {}
        Err(error) => return Read::Failed(format!("it cannot be read: {error}")),
    }
    if bytes.len() as u64 == LONGEST_LINE {
        return Read::Failed(format!("a line has more than {LONGEST_LINE} bytes"));
    }
    let text = String::from_utf8(bytes).map(|text| text.trim_end_matches(['\n', '\r']).to_string());
    text.map_or_else(|_| Read::Failed("a line is not UTF-8".to_string()), Read::Line)
}

/// A graph file, by its ending: not a file of commands.
pub(super) fn is_graph(path: &Path) -> bool {
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

    async fn all(text: &'static str) -> Vec<String> {
        let mut source = Source::script("f".to_string(), Cursor::new(text)).unwrap();
        let mut seen = Vec::new();
        loop {
            match source.next().await {
                Next::Inputs(inputs, place) => {
                    seen.extend(
                        inputs.iter().map(|input| format!("{} {}", place.clone().unwrap(), input.head)),
                    );
                }
                Next::Failed(why) => {
                    seen.push(why);
                    return seen;
                }
                Next::End | Next::Interrupted { .. } => return seen,
            }
        }
    }

    #[tokio::test]
    async fn commands_of_a_script_come_with_their_lines() {
        let script = "# first\n\nnode list\r\n@me one\\\ntwo\nsend me \"\"\"\nx\n\"\"\"\nsessions";
        assert_eq!(all(script).await, ["f:3 node list", "f:4 @me one\ntwo", "f:6 send me ", "f:9 sessions"]);
    }

    #[tokio::test]
    async fn what_is_not_whole_is_told_with_its_beginning() {
        assert_eq!(
            all("sessions\n@me\nhello\n").await,
            ["f:1 sessions", "f:2: a block is not closed: \"\"\" closes it"]
        );
        assert!(all("sessions\\").await[0].starts_with("f:1: the line ends with a backslash"));
    }

    #[test]
    fn graphs_are_known_by_their_ending() {
        assert!(
            is_graph(Path::new("a/g.YAML")) && is_graph(Path::new("g.json")) && is_graph(Path::new("g.yml"))
        );
        assert!(
            !is_graph(Path::new("commands"))
                && !is_graph(Path::new("yaml"))
                && !is_graph(Path::new("g.nerve"))
        );
    }
}
