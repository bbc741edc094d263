//! The environment of a node's program: the server's, or that of the shell that creates the node.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

/// Variables that describe a process, its terminal or the agent that runs it, instead of its user's settings. Those of the shell are
/// not passed on: Claude Code, for example, does not start where `CLAUDECODE` is set.
const PROCESS_VARIABLES: [&str; 19] = [
    "_",
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SSE_PORT",
    "COLORTERM",
    "COLUMNS",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LINES",
    "OLDPWD",
    "PWD",
    "SHLVL",
    "STY",
    "TERM",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "TMUX",
    "TMUX_PANE",
    "WINDOWID",
];
/// Prefixes of further such variables: nerve's own and those of terminal programs.
const PROCESS_PREFIXES: [&str; 5] = ["NERVE_", "AH_", "WEZTERM_", "KITTY_", "VTE_"];
/// Variables that locate the files of agents. They are stored with the node, so that a later server finds the node's conversation.
const FILE_VARIABLES: [&str; 8] = [
    "HOME",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "PI_CODING_AGENT_DIR",
    "COPILOT_HOME",
    "KIMI_CODE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
];

/// Changes to the server's environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// Variables to set.
    pub set: BTreeMap<String, String>,
    /// Variables of the server to remove. `set` has precedence.
    pub remove: Vec<String>,
    /// Names that the node itself sets. They are not removed.
    own: BTreeSet<String>,
}

/// Variable that lists the variables set by a node's proxy, separated by commas. They are not passed on to other nodes.
pub const PROXY_VARIABLES: &str = "NERVE_PROXY_VARIABLES";

impl Environment {
    /// Returns the changes that give a program the shell's environment, if there is one, and the variables of the node.
    pub fn new(
        shell: Option<&BTreeMap<String, String>>,
        env: BTreeMap<String, String>,
        server: &BTreeMap<String, String>,
    ) -> Environment {
        let own = env.keys().cloned().collect();
        let Some(shell) = shell else { return Environment { set: env, remove: Vec::new(), own } };
        let proxy_names: Vec<&str> =
            shell.get(PROXY_VARIABLES).map_or(Vec::new(), |names| names.split(',').collect());
        let is_withheld = |name: &str| is_process_variable(name) || proxy_names.contains(&name);
        let changed = shell.iter().filter(|(name, value)| {
            is_valid(name, value) && !is_withheld(name) && server.get(*name) != Some(*value)
        });
        let mut set: BTreeMap<String, String> =
            changed.map(|(name, value)| (name.clone(), value.clone())).collect();
        set.extend(env);
        let is_missing = |name: &&String| !shell.contains_key(*name) && !is_withheld(name);
        Environment { set, remove: server.keys().filter(is_missing).cloned().collect(), own }
    }

    /// Removes variables of the server and of the shell, but not those of the node.
    pub fn remove_all(&mut self, names: &[String]) {
        self.set.retain(|name, _| self.own.contains(name) || !names.contains(name));
        self.remove.extend_from_slice(names);
    }

    /// Returns true if the node itself sets the variable.
    pub fn is_own(&self, name: &str) -> bool {
        self.own.contains(name)
    }

    /// Returns a variable's value in the program's environment.
    pub fn get<'a>(&'a self, name: &str, server: &'a BTreeMap<String, String>) -> Option<&'a String> {
        let server_value = || server.get(name).filter(|_| !self.remove.iter().any(|removed| removed == name));
        self.set.get(name).or_else(server_value)
    }
}

/// Reads the variables of this process. Those that are not UTF-8 are left out.
pub fn read_variables() -> BTreeMap<String, String> {
    let text =
        |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    std::env::vars_os().filter_map(text).collect()
}

/// Adds the shell's variables that locate files of agents to `env`, the variables that are stored with a node.
pub fn keep_file_locations(
    shell: &BTreeMap<String, String>,
    env: &mut BTreeMap<String, String>,
    server: &BTreeMap<String, String>,
) {
    for name in FILE_VARIABLES {
        let shell_value = shell.get(name).filter(|value| server.get(name) != Some(*value));
        if let Some(value) = shell_value {
            env.entry(name.to_string()).or_insert_with(|| value.clone());
        }
    }
}

fn is_valid(name: &str, value: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
}

fn is_process_variable(name: &str) -> bool {
    PROCESS_VARIABLES.contains(&name) || PROCESS_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn without_shell_only_the_nodes_variables_count() {
        let server = vars(&[("A", "server")]);
        let environment = Environment::new(None, vars(&[("B", "node")]), &server);
        assert_eq!((&environment.set, environment.remove.len()), (&vars(&[("B", "node")]), 0));
        assert_eq!(environment.get("A", &server).map(String::as_str), Some("server"));
    }

    #[test]
    fn shell_replaces_the_servers_environment() {
        let server =
            vars(&[("OLD", "1"), ("SAME", "x"), ("TERM", "dumb"), ("NERVE_HOME", "/n"), ("PATH", "/bin")]);
        let shell = vars(&[
            ("SAME", "x"),
            ("PATH", "/new:/bin"),
            ("TERM", "xterm"),
            ("TMUX", "/tmp/t"),
            ("NERVE_SESSION_ID", "other"),
            ("A", "shell"),
            ("bad=name", "x"),
        ]);
        let environment = Environment::new(Some(&shell), vars(&[("A", "node")]), &server);
        assert_eq!(environment.set, vars(&[("A", "node"), ("PATH", "/new:/bin")]));
        assert_eq!(environment.remove, ["OLD"], "the terminal's and nerve's own variables stay");
        assert_eq!(environment.get("OLD", &server), None);
    }

    #[test]
    fn removed_variables_stay_if_the_node_sets_them() {
        let server = BTreeMap::new();
        let shell = vars(&[("CI", "1"), ("DEBUG", "1")]);
        let mut environment = Environment::new(Some(&shell), vars(&[("DEBUG", "2")]), &server);
        environment.remove_all(&["CI".into(), "DEBUG".into()]);
        assert_eq!(environment.set, vars(&[("DEBUG", "2")]));
        assert!(environment.is_own("DEBUG") && !environment.is_own("CI"));
    }

    #[test]
    fn variables_of_another_nodes_proxy_are_not_passed_on() {
        let server = vars(&[("URL", "https://server")]);
        let shell = vars(&[("URL", "http://127.0.0.1:1"), ("TOKEN", "t"), (PROXY_VARIABLES, "URL,TOKEN")]);
        let environment = Environment::new(Some(&shell), BTreeMap::new(), &server);
        assert_eq!(environment, Environment::default());
        assert_eq!(environment.get("URL", &server).map(String::as_str), Some("https://server"));
    }

    #[test]
    fn locations_of_files_are_stored_and_secrets_are_not() {
        let shell = vars(&[("CODEX_HOME", "/shell"), ("HOME", "/same"), ("MY_TOKEN", "s")]);
        let mut env = BTreeMap::new();
        keep_file_locations(&shell, &mut env, &vars(&[("HOME", "/same")]));
        assert_eq!(env, vars(&[("CODEX_HOME", "/shell")]));
    }
}
