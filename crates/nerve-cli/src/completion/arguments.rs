//! Determines which names complete an argument.

use std::ffi::OsStr;

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};

use super::FanOutNames;
use super::names::{Line, Name, NameKind, list_names};

/// Completes an argument with names, and with files if it takes one too.
#[derive(Debug, Clone)]
struct NameCompleter {
    kinds: &'static [NameKind],
    takes_files: bool,
    fan_outs: FanOutNames,
}

impl ValueCompleter for NameCompleter {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let prefix = current.to_string_lossy();
        let line = Line::of_process();
        let names = self.kinds.iter().flat_map(|kind| list_names(*kind, &prefix, &line, self.fan_outs));
        let mut candidates: Vec<CompletionCandidate> = names
            .filter(|name| name.text.starts_with(&*prefix))
            .map(|Name { text, about }| CompletionCandidate::new(text).help(about.map(Into::into)))
            .collect();
        if self.takes_files {
            candidates.extend(PathCompleter::file().complete(current));
        }
        candidates
    }
}

/// Adds completers to the arguments of a command and its subcommands. `path`: the names of the enclosing commands.
pub(super) fn add_completers(command: Command, path: &str, fan_outs: FanOutNames) -> Command {
    let path = format!("{path} {}", command.get_name());
    let command = command.mut_args(|arg| match completer(&arg, &path, fan_outs) {
        Some(completer) => arg.add(ArgValueCompleter::new(completer)),
        None => arg,
    });
    command.mut_subcommands(|child| add_completers(child, &path, fan_outs))
}

/// Returns the completer of an argument; `None` if it takes no names of existing things.
fn completer(arg: &Arg, path: &str, fan_outs: FanOutNames) -> Option<NameCompleter> {
    let takes_files = arg.get_value_hint() == clap::ValueHint::FilePath;
    let completer = |kinds| Some(NameCompleter { kinds, takes_files, fan_outs });
    match arg.get_long() {
        Some("server") => return completer(&[NameKind::Servers]),
        Some("session") => return completer(&[NameKind::Sessions]),
        Some("profile") => return completer(&[NameKind::Profiles]),
        Some("recording") => return completer(&[NameKind::Recordings]),
        _ => {}
    }
    let id = arg.get_id().as_str();
    let value = arg.get_value_names().and_then(|names| names.first()).map_or(id, |name| name.as_str());
    match value {
        "NODE" | "SRC" => completer(&[NameKind::Nodes]),
        "NODE|RECORDING" => completer(&[NameKind::Nodes, NameKind::Recordings]),
        "NODE|ID" => completer(&[NameKind::Hosts]),
        "ID" if path.contains(" host ") => completer(&[NameKind::Hosts]),
        "SESSION" => completer(&[NameKind::Sessions]),
        "RECORDING" | "FILE|RECORDING" | "[RECORDING] INSTRUCTION" => completer(&[NameKind::Recordings]),
        "RUN" => completer(&[NameKind::Runs]),
        "RUN|GRAPH" => completer(&[NameKind::Runs, NameKind::Graphs]),
        "FAN-OUT" | "ATTEMPT" => completer(&[NameKind::FanOuts]),
        "GRAPH" | "FILE|ID" => completer(&[NameKind::Graphs]),
        "PROFILE" | "FILE|PROFILE" => completer(&[NameKind::Profiles]),
        "NAME" if path.contains(" server ") && id == "positional" => completer(&[NameKind::Servers]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;

    /// Command, argument and its kinds.
    type Case = (&'static [&'static str], &'static str, Option<&'static [NameKind]>);

    fn kinds(words: &[&str], id: &str) -> Option<&'static [NameKind]> {
        let root = Cli::build_command();
        let command = words.iter().fold(&root, |command, word| command.find_subcommand(word).unwrap());
        let path = format!(" nerve {}", words.join(" "));
        let arg = command.get_arguments().find(|arg| arg.get_id() == id).unwrap();
        completer(arg, &path, Vec::new).map(|completer| completer.kinds)
    }

    #[test]
    fn arguments_are_completed_with_their_kind_of_names() {
        use NameKind::{FanOuts, Graphs, Hosts, Nodes, Profiles, Recordings, Runs, Servers, Sessions};
        let cases: [Case; 24] = [
            (&["send"], "node", Some(&[Nodes])),
            (&["stop"], "node", Some(&[Nodes])),
            (&["new"], "name", None),
            (&["node", "create"], "name", None),
            (&["new"], "profile", Some(&[Profiles])),
            (&["attach"], "target", Some(&[Hosts])),
            (&["attach"], "server", Some(&[Servers])),
            (&["attach"], "session", Some(&[Sessions])),
            (&["host", "stop"], "ids", Some(&[Hosts])),
            (&["view"], "recording", Some(&[Recordings])),
            (&["view"], "session", Some(&[Recordings])),
            (&["recording", "extract"], "file", Some(&[Recordings])),
            (&["branch"], "words", Some(&[Recordings])),
            (&["branch"], "node", None),
            (&["snapshot"], "session", Some(&[Recordings])),
            (&["session", "delete"], "name", Some(&[Sessions])),
            (&["session", "create"], "name", None),
            (&["graph", "answer"], "run", Some(&[Runs])),
            (&["graph", "cancel"], "id", Some(&[Runs, Graphs])),
            (&["fan-out", "pick"], "attempt", Some(&[FanOuts])),
            (&["fan-out", "clean"], "name", Some(&[FanOuts])),
            (&["profile", "show"], "profile", Some(&[Profiles])),
            (&["profile", "test"], "recordings", Some(&[Recordings])),
            (&["server", "stop"], "positional", Some(&[Servers])),
        ];
        for (words, id, expected) in cases {
            assert_eq!(kinds(words, id), expected, "{words:?} {id}");
        }
    }
}
