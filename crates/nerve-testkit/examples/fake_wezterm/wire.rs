//! The protocol between client and server: one JSON line per message.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

/// A request.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Request {
    List,
    Spawn { argv: Vec<String>, cwd: Option<String>, workspace: Option<String>, cols: u16, rows: u16 },
    Split { pane: u64, argv: Vec<String>, cwd: Option<String>, side_by_side: bool, percent: u16 },
    Send { pane: u64, text: String, paste: bool },
    Text { pane: u64, start: Option<i64>, end: Option<i64>, escapes: bool },
    Activate { pane: u64 },
    Kill { pane: u64 },
    Fault(Fault),
    Calls,
}

/// A fault of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Fault {
    /// No fault.
    #[default]
    None,
    /// Accepts calls of the command line and never responds.
    Hang,
    /// Keeps the panes of ended programs, as the original does with `exit_behavior="Hold"`.
    Hold,
    /// Takes this many milliseconds per call, as the original does.
    Slow(u64),
}

impl Fault {
    pub(super) fn parse(words: &[String]) -> Option<Fault> {
        match words {
            [kind] if kind == "none" => Some(Fault::None),
            [kind] if kind == "hang" => Some(Fault::Hang),
            [kind] if kind == "hold" => Some(Fault::Hold),
            [kind, millis] if kind == "slow" => Some(Fault::Slow(millis.parse().ok()?)),
            _ => None,
        }
    }

    fn words(self) -> String {
        match self {
            Fault::None => "none".into(),
            Fault::Hang => "hang".into(),
            Fault::Hold => "hold".into(),
            Fault::Slow(millis) => format!("slow {millis}"),
        }
    }
}

/// A request with the environment of the client.
pub(super) struct ClientRequest {
    pub(super) request: Request,
    pub(super) env: BTreeMap<String, String>,
}

/// Sends a request and waits for the response: standard output, or an error message.
pub(super) fn ask(stream: &UnixStream, request: &Request) -> io::Result<Result<String, String>> {
    let env: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let mut line = json!({ "ask": request.to_json(), "env": env }).to_string();
    line.push('\n');
    let mut writer = stream;
    writer.write_all(line.as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    let answer: Value = serde_json::from_str(&answer).map_err(|_| io::ErrorKind::UnexpectedEof)?;
    let text = |key: &str| answer.get(key).and_then(Value::as_str).map(str::to_string);
    Ok(match text("error") {
        Some(error) => Err(error),
        None => Ok(text("out").unwrap_or_default()),
    })
}

/// Reads a request; `None` if it is invalid.
pub(super) fn read(stream: &UnixStream) -> Option<ClientRequest> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    let value: Value = serde_json::from_str(&line).ok()?;
    let env = value.get("env")?.as_object()?;
    let env = env.iter().filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_string())));
    Some(ClientRequest { request: Request::from_json(value.get("ask")?)?, env: env.collect() })
}

/// Sends a response.
pub(super) fn answer(mut stream: &UnixStream, answer: &Result<String, String>) -> io::Result<()> {
    let value = match answer {
        Ok(out) => json!({ "out": out }),
        Err(error) => json!({ "error": error }),
    };
    stream.write_all(format!("{value}\n").as_bytes())
}

impl Request {
    /// Returns the name on the command line.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Request::List => "list",
            Request::Spawn { .. } => "spawn",
            Request::Split { .. } => "split-pane",
            Request::Send { paste: true, .. } => "send-text",
            Request::Send { paste: false, .. } => "send-text --no-paste",
            Request::Text { .. } => "get-text",
            Request::Activate { .. } => "activate-pane",
            Request::Kill { .. } => "kill-pane",
            Request::Fault(_) => "fault",
            Request::Calls => "calls",
        }
    }

    fn to_json(&self) -> Value {
        let name = self.name();
        match self {
            Request::List | Request::Calls => json!({ "do": name }),
            Request::Spawn { argv, cwd, workspace, cols, rows } => {
                json!({ "do": name, "argv": argv, "cwd": cwd, "workspace": workspace, "cols": cols, "rows": rows })
            }
            Request::Split { pane, argv, cwd, side_by_side, percent } => {
                json!({ "do": name, "pane": pane, "argv": argv, "cwd": cwd, "side_by_side": side_by_side, "percent": percent })
            }
            Request::Send { pane, text, .. } => json!({ "do": name, "pane": pane, "text": text }),
            Request::Text { pane, start, end, escapes } => {
                json!({ "do": name, "pane": pane, "start": start, "end": end, "escapes": escapes })
            }
            Request::Activate { pane } | Request::Kill { pane } => json!({ "do": name, "pane": pane }),
            Request::Fault(fault) => json!({ "do": name, "fault": fault.words() }),
        }
    }

    fn from_json(value: &Value) -> Option<Request> {
        let number = |key: &str| value.get(key).and_then(Value::as_u64);
        let small = |key: &str| number(key).and_then(|number| u16::try_from(number).ok());
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_string);
        let flag = |key: &str| value.get(key).and_then(Value::as_bool).unwrap_or(false);
        let words = |key: &str| -> Vec<String> {
            let words = value.get(key).and_then(Value::as_array).into_iter().flatten();
            words.filter_map(Value::as_str).map(str::to_string).collect()
        };
        Some(match value.get("do")?.as_str()? {
            "list" => Request::List,
            "calls" => Request::Calls,
            "spawn" => Request::Spawn {
                argv: words("argv"),
                cwd: text("cwd"),
                workspace: text("workspace"),
                cols: small("cols")?,
                rows: small("rows")?,
            },
            "split-pane" => Request::Split {
                pane: number("pane")?,
                argv: words("argv"),
                cwd: text("cwd"),
                side_by_side: flag("side_by_side"),
                percent: small("percent")?,
            },
            name @ ("send-text" | "send-text --no-paste") => {
                Request::Send { pane: number("pane")?, text: text("text")?, paste: name == "send-text" }
            }
            "get-text" => Request::Text {
                pane: number("pane")?,
                start: value.get("start").and_then(Value::as_i64),
                end: value.get("end").and_then(Value::as_i64),
                escapes: flag("escapes"),
            },
            "activate-pane" => Request::Activate { pane: number("pane")? },
            "kill-pane" => Request::Kill { pane: number("pane")? },
            "fault" => {
                let words: Vec<String> = text("fault")?.split(' ').map(str::to_string).collect();
                Request::Fault(Fault::parse(&words)?)
            }
            _ => return None,
        })
    }
}
