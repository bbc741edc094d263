//! `nerve doctor --report`: writes the data needed to fix an agent's profile to one archive.

mod redaction;
mod zip;

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use nerve_api::reply::NodeExplanation;
use nerve_api::request::ExplainNode;
use nerve_record::ahr::Reader;
use nerve_record::export::{CastOptions, CastVersion, cast};
use nerve_types::os::kernel_release;
use serde_json::{Map, Value, json};

use self::redaction::{Redaction, mask};
use self::zip::ZipWriter;
use super::check::{Check, to_json};
use crate::exit::{FAILED, Failure};
use crate::{out, settings};
use nerve_cli::local_commands::DoctorArgs;

/// Maximum number of bytes kept of the end of a recording, as an asciicast.
const RECORDING_BYTES: usize = 4 << 20;
/// Fields of a node that may contain texts of the user or the agent.
const TEXT_FIELDS: [&str; 2] = ["title", "evidence"];

/// Writes the archive into the current folder and prints its path and contents.
pub(super) async fn run(args: &DoctorArgs, checks: &[Check]) -> Result<()> {
    let redaction =
        Redaction::new(std::env::vars_os().map(|(name, value)| {
            (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
        }));
    let report = Report { redaction, with_text: args.with_text };
    let mut zip = ZipWriter::default();
    zip.add("system.json", pretty(&report.system(checks)).as_bytes());
    zip.add("settings.toml", report.settings().as_bytes());
    let nodes = nodes(args).await?;
    for node in &nodes {
        let recording = node.metadata.text("recording_path");
        let screen = if args.with_text { node.screen.clone() } else { mask(&node.screen) };
        let name = &node.node_id;
        zip.add(&format!("{name}/node.json"), pretty(&report.node(node)).as_bytes());
        zip.add(&format!("{name}/screen.txt"), report.redaction.apply(&screen).as_bytes());
        if !recording.is_empty() {
            match report.recording(Path::new(recording)) {
                Ok(cast) => zip.add(&format!("{name}/recording.cast"), cast.as_bytes()),
                Err(error) => out::warning(format_args!("{recording} is left out: {error}")),
            }
        }
    }
    let path = save(&zip.finish())?;
    print(args, &path, &nodes)
}

/// Returns the states of the nodes with their evidence: those that are named, or all of the session.
async fn nodes(args: &DoctorArgs) -> Result<Vec<NodeExplanation>> {
    let client = match crate::cmd::server::connect(&args.server).await {
        Ok(client) => client,
        // Without a server, the report describes the machine.
        Err(error) if args.nodes.is_empty() => {
            out::note(format_args!("no nodes: {error}"));
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let mut names = args.nodes.clone();
    if names.is_empty() {
        let nodes = client.list_nodes(args.session.as_deref()).await?;
        names.extend(nodes.into_iter().map(|node| node.node_id));
    }
    names.sort();
    names.dedup();
    let mut nodes = Vec::new();
    for name in names {
        match client.request(&ExplainNode::new(name.clone(), args.session.clone())).await {
            Ok(node) => nodes.push(node),
            // Nodes without a running terminal have no state to explain.
            Err(error) if args.nodes.is_empty() => {
                out::warning(format_args!("node {name} is left out: {error}"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(nodes)
}

/// Rules for the content of a report.
struct Report {
    redaction: Redaction,
    /// Texts are not masked.
    with_text: bool,
}

impl Report {
    fn system(&self, checks: &[Check]) -> Value {
        let checks: Vec<Value> = checks.iter().map(to_json).collect();
        let variables: Vec<String> = std::env::vars_os()
            .map(|(name, _)| name.to_string_lossy().into_owned())
            .filter(|name| {
                name.starts_with("NERVE_") || ["TERM", "COLORTERM", "LANG"].contains(&name.as_str())
            })
            .collect();
        let kernel = kernel_release().unwrap_or_default();
        self.redact(json!({
            "nerve": env!("CARGO_PKG_VERSION"),
            "platform": { "os": std::env::consts::OS, "architecture": std::env::consts::ARCH, "kernel": kernel },
            "variables": variables,
            "checks": checks,
        }))
    }

    fn settings(&self) -> String {
        let text = fs::read_to_string(settings::path()).unwrap_or_default();
        self.redaction.apply(&without_notification_targets(&text))
    }

    /// Describes a node: its state, the evidence and the agent.
    fn node(&self, node: &NodeExplanation) -> Value {
        let mut metadata: Map<String, Value> =
            node.metadata.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let mut evidence = node.evidence.clone();
        let mut choices = node.choices.clone();
        if !self.with_text {
            evidence = mask(&evidence);
            choices.iter_mut().for_each(|choice| *choice = mask(choice));
            for name in TEXT_FIELDS {
                metadata
                    .entry(name)
                    .and_modify(|text| *text = mask(text.as_str().unwrap_or_default()).into());
            }
        }
        if !self.with_text && metadata.contains_key("command") {
            let mut words = shell_words::split(node.metadata.text("command")).unwrap_or_default();
            // A word with blanks may be a prompt.
            let prompts = words.iter_mut().filter(|word| word.contains(char::is_whitespace));
            prompts.for_each(|word| *word = mask(word));
            metadata.insert("command".to_string(), shell_words::join(&words).into());
        }
        self.redact(json!({
            "node": node.node_id, "state": node.state, "evidence": evidence, "signal": node.source,
            "offset": node.offset, "choices": choices, "metadata": metadata,
        }))
    }

    /// Returns the end of a recording as an asciicast.
    fn recording(&self, path: &Path) -> Result<String> {
        let mut tail = Tail::default();
        cast(&mut Reader::open(path)?, CastOptions::new(CastVersion::V2), &mut tail, |_| ())?;
        let mut text = String::new();
        for line in tail.lines() {
            let Ok(mut event) = serde_json::from_str::<Value>(line) else { continue };
            let is_size = event[1] == "r";
            if let Some(Value::String(data)) = event.get_mut(2).filter(|_| !is_size) {
                let content = if self.with_text { data.clone() } else { mask(data) };
                *data = self.redaction.apply(&content);
            }
            let _ = writeln!(text, "{event}");
        }
        Ok(text)
    }

    /// Returns a value whose texts have no secrets.
    fn redact(&self, value: Value) -> Value {
        match value {
            Value::String(text) => self.redaction.apply(&text).into(),
            Value::Array(values) => values.into_iter().map(|value| self.redact(value)).collect(),
            Value::Object(fields) => {
                fields.into_iter().map(|(name, value)| (name, self.redact(value))).collect()
            }
            other => other,
        }
    }
}

/// Removes the values of settings that may contain secrets: commands and URLs of notifications.
fn without_notification_targets(settings: &str) -> String {
    let hide = |line: &str| match line.split_once('=') {
        Some((name, _)) if ["command", "webhook", "ntfy"].iter().any(|target| name.contains(target)) => {
            format!("{name}= \"[redacted]\"\n")
        }
        _ => format!("{line}\n"),
    };
    settings.lines().map(hide).collect()
}

/// The first line and the last lines that were written.
#[derive(Debug, Default)]
struct Tail {
    head: Vec<u8>,
    bytes: Vec<u8>,
}

impl Write for Tail {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.head.ends_with(b"\n") {
            let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1);
            self.head.extend(&bytes[..end]);
            return Ok(end);
        }
        self.bytes.extend(bytes);
        if self.bytes.len() > RECORDING_BYTES * 2 {
            self.bytes.drain(..self.bytes.len() - RECORDING_BYTES);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Tail {
    /// Returns the lines. A line whose beginning was dropped is not JSON.
    fn lines(&self) -> impl Iterator<Item = &str> {
        let start = self.bytes.len().saturating_sub(RECORDING_BYTES);
        let lines =
            [&self.head[..], &self.bytes[start..]].into_iter().flat_map(|part| part.split(|b| *b == b'\n'));
        lines.filter_map(|line| std::str::from_utf8(line).ok())
    }
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// Writes the archive to a new file that only its user can read.
fn save(archive: &[u8]) -> Result<PathBuf> {
    let time = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
    let name = format!("nerve-report-{time}-{}.zip", std::process::id());
    let write = || {
        let path = std::env::current_dir()?.join(&name);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let result = file.write_all(archive).and_then(|()| file.sync_all());
        if result.is_err() {
            // Half an archive is of no use.
            let _ = fs::remove_file(&path);
        }
        result.map(|()| path)
    };
    write().map_err(|error| {
        Failure::new(FAILED, format!("cannot write {name} to the current folder: {error}"))
            .hint("change into a folder that you can write to and that has space")
            .into()
    })
}

fn print(args: &DoctorArgs, path: &Path, nodes: &[NodeExplanation]) -> Result<()> {
    let names: Vec<&str> = nodes.iter().map(|node| node.node_id.as_str()).collect();
    if args.json {
        return out::json(&json!({ "path": path, "nodes": names, "with_text": args.with_text }));
    }
    out::line(path.display())?;
    out::note("it contains the checks of this machine, the settings and the names of variables");
    if !names.is_empty() {
        let names = names.join(", ");
        out::note(format_args!("and of {names}: state, evidence, screen and the end of the recording"));
    }
    out::note(match args.with_text {
        true => "texts are readable: prompts and answers are in it; check it for secrets before you send it",
        false => "letters and digits of all texts are masked; keys and your home folder are removed",
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_of_notifications_are_removed() {
        let settings =
            "[notify]\nmin-turn = 5\nwebhook = \"https://hooks.example/T0/B1/secret\"\n# ntfy = \"x\"\n";
        let shown = without_notification_targets(settings);
        assert_eq!(shown, "[notify]\nmin-turn = 5\nwebhook = \"[redacted]\"\n# ntfy = \"[redacted]\"\n");
    }
}
