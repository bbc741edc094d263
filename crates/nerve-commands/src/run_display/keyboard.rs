//! Asks the questions of gates on the terminal.

use std::io::{self, BufRead, IsTerminal, Write};

use jiff::tz::TimeZone;
use nerve_api::reply::GateInfo;
use rustix::process::getpgrp;
use rustix::stdio::stdin;
use rustix::termios::tcgetpgrp;
use tokio::sync::mpsc;

use super::screen::format_clock;
use crate::out;

/// Maximum length of a printed question or choice, in characters.
const MAX_PREVIEW: usize = 2000;

/// Reads typed lines, from the first question on. Earlier input is left to the shell.
#[derive(Debug)]
pub(super) struct Keyboard {
    lines: Option<mpsc::Receiver<String>>,
}

impl Keyboard {
    /// Creates a keyboard; `None` if standard input is not a terminal or this process is in the background.
    pub(super) fn new() -> Option<Keyboard> {
        let is_foreground = tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp());
        (io::stdin().is_terminal() && is_foreground).then_some(Keyboard { lines: None })
    }

    /// Returns the next line without its line end, or `None` at the end of input. Cancel safe.
    pub(super) async fn line(&mut self) -> Option<String> {
        match &mut self.lines {
            Some(lines) => lines.recv().await,
            None => std::future::pending().await,
        }
    }

    /// Starts reading lines.
    fn start_reading(&mut self) {
        if self.lines.is_some() {
            return;
        }
        let (sender, lines) = mpsc::channel(1);
        self.lines = Some(lines);
        // A detached thread, because a blocking read cannot be cancelled.
        std::thread::spawn(move || {
            for line in io::stdin().lock().lines() {
                let Ok(line) = line else { return };
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        });
    }

    /// Prints the question and the answer prompt.
    pub(super) fn ask(&mut self, gate: &GateInfo) {
        self.start_reading();
        out::note(format_args!(
            "{}{}{:#}: {}",
            out::WAITING,
            out::preview(&gate.step_id, MAX_PREVIEW),
            out::WAITING,
            out::sanitize(&gate.question)
        ));
        for (number, choice) in gate.choices.iter().enumerate() {
            let default = if gate.default.as_ref() == Some(choice) { " (default)" } else { "" };
            out::note(format_args!("  {}. {}{default}", number + 1, out::preview(choice, MAX_PREVIEW)));
        }
        prompt(gate);
    }
}

/// Prints the answer prompt.
pub(super) fn prompt(gate: &GateInfo) {
    let until = gate
        .deadline_at
        .map(|at| format!(" until {}", format_clock(at.seconds(), &TimeZone::system())))
        .unwrap_or_default();
    let default = gate
        .default
        .as_ref()
        .map(|text| format!(" [{}]", out::preview(text, MAX_PREVIEW)))
        .unwrap_or_default();
    let mut stderr = io::stderr().lock();
    // If stderr is closed, the gate stays open.
    let _ = write!(stderr, "your answer{until}{default}: ").and_then(|()| stderr.flush());
}

/// Parses typed text: the number of a choice, an empty line for the default, or the answer itself.
pub(super) fn parse_answer(typed: &str, gate: &GateInfo) -> Option<String> {
    let typed = typed.trim();
    if typed.is_empty() {
        return gate.default.clone();
    }
    Some(resolve_choice(typed, &gate.choices))
}

/// Resolves the number of a choice, from 1. Text that equals a choice is used as it is.
pub fn resolve_choice(text: &str, choices: &[String]) -> String {
    let is_choice = choices.iter().any(|choice| choice == text);
    let number = text.parse::<usize>().ok().filter(|_| !is_choice);
    let choice = number.and_then(|number| choices.get(number.checked_sub(1)?));
    choice.map_or_else(|| text.to_string(), Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_number_text_or_default() {
        let choices: Vec<String> = ["yes", "no", "1"].map(String::from).to_vec();
        let gate = GateInfo { choices, default: Some("no".into()), ..GateInfo::default() };
        let parse_answer = |typed| parse_answer(typed, &gate);
        assert_eq!(parse_answer(" \n").as_deref(), Some("no"));
        assert_eq!(parse_answer("2\n").as_deref(), Some("no"));
        assert_eq!(parse_answer("1").as_deref(), Some("1"), "an exact choice takes precedence over a number");
        assert_eq!(parse_answer("yes").as_deref(), Some("yes"));
        assert_eq!(parse_answer("9").as_deref(), Some("9"), "the server rejects it");
        assert_eq!(super::parse_answer("", &GateInfo::default()), None);
    }

    #[test]
    fn resolves_choice_by_number() {
        let resolve = |text, choices: &[&str]| {
            resolve_choice(text, &choices.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(resolve("2", &["yes", "no"]), "no");
        assert_eq!(resolve("no", &["yes", "no"]), "no");
        assert_eq!(resolve("2", &["2", "1"]), "2");
        assert_eq!(resolve("3", &[]), "3");
        assert_eq!(resolve("0", &["yes"]), "0");
    }
}
