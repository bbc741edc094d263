//! The options of all commands. A name has one meaning in all of them.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Arg, Command};

/// Meanings of options whose help differs between commands.
const MEANINGS: [(&str, &str); 50] = [
    ("all", "Everything: servers and hosts of this user, nodes whatever their end"),
    ("all-machines", "Include the user's other machines"),
    ("api-key-env", "Environment variable with the key of a model API"),
    ("at", "Moment to continue from or to show: a turn, a snapshot, a time"),
    ("cancel", "Cancel instead: a dialog, or the turn of a result"),
    ("cols", "Terminal columns"),
    ("command", "Program with its arguments, or shell command line, to run"),
    ("cwd", "Working directory"),
    ("dir", "Directory with the files: to store, search or write"),
    ("dry-run", "Print what would happen, and do nothing"),
    ("escape", "Interpret escapes such as \\r, \\e and \\xHH"),
    ("file", "File to read instead"),
    ("follow", "Stay after the end, and show what comes next"),
    ("force", "Act in spite of a safety check"),
    ("format", "Output format"),
    ("from", "Where to begin: a recording to examine, or a position in one"),
    ("full", "Include the scrollback"),
    ("http", "Listen for HTTP: PORT or IP:PORT; port 0 picks a free one"),
    ("id", "Number or id of the new or the selected item: a snapshot, an execution"),
    ("in", "Where to search or to show: parts of the search, a multiplexer"),
    ("json", "Print as JSON"),
    ("keep-nodes", "Keep nodes running after the end of their server or run"),
    ("key", "Key to press after the text; repeatable"),
    ("label", "Label: of a snapshot, or of this machine for the steps of graphs"),
    ("lines", "Only the last N: lines of text, entries, recordings, results"),
    ("machines", "Serve or show the nodes of all machines in 'nerve machine list'"),
    ("max-tokens", "Token limit: of an answer of a chat node, of all requests of a proxy"),
    ("model", "Name of the model"),
    ("name", "Name of the server, of the new window or of the fan-out"),
    ("no-record", "Keep no recording"),
    ("no-wait", "Return at once, and print the name of what continues"),
    ("node", "Node: to select, or to create"),
    ("older-than", "What was last written longer ago: 12h, 30d, 2w …"),
    ("output", "File to write"),
    ("program", "Program: of a profile, or nerve on another machine"),
    ("recording", "Session or its recording: node, id or its beginning, or file"),
    ("rows", "Terminal rows"),
    ("server", "Server: name, tcp://HOST:PORT or tls://HOST:PORT"),
    ("session", "Session of the nodes on their server"),
    ("since", "Only what is newer: a word, a span or a time"),
    ("socket", "Server of tmux or WezTerm: socket path, or name as for 'tmux -L'"),
    ("task", "Task of a pattern; for a recording, open the entry for one"),
    ("test", "Test: send one notification, or run a command for each attempt"),
    ("timeout", "Time limit in seconds"),
    ("tmux-session", "tmux session or WezTerm workspace of the pane; created if missing"),
    ("token-file", "File with the access token"),
    ("wait", "Wait for the end of the turn, and print its answer"),
    ("watch", "Stay, and show changes until the end"),
    ("workspace", "Workspace of the conversation"),
    ("webhook", "URL that receives a POST request with JSON: a result, or notifications"),
];

/// An option, and its commands.
#[derive(Debug, Default)]
pub struct OptionEntry {
    /// Its short names; at most one unless it is ambiguous.
    pub shorts: BTreeSet<char>,
    /// Its help texts in different commands.
    helps: BTreeSet<String>,
    /// Full names of its commands.
    pub commands: BTreeSet<String>,
}

impl OptionEntry {
    /// Returns the meaning of the option `long`; `None` if its help texts differ and the table of meanings has no entry for it.
    pub fn meaning(&self, long: &str) -> Option<&str> {
        let general = MEANINGS.iter().find(|(name, _)| *name == long).map(|(_, meaning)| *meaning);
        general.or_else(|| self.helps.first().filter(|_| self.helps.len() == 1).map(String::as_str))
    }
}

/// Collects the visible options of the visible commands, by their long names.
pub fn collect(root: &Command) -> BTreeMap<String, OptionEntry> {
    let mut all = BTreeMap::new();
    visit(root, root.get_name(), &mut all);
    all
}

fn visit(command: &Command, path: &str, all: &mut BTreeMap<String, OptionEntry>) {
    let is_listed = |arg: &&Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    for arg in command.get_arguments().filter(is_listed) {
        let Some(long) = arg.get_long() else { continue };
        let entry: &mut OptionEntry = all.entry(long.to_string()).or_default();
        entry.shorts.extend(arg.get_short());
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        entry.helps.insert(help.split(" [default").next().unwrap_or_default().to_string());
        entry.commands.insert(path.to_string());
    }
    for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
        visit(child, &format!("{path} {}", child.get_name()), all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;

    fn options() -> BTreeMap<String, OptionEntry> {
        let mut root = Cli::build_command().disable_help_subcommand(true);
        root.build();
        collect(&root)
    }

    #[test]
    fn short_and_long_names_correspond_in_all_commands() {
        let mut longs: BTreeMap<char, Vec<String>> = BTreeMap::new();
        for (long, entry) in options() {
            assert!(entry.shorts.len() <= 1, "--{long}: {entry:?}");
            for short in entry.shorts {
                longs.entry(short).or_default().push(long.clone());
            }
        }
        for (short, longs) in longs {
            assert_eq!(longs.len(), 1, "-{short} means {longs:?}");
        }
    }

    #[test]
    fn every_option_has_one_meaning() {
        let options = options();
        let open: Vec<String> = options
            .iter()
            .filter(|(long, entry)| entry.meaning(long).is_none())
            .map(|(long, entry)| format!("--{long}: {:#?}", entry.helps))
            .collect();
        assert!(open.is_empty(), "{}", open.join("\n"));
        for (long, _) in MEANINGS {
            assert!(options.get(long).is_some_and(|entry| entry.helps.len() > 1), "--{long} needs no entry");
        }
    }
}
