//! The names of commands. The first nerve's older names are accepted; each use is answered with a warning.

use std::fmt;

/// Defines the enum, its names and the older names that stand for them.
macro_rules! commands {
    ($($(#[$doc:meta])* $variant:ident = $name:literal $(| $alias:literal)*,)*) => {
        /// What a request asks for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum CommandType {
            $($(#[$doc])* $variant,)*
        }

        impl CommandType {
            /// All commands.
            pub const ALL: &'static [CommandType] = &[$(CommandType::$variant,)*];

            /// Older names and what they stand for.
            pub const ALIASES: &'static [(&'static str, CommandType)] =
                &[$($(($alias, CommandType::$variant),)*)*];

            /// The name on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(CommandType::$variant => $name,)*
                }
            }
        }
    };
}

commands! {
    /// Start a node.
    CreateNode = "CREATE_NODE" | "CREATE_CHANNEL",
    /// Stop a node.
    StopNode = "STOP_NODE" | "CLOSE_CHANNEL" | "DELETE_NODE",
    /// Start a node again that is defined and does not run.
    StartNode = "START_NODE",
    /// All nodes of a session.
    ListNodes = "LIST_NODES" | "LIST_CHANNELS",
    /// One node.
    GetNode = "GET_NODE" | "GET_CHANNEL",
    /// A second node that starts where another one is.
    ForkNode = "FORK_NODE",
    /// Type a command and do not wait.
    RunCommand = "RUN_COMMAND",
    /// Send a prompt and wait for its answer.
    ExecuteInput = "EXECUTE_INPUT" | "SEND_INPUT",
    /// What came of an execution that nobody waited for.
    GetResult = "GET_RESULT",
    /// All of them.
    ListResults = "LIST_RESULTS",
    /// Take one back.
    CancelResult = "CANCEL_RESULT",
    /// Interrupt what a node does.
    SendInterrupt = "SEND_INTERRUPT",
    /// Write raw data.
    WriteData = "WRITE_DATA",
    /// Give the terminal another size.
    ResizeNode = "RESIZE_NODE",
    /// The text of the terminal.
    GetBuffer = "GET_BUFFER",
    /// Forget the text so far.
    ClearBuffer = "CLEAR_BUFFER",
    /// The audit log of a node.
    GetHistory = "GET_HISTORY",
    /// Wait for a state of a node.
    WaitNode = "WAIT_NODE",
    /// Why a node is in its state.
    ExplainNode = "EXPLAIN_NODE",
    /// Choose an answer of the dialog a blocked node shows.
    AnswerNode = "ANSWER_NODE",
    /// Register a graph.
    CreateGraph = "CREATE_GRAPH",
    /// One graph.
    GetGraph = "GET_GRAPH",
    /// All graphs.
    ListGraphs = "LIST_GRAPHS",
    /// Forget a graph.
    DeleteGraph = "DELETE_GRAPH",
    /// Run a graph that is given whole.
    ExecuteGraph = "EXECUTE_GRAPH" | "EXECUTE_DAG",
    /// Run a registered graph.
    RunGraph = "RUN_GRAPH",
    /// Stop a run.
    CancelGraph = "CANCEL_GRAPH" | "CANCEL_DAG",
    /// All runs.
    ListRuns = "LIST_RUNS",
    /// One run.
    GetRun = "GET_RUN",
    /// Go on with a run whose server died.
    ResumeRun = "RESUME_RUN",
    /// Answer a gate that a run waits at.
    AnswerGate = "ANSWER_GATE",
    /// Make a session.
    CreateSession = "CREATE_SESSION",
    /// One session.
    GetSession = "GET_SESSION",
    /// All sessions.
    ListSessions = "LIST_SESSIONS",
    /// Stop a session's nodes and forget it.
    DeleteSession = "DELETE_SESSION",
    /// Start all nodes of a session that do not run.
    StartSession = "START_SESSION",
    /// Stop all nodes of a session and keep their definitions.
    StopSession = "STOP_SESSION",
    /// Choose which events this connection gets.
    Subscribe = "SUBSCRIBE",
    /// Show the token: the first message of a connection over TCP.
    Authenticate = "AUTHENTICATE",
    /// Stop the server.
    Shutdown = "SHUTDOWN" | "STOP",
    /// Is anybody there?
    Ping = "PING",
}

/// An older name was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeprecatedAlias {
    /// What was used.
    pub used: &'static str,
    /// What to use.
    pub instead: &'static str,
}

impl fmt::Display for DeprecatedAlias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is deprecated, use {}", self.used, self.instead)
    }
}

impl CommandType {
    /// Finds a command by a name or an older name; the latter comes with what to warn of.
    pub fn parse(name: &str) -> Option<(CommandType, Option<DeprecatedAlias>)> {
        if let Some(command) = CommandType::ALL.iter().find(|command| command.as_str() == name) {
            return Some((*command, None));
        }
        let (used, command) = CommandType::ALIASES.iter().find(|(alias, _)| *alias == name)?;
        Some((*command, Some(DeprecatedAlias { used, instead: command.as_str() })))
    }

    /// The command whose name is nearest to one that does not exist, if any is near.
    ///
    /// ```
    /// use nerve_api::CommandType;
    /// assert_eq!(CommandType::suggest("CREAT_NODE"), Some(CommandType::CreateNode));
    /// assert_eq!(CommandType::suggest("list_nodes"), Some(CommandType::ListNodes));
    /// assert_eq!(CommandType::suggest("BREW_COFFEE"), None);
    /// ```
    pub fn suggest(unknown: &str) -> Option<CommandType> {
        // Longer than any name by more than the allowed distance: no need to compare, the name may be megabytes.
        if unknown.len() > 32 {
            return None;
        }
        let unknown = unknown.to_ascii_uppercase().replace('-', "_");
        let aliases = CommandType::ALIASES.iter().copied();
        let names = CommandType::ALL.iter().map(|command| (command.as_str(), *command));
        names
            .chain(aliases)
            .map(|(name, command)| (edit_distance(unknown.as_bytes(), name.as_bytes()), command))
            .min_by_key(|(distance, _)| *distance)
            .filter(|(distance, _)| *distance <= unknown.len().div_ceil(4).min(3))
            .map(|(_, command)| command)
    }
}

impl fmt::Display for CommandType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Insertions, deletions and replacements that turn `a` into `b` (Levenshtein).
fn edit_distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::{CommandType, edit_distance};

    #[test]
    fn every_name_is_found_and_unique() {
        let mut seen = std::collections::HashSet::new();
        for &command in CommandType::ALL {
            assert!(seen.insert(command.as_str()), "{command} twice");
            assert_eq!(CommandType::parse(command.as_str()), Some((command, None)));
        }
        for &(alias, command) in CommandType::ALIASES {
            assert!(seen.insert(alias), "{alias} twice");
            let (found, warning) = CommandType::parse(alias).unwrap();
            assert_eq!(found, command);
            assert_eq!(warning.unwrap().to_string(), format!("{alias} is deprecated, use {command}"));
        }
        assert_eq!(CommandType::parse("create_node"), None);
    }

    #[test]
    fn distances() {
        for (a, b, distance) in
            [("", "", 0), ("abc", "", 3), ("kitten", "sitting", 3), ("PING", "PIN", 1), ("ab", "ba", 2)]
        {
            assert_eq!(edit_distance(a.as_bytes(), b.as_bytes()), distance, "{a} {b}");
            assert_eq!(edit_distance(b.as_bytes(), a.as_bytes()), distance, "{b} {a}");
        }
    }

    #[test]
    fn suggestions_are_near_or_none() {
        assert_eq!(CommandType::suggest("PIGN"), None);
        assert_eq!(CommandType::suggest("PIN"), Some(CommandType::Ping));
        assert_eq!(CommandType::suggest("execute-input"), Some(CommandType::ExecuteInput));
        assert_eq!(CommandType::suggest("SEND_INPUTS"), Some(CommandType::ExecuteInput));
        assert_eq!(CommandType::suggest(""), None);
        assert_eq!(CommandType::suggest(&"X".repeat(1 << 20)), None);
    }
}
