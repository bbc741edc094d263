//! Tab completion: determines the kind of word at the cursor and the matching candidates. Does no I/O.

use clap::{Arg, ArgAction, ValueHint};

/// The incomplete word at the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WordAtCursor {
    /// Byte offset of the word in the line.
    pub(super) start: usize,
    /// The part before the cursor.
    pub(super) prefix: String,
    pub(super) kind: WordKind,
}

/// The kind of word that can stand at the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WordKind {
    /// One of a fixed set.
    Words(Vec<String>),
    /// A name known to the server or the current graph.
    Name(NameKind),
    /// A file path.
    File,
    /// A new name or text: not completed.
    FreeText,
}

/// The kind of thing that a name refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum NameKind {
    /// Nodes of the session.
    Nodes,
    /// Nodes and graphs of the session: candidates for a step's node.
    NodesAndGraphs,
    /// Registered graphs of the session.
    Graphs,
    /// Sessions.
    Sessions,
    /// Active runs.
    Runs,
    /// Steps of the current graph.
    Steps,
}

/// Returns the word at byte `pos` of `line`. `commands` declares the commands.
pub(super) fn word_at_cursor(commands: &clap::Command, line: &str, pos: usize) -> WordAtCursor {
    let before = &line[..pos];
    let start = before
        .rfind(char::is_whitespace)
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    let prefix = before[start..].to_string();
    let words: Vec<&str> = before[..start].split_whitespace().collect();
    if words.is_empty() && prefix.starts_with('@') {
        let prefix = prefix[1..].to_string();
        return WordAtCursor { start: start + 1, prefix, kind: WordKind::Name(NameKind::Nodes) };
    }
    let kind = if words.first().is_some_and(|word| word.starts_with('@')) {
        WordKind::FreeText
    } else {
        word_kind(commands, &words, &prefix)
    };
    WordAtCursor { start, prefix, kind }
}

/// Returns the words that start with `prefix`, sorted and without duplicates.
pub(super) fn matching(prefix: &str, words: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut matching: Vec<String> = words.into_iter().filter(|word| word.starts_with(prefix)).collect();
    matching.sort();
    matching.dedup();
    matching
}

fn word_kind(commands: &clap::Command, words: &[&str], prefix: &str) -> WordKind {
    let (mut command, mut rest) = (commands, words);
    // `run` with an option or field runs the current graph, because no node name looks like that.
    let is_graph_argument = |word: &str| word.starts_with('-') || word.contains('=');
    if words.first() == Some(&"run") && is_graph_argument(words.get(1).copied().unwrap_or(prefix)) {
        command = commands.find_subcommand("graph").unwrap_or(commands);
    }
    while let [word, others @ ..] = rest {
        let Some(subcommand) = command.find_subcommand(word) else { break };
        (command, rest) = (subcommand, others);
        // The arguments of `help` are command names.
        if command.get_name() == "help" {
            (command, rest) = (commands, others);
        }
    }
    if command.has_subcommands() {
        return if rest.is_empty() { subcommands(command) } else { WordKind::FreeText };
    }
    if let Some(option) = rest.last().and_then(|word| value_option(command, word)) {
        return argument_kind(option);
    }
    if prefix.starts_with('-') {
        return options(command);
    }
    let index = count_positionals(command, rest);
    // The last positional may take several words.
    let all: Vec<&Arg> = command.get_positionals().collect();
    let takes_more = |arg: &Arg| arg.get_num_args().is_some_and(|range| range.max_values() > 1);
    let at = all.get(index).or_else(|| all.last().filter(|arg| takes_more(arg)));
    at.map_or(WordKind::FreeText, |arg| argument_kind(arg))
}

fn subcommands(command: &clap::Command) -> WordKind {
    let visible = command.get_subcommands().filter(|child| !child.is_hide_set());
    WordKind::Words(visible.map(|child| child.get_name().to_string()).collect())
}

fn options(command: &clap::Command) -> WordKind {
    let visible = command.get_arguments().filter(|arg| !arg.is_hide_set());
    WordKind::Words(visible.filter_map(|arg| arg.get_long().map(|long| format!("--{long}"))).collect())
}

/// Returns the option named by `word` if its value is the next word.
fn value_option<'a>(command: &'a clap::Command, word: &str) -> Option<&'a Arg> {
    let arg = command.get_arguments().find(|arg| match (word.strip_prefix("--"), word.strip_prefix('-')) {
        (Some(long), _) => arg.get_long() == Some(long),
        (None, Some(short)) => short.chars().eq(arg.get_short()),
        (None, None) => false,
    });
    arg.filter(|arg| matches!(arg.get_action(), ArgAction::Set | ArgAction::Append))
}

/// Counts the positional arguments among `words`.
fn count_positionals(command: &clap::Command, words: &[&str]) -> usize {
    let mut count = 0;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if value_option(command, word).is_some() {
            words.next();
        } else if !word.starts_with('-') {
            count += 1;
        }
    }
    count
}

fn argument_kind(arg: &Arg) -> WordKind {
    let values = arg.get_possible_values();
    if !values.is_empty() && arg.get_action().takes_values() {
        return WordKind::Words(values.iter().map(|value| value.get_name().to_string()).collect());
    }
    match (arg.get_id().as_str(), arg.get_value_hint()) {
        (_, ValueHint::FilePath | ValueHint::DirPath | ValueHint::AnyPath) => WordKind::File,
        ("node", _)
            if arg
                .get_value_names()
                .is_some_and(|names| names.iter().any(|name| name == "NODE-OR-GRAPH")) =>
        {
            WordKind::Name(NameKind::NodesAndGraphs)
        }
        ("node", _) => WordKind::Name(NameKind::Nodes),
        ("graph", _) => WordKind::Name(NameKind::Graphs),
        ("session", _) => WordKind::Name(NameKind::Sessions),
        ("run", _) => WordKind::Name(NameKind::Runs),
        ("step" | "after", _) => WordKind::Name(NameKind::Steps),
        _ => WordKind::FreeText,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::declaration;

    fn at(line: &str) -> WordAtCursor {
        word_at_cursor(&declaration(), line, line.len())
    }

    fn words(line: &str) -> Vec<String> {
        let WordAtCursor { prefix, kind, .. } = at(line);
        let WordKind::Words(words) = kind else { panic!("{line}: {kind:?}") };
        matching(&prefix, words)
    }

    #[test]
    fn completes_commands_and_subcommands() {
        assert_eq!(words("in"), ["interrupt"]);
        assert_eq!(words("node cr"), ["create"]);
        assert_eq!(words("graph s"), ["save", "show"]);
        assert_eq!(words("help gra"), ["graph"]);
        assert_eq!(words("help graph va"), ["validate"]);
        assert!(words("").contains(&"chain".to_string()));
        assert!(!words("node ").contains(&"close".to_string()), "older names are not advertised");
        assert_eq!(at("node cr").start, 5);
    }

    #[test]
    fn completes_options_and_values() {
        assert_eq!(words("node create x --bac"), ["--backend"]);
        assert_eq!(words("node create x --backend b"), ["bash"]);
        assert_eq!(words("node create x -b t"), ["tmux"]);
        assert_eq!(at("node create x --cwd /t").kind, WordKind::File);
        assert_eq!(words("run --det"), ["--detach"]);
        assert_eq!(words("run a=b --in"), ["--input"]);
        assert_eq!(words("events o"), ["off", "on"]);
        assert_eq!(words("show m"), ["mermaid"]);
        assert_eq!(words("wait me st"), ["starting", "stopped"]);
    }

    #[test]
    fn completes_names() {
        let cases = [
            ("@m", NameKind::Nodes),
            ("send m", NameKind::Nodes),
            ("node stop m", NameKind::Nodes),
            ("node fork m", NameKind::Nodes),
            ("node execute --timeout 5 m", NameKind::Nodes),
            ("interrupt ", NameKind::Nodes),
            ("step add a ", NameKind::NodesAndGraphs),
            ("step add a m do --after x", NameKind::Steps),
            ("step remove ", NameKind::Steps),
            ("chain a b ", NameKind::Steps),
            ("session w", NameKind::Sessions),
            ("graph get r", NameKind::Graphs),
            ("cancel ", NameKind::Runs),
            ("gate yes --run r", NameKind::Runs),
            ("result ", NameKind::Steps),
        ];
        for (line, names) in cases {
            assert_eq!(at(line).kind, WordKind::Name(names), "{line}");
        }
        assert_eq!((at("@m").start, at("@m").prefix.as_str()), (1, "m"));
        for line in ["graph load ", "graph save x"] {
            assert_eq!(at(line).kind, WordKind::File, "{line}");
        }
        for line in ["@me hel", "node create ", "send me hel", "node fork a b", "exit ", "brew coff"] {
            assert_eq!(at(line).kind, WordKind::FreeText, "{line}");
        }
    }

    #[test]
    fn splits_multibyte_lines_at_words() {
        assert_eq!(at("graph\u{a0}sä").start, 7);
        assert_eq!(at("ä").prefix, "ä");
    }
}
