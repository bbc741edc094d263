//! Suggests commands for an unknown command.

use clap::Command;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use nerve_types::suggestion::nearest;

use super::SHORTCUTS;

/// Words that people try, and the commands to use instead. A word that names a command of a group needs no entry.
const WORDS: [(&[&str], &[&str]); 32] = [
    (&["up", "serve", "daemon", "resume", "continue"], &["start", "server start", "session start"]),
    (&["status", "state"], &["ls", "server status", "graph status"]),
    (&["list", "ps", "nodes"], &["ls"]),
    (&["create", "spawn", "add"], &["new", "session create", "graph create"]),
    (&["history", "log", "audit"], &["logs", "server logs"]),
    (&["kill", "remove", "delete", "close", "end"], &["stop", "rm", "session delete"]),
    (&["down", "shutdown", "halt", "quit", "exit"], &["server stop", "stop"]),
    (&["reboot", "reload"], &["server restart"]),
    (&["execute", "prompt", "say", "tell", "message", "turn"], &["send"]),
    (&["run"], &["send", "graph run", "node run"]),
    (&["read", "output", "screen", "capture", "print", "cat", "tail"], &["node read", "attach"]),
    (&["type", "keys", "press", "input"], &["node write"]),
    (&["show", "info", "describe", "get"], &["node info", "graph show", "node show"]),
    (&["open", "join", "enter"], &["attach"]),
    (&["watch", "monitor", "htop", "dashboard"], &["top", "events"]),
    (&["browser", "console", "phone", "gui"], &["web"]),
    (&["play"], &["replay"]),
    (&["rec"], &["record"]),
    (&["cancel", "abort", "pause"], &["node interrupt", "graph cancel"]),
    (&["approve", "confirm", "reply", "gate"], &["answer", "graph answer"]),
    (&["await"], &["wait", "result"]),
    (&["runs"], &["graph list"]),
    (&["sessions"], &["session list"]),
    (&["graphs", "dag", "workflow", "pipeline"], &["graph", "graph list"]),
    (&["servers"], &["server list"]),
    (&["hosts"], &["host list"]),
    (&["results"], &["result"]),
    (&["channel", "channels", "agent", "agents"], &["new", "ls", "node"]),
    (&["fork"], &["node fork", "branch"]),
    (&["settings", "configure", "setup"], &["config", "doctor"]),
    (&["shell", "interactive"], &["repl"]),
    (&["asciicast", "convert"], &["recording export", "recording import"]),
];

/// Replaces clap's suggestions in the error about an unknown subcommand: clap does not know the words of the table, and counts
/// two exchanged letters as two errors. Explains the error about a word after a text.
pub(super) fn improve(error: &mut Error, root: &Command, args: &[String]) {
    if error.kind() != ErrorKind::InvalidSubcommand {
        explain_word_after_text(error, root, args);
        return;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return };
    let word = &word.clone();
    // clap leaves an empty line for an empty list.
    if matches!(error.get(ContextKind::Suggested), Some(ContextValue::StyledStrs(all)) if all.is_empty()) {
        error.remove(ContextKind::Suggested);
    }
    let path = group_before(root, args, word);
    error.remove(ContextKind::SuggestedSubcommand);
    let commands = match suggest(root, &path, word) {
        Suggestion::Subcommand(name) => {
            let name = ContextValue::Strings(vec![name]);
            error.insert(ContextKind::SuggestedSubcommand, name);
            return;
        }
        Suggestion::Commands(commands) if commands.is_empty() => return,
        Suggestion::Commands(commands) => commands,
    };
    let tips = commands.iter().map(|path| {
        let about = find(root, path).and_then(Command::get_about).map(ToString::to_string);
        StyledStr::from(format!("'nerve {path}': {}", about.unwrap_or_default()))
    });
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips.collect()));
}

/// Adds to the error about a word after a text that the text must be in quotes, unless the text is a misspelled subcommand.
fn explain_word_after_text(error: &mut Error, root: &Command, args: &[String]) {
    let subcommand = error.get(ContextKind::InvalidSubcommand);
    let (word, is_conflict) = match (error.kind(), subcommand, error.get(ContextKind::InvalidArg)) {
        // A subcommand cannot follow a text, and clap takes any word for a subcommand.
        (ErrorKind::ArgumentConflict, Some(ContextValue::String(word)), _) => (word.clone(), true),
        (ErrorKind::UnknownArgument, _, Some(ContextValue::String(word))) if !word.starts_with('-') => {
            (word.clone(), false)
        }
        _ => return,
    };
    let path = group_before(root, args, &word);
    let command = find(root, &path.join(" ")).unwrap_or(root);
    let is_text = |name: &clap::builder::Str| name.starts_with("TEXT");
    let has_text =
        command.get_positionals().any(|arg| arg.get_value_names().unwrap_or_default().iter().any(is_text));
    let Some(at) = args.iter().position(|arg| *arg == word).filter(|at| *at > 0 && has_text) else { return };
    if is_conflict {
        let usage = error.get(ContextKind::Usage).cloned();
        *error = Error::new(ErrorKind::UnknownArgument).with_cmd(command);
        error.insert(ContextKind::InvalidArg, ContextValue::String(word.clone()));
        usage.map(|usage| error.insert(ContextKind::Usage, usage));
    }
    let tip = match suggest(root, &path, &args[at - 1]) {
        Suggestion::Subcommand(name) if is_conflict => format!("'nerve {} {name}'", path.join(" ")),
        _ => {
            let more = if args.len() > at + 1 { " …" } else { "" };
            format!("quote a text that has spaces: '{} {word}{more}'", args[at - 1])
        }
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
}

/// Returns the path of the command before an unknown word.
fn group_before<'a>(root: &'a Command, args: &[String], word: &str) -> Vec<&'a str> {
    let (mut group, mut path) = (root, Vec::new());
    for arg in args.iter().skip(1).take_while(|arg| *arg != word) {
        if let Some(child) = group.find_subcommand(arg) {
            group = child;
            path.push(child.get_name());
        }
    }
    path
}

/// Commands to use instead of an unknown word.
enum Suggestion {
    /// A similar word after the same group.
    Subcommand(String),
    /// Complete commands; none if nothing is similar.
    Commands(Vec<String>),
}

/// Returns the commands for a word after the group `path`: those for the word itself, otherwise those for a similar word.
fn suggest(root: &Command, path: &[&str], word: &str) -> Suggestion {
    let exact = if path.is_empty() { commands_for(root, word) } else { commands_in_group(path, word) };
    if !exact.is_empty() {
        return Suggestion::Commands(exact);
    }
    let group = path.iter().try_fold(root, |command, name| command.find_subcommand(name)).unwrap_or(root);
    let names: Vec<&str> = visible_names(group).collect();
    let synonyms = WORDS.iter().flat_map(|(words, _)| *words).copied();
    let synonyms = synonyms.filter(|word| path.is_empty() || !commands_in_group(path, word).is_empty());
    let longer = names.iter().filter(|name| word.len() > 2 && name.starts_with(word));
    if let Some(longer) = longer.min_by_key(|name| name.len()) {
        return Suggestion::Subcommand((*longer).to_string());
    }
    match nearest(word, names.iter().copied().chain(synonyms)) {
        Some(name) if names.contains(&name) => Suggestion::Subcommand(name.to_string()),
        Some(synonym) if path.is_empty() => Suggestion::Commands(commands_for(root, synonym)),
        Some(synonym) => Suggestion::Commands(commands_in_group(path, synonym)),
        None => Suggestion::Commands(commands_for(root, word)),
    }
}

/// Returns the commands of the table for a word.
fn table_commands(word: &str) -> impl Iterator<Item = &'static str> {
    WORDS.iter().filter(move |(words, _)| words.contains(&word)).flat_map(|(_, commands)| *commands).copied()
}

/// Returns the commands of the table for a word, or else those of this name in any group.
fn commands_for(root: &Command, word: &str) -> Vec<String> {
    let table_commands: Vec<String> = table_commands(word).map(str::to_string).collect();
    if table_commands.is_empty() { commands_named(root, word) } else { table_commands }
}

/// Returns the commands of the table for a word that are in a group.
fn commands_in_group(path: &[&str], word: &str) -> Vec<String> {
    let prefix = format!("{} ", path.join(" "));
    let is_in_group = |command: &&str| {
        let full = SHORTCUTS.iter().find(|(short, _)| short == command).map(|(_, full)| full.join(" "));
        full.as_deref().unwrap_or(command).starts_with(&prefix)
    };
    table_commands(word).filter(is_in_group).map(str::to_string).collect()
}

/// Returns the visible commands of this name in the visible groups.
fn commands_named(root: &Command, word: &str) -> Vec<String> {
    let groups = root.get_subcommands().filter(|group| !group.is_hide_set());
    let paths = groups.filter_map(|group| {
        let command = group.find_subcommand(word).filter(|command| !command.is_hide_set())?;
        Some(format!("{} {}", group.get_name(), command.get_name()))
    });
    paths.filter(|path| path != "help help").collect()
}

/// Returns the names of the visible commands of a group.
fn visible_names(group: &Command) -> impl Iterator<Item = &str> {
    group.get_subcommands().filter(|command| !command.is_hide_set()).map(Command::get_name)
}

fn find<'a>(root: &'a Command, path: &str) -> Option<&'a Command> {
    path.split(' ').try_fold(root, |command, name| command.find_subcommand(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;

    fn message(words: &str) -> String {
        let args: Vec<String> =
            std::iter::once("nerve").chain(words.split(' ')).map(str::to_string).collect();
        let mut root = Cli::build_command();
        let mut error = root.try_get_matches_from_mut(&args).unwrap_err();
        improve(&mut error, &root, &args);
        error.render().to_string()
    }

    #[test]
    fn unknown_word_suggests_right_command() {
        let cases = [
            ("up", &["'nerve server start'", "'nerve start'"][..]),
            ("status", &["'nerve ls'", "'nerve server status'"]),
            ("history", &["'nerve logs'"]),
            ("list", &["'nerve ls'"]),
            ("ps", &["'nerve ls'"]),
            ("create", &["'nerve new'"]),
            ("kill", &["'nerve stop'"]),
            ("continue", &["'nerve start'"]),
            ("reboot", &["'nerve server restart'"]),
            ("quit", &["'nerve server stop'", "'nerve stop'"]),
            ("remove", &["'nerve stop'", "'nerve rm'"]),
            ("execute me hello", &["'nerve send'"]),
            ("run", &["'nerve send'", "'nerve graph run'"]),
            ("read me", &["'nerve node read'"]),
            ("graphs", &["'nerve graph'"]),
            ("dag", &["'nerve graph'"]),
            ("interrupt me", &["'nerve node interrupt'"]),
            ("validate x.yaml", &["'nerve graph validate'"]),
            ("repair", &["'nerve recording repair'"]),
            ("rotate", &["'nerve token rotate'"]),
            ("node kill me", &["'nerve stop'"]),
            ("node prompt me", &["'nerve send'"]),
            ("recording play", &["'nerve replay'"]),
            ("server nodes", &["'nerve ls'"]),
            ("server interrupt me", &["'nerve node interrupt'"]),
            ("histroy", &["'nerve logs'"]),
            ("statsu", &["'nerve ls'", "'nerve server status'"]),
            ("stauts", &["'nerve ls'"]),
            ("pasue", &["'nerve node interrupt'"]),
            ("serach", &["'search'"]),
            ("trans", &["'transcript'"]),
            ("fan", &["'fan-out'"]),
            ("fan-out clen two", &["'two'", "'nerve fan-out clean'"]),
            ("fan-out -n 2 -c x fix the tests", &["'the'", "'fix the …'"]),
            ("send me hello there", &["'there'", "'hello there'"]),
            ("search rate limit", &["'limit'", "'rate limit'"]),
            ("sever", &["'server'"]),
            ("recrod", &["'record'"]),
            ("node exeute me", &["'execute'"]),
        ];
        for (words, expected) in cases {
            let message = message(words);
            for command in expected {
                assert!(message.contains(command), "{words}: {message}");
            }
        }
    }

    #[test]
    fn only_the_nearest_command_is_suggested() {
        for (words, others) in [
            ("serach", &["'graph'", "'service'", "'branch'"][..]),
            ("histroy", &["'host'"]),
            ("stauts", &["'start'"]),
            ("pasue", &["'answer'", "'prune'"]),
            ("fan", &["'man'"]),
            ("wait me you", &["quote"]),
            ("send me hello --unknown", &["quote"]),
        ] {
            let message = message(words);
            assert!(!others.iter().any(|other| message.contains(other)), "{words}: {message}");
        }
    }

    #[test]
    fn hidden_commands_are_not_suggested() {
        for words in ["parze", "opnapi", "node cloze me", "foo", "recrodings"] {
            let message = message(words);
            for hidden in ["'parse'", "'openapi'", "'close'", "'hook'", "'recordings'"] {
                assert!(!message.contains(hidden), "{words}: {message}");
            }
        }
    }

    #[test]
    fn table_names_existing_commands_once() {
        let root = Cli::build_command();
        let mut seen = Vec::new();
        for (words, commands) in WORDS {
            for path in commands {
                let command = find(&root, path);
                assert!(command.is_some_and(|command| !command.is_hide_set()), "{path}");
            }
            for word in words {
                let known = root.find_subcommand(word);
                assert!(known.is_none_or(clap::Command::is_hide_set), "'{word}' is a command");
                assert!(!seen.contains(word), "'{word}' is there twice");
                seen.push(word);
            }
        }
    }
}
