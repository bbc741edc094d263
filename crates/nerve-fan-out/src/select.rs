//! Finds fan-outs and attempts by the names that users type.

use nerve_commands::failure::{Failure, NOT_FOUND, USAGE};

use crate::fan_out::{Attempt, FanOut};

/// Maximum number of candidates in an error.
const MAX_CANDIDATES: usize = 10;

/// Positions of a fan-out, and of an attempt in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selection {
    /// Index of the fan-out.
    pub fan_out: usize,
    /// Index of the attempt in its fan-out; `None` if the whole fan-out is selected.
    pub attempt: Option<usize>,
}

/// Selects the fan-out with this name or beginning, by default the only one.
///
/// # Errors
/// Exit code 3 if there is none; 2 with the candidates if there are several.
pub fn select_fan_out(fan_outs: &[FanOut], name: Option<&str>) -> Result<usize, Failure> {
    let Some(name) = name else {
        return match fan_outs.len() {
            0 => Err(not_found("no fan-out".to_string())),
            1 => Ok(0),
            _ => Err(ambiguous("several fan-outs", fan_outs.iter().map(|fan_out| fan_out.name.clone()))),
        };
    };
    if let Some(exact) = fan_outs.iter().position(|fan_out| fan_out.name == name) {
        return Ok(exact);
    }
    let begins = |(_, fan_out): &(usize, &FanOut)| fan_out.name.starts_with(name);
    let matching: Vec<(usize, &FanOut)> = fan_outs.iter().enumerate().filter(begins).collect();
    match matching.as_slice() {
        [] => Err(not_found(format!("no fan-out '{name}'"))),
        [(only, _)] => Ok(*only),
        several => {
            let names = several.iter().map(|(_, fan_out)| fan_out.name.clone());
            Err(ambiguous(&format!("'{name}' is ambiguous"), names))
        }
    }
}

/// Selects an attempt by number, label, agent, node, branch or `FAN-OUT/ATTEMPT`; or a fan-out.
///
/// # Errors
/// See [`select_fan_out`].
pub fn select(fan_outs: &[FanOut], text: &str) -> Result<Selection, Failure> {
    let mut matching = find(fan_outs, |_, attempt| attempt.branch == text || attempt.node == text);
    if matching.is_empty() {
        if let Some((name, rest)) = text.split_once('/') {
            let chosen = select_fan_out(fan_outs, Some(name))?;
            matching = find(fan_outs, |fan_out, attempt| fan_out == chosen && is_named(attempt, rest));
        } else {
            if let Some(fan_out) = fan_outs.iter().position(|fan_out| fan_out.name == text) {
                return Ok(Selection { fan_out, attempt: None });
            }
            matching = find(fan_outs, |_, attempt| is_named(attempt, text));
        }
    }
    match matching.as_slice() {
        [only] => Ok(*only),
        [] => match select_fan_out(fan_outs, Some(text)) {
            Ok(fan_out) => Ok(Selection { fan_out, attempt: None }),
            Err(failure) if failure.code == NOT_FOUND => {
                Err(not_found(format!("no fan-out or attempt '{text}'")))
            }
            Err(failure) => Err(failure),
        },
        several => {
            let names = several.iter().filter_map(|selection| {
                let fan_out = &fan_outs[selection.fan_out];
                Some(format!("{}/{}", fan_out.name, fan_out.attempts[selection.attempt?].label))
            });
            Err(ambiguous(&format!("'{text}' is ambiguous"), names))
        }
    }
}

fn find(fan_outs: &[FanOut], matches: impl Fn(usize, &Attempt) -> bool) -> Vec<Selection> {
    let mut hits = Vec::new();
    for (index, fan_out) in fan_outs.iter().enumerate() {
        let attempts = fan_out.attempts.iter().enumerate().filter(|(_, attempt)| matches(index, attempt));
        hits.extend(attempts.map(|(attempt, _)| Selection { fan_out: index, attempt: Some(attempt) }));
    }
    hits
}

/// Returns true if the text is the attempt's number, label or agent.
fn is_named(attempt: &Attempt, text: &str) -> bool {
    let agent = attempt.label.split_once('-').map(|(_, agent)| agent);
    attempt.label == text || agent == Some(text) || attempt.number.to_string() == text
}

fn not_found(message: String) -> Failure {
    Failure::new(NOT_FOUND, message).hint("list fan-outs with 'nerve fan-out list'")
}

fn ambiguous(message: &str, candidates: impl Iterator<Item = String>) -> Failure {
    let mut names: Vec<String> = candidates.collect();
    let more = names.len().saturating_sub(MAX_CANDIDATES);
    names.truncate(MAX_CANDIDATES);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    Failure::new(USAGE, message).hint(format!("candidates: {}{rest}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::fan_out::example;

    fn fan_out(name: &str, agents: &[&str]) -> FanOut {
        example(name, agents, Path::new("/w"))
    }

    #[test]
    fn attempts_have_several_names() {
        let fan_outs = [fan_out("login", &["claude", "codex"]), fan_out("login-2", &["claude"])];
        let at = |fan_out, attempt| Selection { fan_out, attempt };
        for (text, expected) in [
            ("codex", at(0, Some(1))),
            ("2", at(0, Some(1))),
            ("login/1", at(0, Some(0))),
            ("login-2/claude", at(1, Some(0))),
            ("login-2-codex", at(0, Some(1))),
            ("nerve/login-2/1-claude", at(1, Some(0))),
            ("login", at(0, None)),
            ("login-2", at(1, None)),
        ] {
            assert_eq!(select(&fan_outs, text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn ambiguous_names_list_candidates() {
        let fan_outs = [fan_out("login", &["claude", "codex"]), fan_out("logout", &["claude"])];
        let hint = |text| select(&fan_outs, text).unwrap_err().hint.unwrap();
        assert_eq!(hint("claude"), "candidates: login/1-claude, logout/1-claude");
        assert_eq!(hint("log"), "candidates: login, logout");
        assert_eq!(select(&fan_outs, "gemini").unwrap_err().code, NOT_FOUND);
        assert_eq!(select(&fan_outs, "login/7").unwrap_err().code, NOT_FOUND);
        assert_eq!(select_fan_out(&fan_outs, None).unwrap_err().code, USAGE);
        assert_eq!(select_fan_out(&fan_outs[..1], None).unwrap(), 0);
        assert_eq!(select_fan_out(&[], None).unwrap_err().code, NOT_FOUND);
    }
}
