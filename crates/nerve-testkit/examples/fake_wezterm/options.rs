//! The command line: `[--config NAME=VALUE]… cli [--no-auto-start] [--prefer-mux] SUB …`.

use super::wire::{Fault, Request};

/// The parsed command line.
#[derive(Debug, PartialEq)]
pub(super) enum Invocation {
    Help,
    Version,
    Server,
    Call { request: Request, auto_start: bool, new_window: bool, stdin: bool },
}

/// Parses the arguments.
///
/// # Errors
/// A usage message.
pub(super) fn parse(args: Vec<String>) -> Result<Invocation, String> {
    let mut words = Words { rest: args.into() };
    let (mut cols, mut rows) = (80, 24);
    loop {
        match words.next().as_deref() {
            Some("--config") => {
                let setting = words.value("--config")?;
                let (name, value) = setting.split_once('=').ok_or("--config takes NAME=VALUE")?;
                match (name, value.parse()) {
                    ("initial_cols", Ok(value)) => cols = value,
                    ("initial_rows", Ok(value)) => rows = value,
                    _ => return Err(format!("'{setting}' is not a setting of this stand-in")),
                }
            }
            Some("--help" | "-h") | None => return Ok(Invocation::Help),
            Some("--version" | "-V") => return Ok(Invocation::Version),
            Some("mux-server") => return Ok(Invocation::Server),
            Some("calls") => return Ok(call(Request::Calls)),
            Some("fault") => {
                let fault = Fault::parse(&Vec::from(words.rest))
                    .ok_or("fault takes none, hang, hold or slow MILLIS")?;
                return Ok(call(Request::Fault(fault)));
            }
            Some("cli") => return cli(words, cols, rows),
            Some(other) => return Err(format!("unexpected argument '{other}' found")),
        }
    }
}

fn call(request: Request) -> Invocation {
    Invocation::Call { request, auto_start: false, new_window: true, stdin: false }
}

fn cli(mut words: Words, cols: u16, rows: u16) -> Result<Invocation, String> {
    let mut auto_start = true;
    let sub = loop {
        match words.next().as_deref() {
            Some("--no-auto-start") => auto_start = false,
            Some("--prefer-mux") => {}
            Some("--help" | "-h") | None => return Ok(Invocation::Help),
            Some(sub) => break sub.to_string(),
        }
    };
    let flags = Flags::read(&mut words, &sub)?;
    let request = flags.request(&sub, cols, rows)?;
    let stdin = matches!(sub.as_str(), "send-text") && flags.words.is_empty();
    Ok(Invocation::Call { request, auto_start, new_window: flags.new_window, stdin })
}

struct Words {
    rest: std::collections::VecDeque<String>,
}

impl Words {
    fn next(&mut self) -> Option<String> {
        self.rest.pop_front()
    }

    fn value(&mut self, flag: &str) -> Result<String, String> {
        self.next().ok_or_else(|| format!("a value is required for '{flag}'"))
    }
}

#[derive(Default)]
struct Flags {
    pane: Option<u64>,
    format: Option<String>,
    cwd: Option<String>,
    workspace: Option<String>,
    new_window: bool,
    no_paste: bool,
    start: Option<i64>,
    end: Option<i64>,
    escapes: bool,
    side_by_side: bool,
    percent: u16,
    /// Words after the flags: a program, a text.
    words: Vec<String>,
}

impl Flags {
    fn read(words: &mut Words, sub: &str) -> Result<Flags, String> {
        let mut flags = Flags { percent: 50, ..Flags::default() };
        while let Some(word) = words.next() {
            match (sub, word.as_str()) {
                (_, "--") => {
                    flags.words.extend(words.rest.drain(..));
                    return Ok(flags);
                }
                ("list", "--format") => flags.format = Some(words.value("--format")?),
                (sub, "--pane-id") if sub != "list" => flags.pane = Some(number(&words.value("--pane-id")?)?),
                ("spawn" | "split-pane", "--cwd") => flags.cwd = Some(words.value("--cwd")?),
                ("spawn", "--workspace") => flags.workspace = Some(words.value("--workspace")?),
                ("spawn", "--new-window") => flags.new_window = true,
                ("send-text", "--no-paste") => flags.no_paste = true,
                ("get-text", "--start-line") => flags.start = Some(number(&words.value("--start-line")?)?),
                ("get-text", "--end-line") => flags.end = Some(number(&words.value("--end-line")?)?),
                ("get-text", "--escapes") => flags.escapes = true,
                ("split-pane", "--left" | "--right") => flags.side_by_side = true,
                ("split-pane", "--top" | "--bottom") => flags.side_by_side = false,
                ("split-pane", "--percent") => flags.percent = number(&words.value("--percent")?)?,
                ("spawn" | "split-pane" | "send-text", word) if !word.starts_with('-') => {
                    flags.words.push(word.to_string());
                    if sub != "send-text" {
                        flags.words.extend(words.rest.drain(..));
                    }
                }
                (_, other) => return Err(format!("unexpected argument '{other}' found")),
            }
        }
        Ok(flags)
    }

    fn request(&self, sub: &str, cols: u16, rows: u16) -> Result<Request, String> {
        let pane = || {
            self.pane.ok_or_else(|| "--pane-id was not specified and $WEZTERM_PANE is not set".to_string())
        };
        let argv = || self.words.clone();
        Ok(match sub {
            "list" if self.format.as_deref() == Some("json") => Request::List,
            "list" => return Err("this stand-in lists with --format json only".into()),
            "spawn" => {
                let (cwd, workspace) = (self.cwd.clone(), self.workspace.clone());
                Request::Spawn { argv: argv(), cwd, workspace, cols, rows }
            }
            "split-pane" => Request::Split {
                pane: pane()?,
                argv: argv(),
                cwd: self.cwd.clone(),
                side_by_side: self.side_by_side,
                percent: self.percent.clamp(1, 99),
            },
            "send-text" if self.words.len() > 1 => return Err("one text at a time".into()),
            "send-text" => Request::Send { pane: pane()?, text: self.words.concat(), paste: !self.no_paste },
            "get-text" => {
                Request::Text { pane: pane()?, start: self.start, end: self.end, escapes: self.escapes }
            }
            "activate-pane" => Request::Activate { pane: pane()? },
            "kill-pane" => Request::Kill { pane: pane()? },
            other => return Err(format!("unrecognized subcommand '{other}'")),
        })
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("invalid value '{text}'"))
}
