//! Names of a fan-out and its attempts: pure functions of the task and the agents.

use std::path::Path;

use nerve_commands::failure::{Failure, USAGE};
use nerve_types::name::{self, MAX_NAME_CHARS};

/// Maximum characters of the name of a fan-out. With `-NN-AGENT` it is the name of a node.
pub const MAX_NAME: usize = MAX_NAME_CHARS - "-32-".len() - MAX_AGENT;
/// Maximum characters of the name of an agent.
const MAX_AGENT: usize = 10;
/// Prefix of all branches.
pub const BRANCH_PREFIX: &str = "nerve";

/// One planned attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedAttempt {
    /// Number of the attempt, from 1.
    pub number: u32,
    /// `N-AGENT`.
    pub label: String,
    /// Command of the agent.
    pub command: String,
    /// Id of the node.
    pub node: String,
    /// Branch of the attempt.
    pub branch: String,
}

/// Plans `count` attempts, by default one for each command. Commands repeat in order if there are more attempts.
pub fn plan(name: &str, commands: &[String], count: Option<u32>) -> Vec<PlannedAttempt> {
    let count = count.map_or(commands.len(), |count| count as usize);
    let attempts = (1..).zip(commands.iter().cycle().take(count));
    attempts
        .map(|(number, command)| {
            let label = format!("{number}-{}", agent_name(command));
            PlannedAttempt {
                number,
                node: format!("{name}-{label}"),
                branch: format!("{BRANCH_PREFIX}/{name}/{label}"),
                command: command.clone(),
                label,
            }
        })
        .collect()
}

/// Splits the values of `--command` at commas outside of quotes.
///
/// # Errors
/// Exit code 2 for an empty command, or unbalanced quotes.
pub fn split_commands(values: &[String]) -> Result<Vec<String>, Failure> {
    let mut commands = Vec::new();
    for value in values {
        let mut command = String::new();
        let (mut quote, mut escaped) = (None, false);
        for c in value.chars() {
            match c {
                ',' if quote.is_none() && !escaped => commands.push(std::mem::take(&mut command)),
                c => command.push(c),
            }
            match (quote, c) {
                (None, '\'' | '"') if !escaped => quote = Some(c),
                (Some(open), c) if open == c && !escaped => quote = None,
                _ => {}
            }
            escaped = c == '\\' && !escaped && quote != Some('\'');
        }
        commands.push(command);
    }
    for command in &mut commands {
        *command = command.trim().to_string();
        let words = shell_words::split(command);
        if !words.is_ok_and(|words| !words.is_empty()) {
            let message = format!("cannot split the agents of --command: {command:?} is no command");
            let hint = "separate commands by commas: -c claude,codex; repeat -c for commands with quotes";
            return Err(Failure::new(USAGE, message).hint(hint));
        }
    }
    Ok(commands)
}

/// Derives a name from the first words of a task.
pub fn name_of_task(task: &str) -> String {
    let first = task.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let name = slug(first, MAX_NAME);
    if name.is_empty() { "task".to_string() } else { name }
}

/// Checks a name given by the user.
///
/// # Errors
/// Exit code 2.
pub fn check_name(text: &str) -> Result<(), Failure> {
    name::check("fan-out", text).map_err(|error| Failure::new(USAGE, error.to_string()))?;
    if text.len() > MAX_NAME {
        let message = format!("fan-out name {text:?} is not allowed: it has more than {MAX_NAME} characters");
        return Err(Failure::new(USAGE, message).hint("use a shorter --name"));
    }
    Ok(())
}

/// Returns the name with a number at its end, still short enough.
pub fn numbered(name: &str, number: u32) -> String {
    let ending = format!("-{number}");
    let kept = name.get(..MAX_NAME - ending.len()).unwrap_or(name);
    format!("{}{ending}", kept.trim_end_matches('-'))
}

/// Returns the name of a command's program, such as `claude`.
fn agent_name(command: &str) -> String {
    let words = shell_words::split(command).unwrap_or_default();
    let program = words.first().map(String::as_str).unwrap_or_default();
    let program = Path::new(program).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let name = slug(program, MAX_AGENT);
    if name.is_empty() { "agent".to_string() } else { name }
}

/// Returns whole words of a text in lower case with dashes between them: as many as fit, or a part of the first one.
fn slug(text: &str, max: usize) -> String {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut slug = String::new();
    for word in words {
        if slug.is_empty() {
            slug.extend(word.chars().take(max));
        } else if slug.len() + 1 + word.len() <= max {
            slug.push('-');
            slug.push_str(word);
        } else {
            break;
        }
    }
    slug
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(values: &[&str]) -> Vec<String> {
        split_commands(&values.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn attempts_cycle_through_agents() {
        let commands = split(&["claude --model 'a b',/usr/bin/codex.sh"]);
        let attempts = plan("login", &commands, Some(3));
        let labels: Vec<&str> = attempts.iter().map(|attempt| attempt.label.as_str()).collect();
        assert_eq!(labels, ["1-claude", "2-codex", "3-claude"]);
        assert_eq!(attempts[2].command, "claude --model 'a b'");
        assert_eq!((&*attempts[1].node, &*attempts[1].branch), ("login-2-codex", "nerve/login/2-codex"));
        assert_eq!(plan("login", &commands, None).len(), 2);
        assert_eq!(plan("login", &commands, Some(1)).len(), 1);
    }

    #[test]
    fn node_names_are_valid_at_every_length() {
        let long = name_of_task(&"x".repeat(100));
        for attempt in plan(&long, &["averylongprogramname".to_string(), "ü".to_string()], Some(32)) {
            assert!(name::check("node", &attempt.node).is_ok(), "{attempt:?}");
        }
    }

    #[test]
    fn commas_in_quotes_do_not_separate() {
        assert_eq!(split(&["claude --x 'a,b', codex", "gemini"]), ["claude --x 'a,b'", "codex", "gemini"]);
        assert_eq!(split(&[r#"sh -c "a\",b",c"#]), [r#"sh -c "a\",b""#, "c"]);
        for bad in ["", "claude,,codex", "claude,", "a 'b"] {
            assert!(split_commands(&[bad.to_string()]).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_come_from_whole_words() {
        assert_eq!(name_of_task("\n Fix the login test, please!\nmore"), "fix-the-login-test");
        assert_eq!(name_of_task("Grüße 修正"), "gr-e");
        assert_eq!(name_of_task("修正"), "task");
        assert_eq!(numbered("fix-the-login-test", 2), "fix-the-login-te-2");
        assert_eq!(numbered("a", 12), "a-12");
        assert!(check_name("login").is_ok() && check_name("../x").is_err());
        assert!(check_name(&"x".repeat(MAX_NAME + 1)).is_err());
    }
}
