//! Options of a mock agent: plain data, independent of any command line parser.

use std::path::PathBuf;
use std::time::Duration;

/// Deviations of the mock agent from its default behaviour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MockAgentOptions {
    /// Draw on the alternate screen with absolute positions.
    pub full_screen: bool,
    /// First ask for a theme.
    pub theme: bool,
    /// First ask for a login method.
    pub login: bool,
    /// First ask whether the folder is trusted; the default answer is "No, exit".
    pub onboarding: bool,
    /// Number of Enters after a paste that are ignored.
    pub swallow_enter: u32,
    /// Input before this time after the start is lost, although the composer is shown.
    pub slow_start: Duration,
    /// Never show a composer and never accept input.
    pub never_ready: bool,
    /// Print one line and exit with this code, before drawing anything.
    pub exit_at_once: Option<i32>,
    /// Keys within this time after a permission dialog appears are lost. In Claude Code 2.1.330 it is 100 to 150 ms.
    pub dialog_grace: Duration,
    /// Ignore Esc and ^C.
    pub ignore_interrupt: bool,
    /// Stop reading the terminal after the first prompt.
    pub stop_reading: bool,
    /// Show pastes of more than 800 characters or 3 lines as `[Pasted text #N +k lines]`.
    pub paste_chip: bool,
    /// Thinking time before an answer starts.
    pub delay: Duration,
    /// Time between the words of a slow answer.
    pub word_delay: Duration,
    /// Set the window title.
    pub title: bool,
    /// Id of the conversation, which is then stored in Claude Code's format.
    pub session_id: Option<String>,
    /// Resume the conversation with this id.
    pub resume: Option<String>,
    /// Resume a copy of it.
    pub fork_session: bool,
    /// Play this recording instead of the script; of the other options only `fast` applies.
    pub replay: Option<PathBuf>,
    /// Play without the recorded pauses.
    pub fast: bool,
}

impl Default for MockAgentOptions {
    fn default() -> Self {
        MockAgentOptions {
            full_screen: false,
            theme: false,
            login: false,
            onboarding: false,
            swallow_enter: 0,
            slow_start: Duration::ZERO,
            dialog_grace: Duration::ZERO,
            never_ready: false,
            exit_at_once: None,
            ignore_interrupt: false,
            stop_reading: false,
            paste_chip: true,
            delay: Duration::from_millis(20),
            word_delay: Duration::from_millis(30),
            title: true,
            session_id: None,
            resume: None,
            fork_session: false,
            replay: None,
            fast: false,
        }
    }
}

/// The flags accepted by [`parse_args`], one per line, for a usage text.
pub const FLAGS: &str = "\
  --full-screen        draw on the alternate screen
  --theme              ask for a theme first
  --login              ask how to log in first
  --onboarding         ask first whether the folder is trusted (default answer: no, exit)
  --swallow-enter N    the first N Enters that follow a paste do nothing
  --slow-start MS      input before this time is lost, although the composer is drawn
  --dialog-grace MS    keys that come sooner after a permission dialog are lost
  --never-ready        never draw a composer
  --exit-at-once CODE  end at once with this code
  --ignore-interrupt   ignore Esc and ^C
  --stop-reading       stop reading the terminal after the first prompt
  --no-paste-chip      show long pastes as they are
  --delay MS           think time before answers (20)
  --word-delay MS      time from word to word of a slow answer (30)
  --no-title           do not set the window title
  --session-id ID      keep the conversation under this id, in ~/.claude/projects
  --resume ID          continue the conversation with this id
  --fork-session       continue a copy of it
  --settings FILE      accepted and ignored
  --replay FILE        play a recording: emit its output, wait where something was typed, end with its exit code
  --fast               with --replay: without the recorded pauses
";

/// Parses command line arguments (without the program's name).
///
/// # Errors
/// A message about an argument that is unknown, lacks its value or has an invalid one.
pub fn parse_args(mut args: impl Iterator<Item = String>) -> Result<MockAgentOptions, String> {
    let mut options = MockAgentOptions::default();
    while let Some(flag) = args.next() {
        match flag.as_str() {
            "--full-screen" => options.full_screen = true,
            "--theme" => options.theme = true,
            "--login" => options.login = true,
            "--onboarding" => options.onboarding = true,
            "--never-ready" => options.never_ready = true,
            "--ignore-interrupt" => options.ignore_interrupt = true,
            "--stop-reading" => options.stop_reading = true,
            "--paste-chip" => options.paste_chip = true,
            "--no-paste-chip" => options.paste_chip = false,
            "--no-title" => options.title = false,
            "--swallow-enter" => options.swallow_enter = value(&flag, args.next())?,
            "--exit-at-once" => options.exit_at_once = Some(value(&flag, args.next())?),
            "--slow-start" => options.slow_start = milliseconds(&flag, args.next())?,
            "--dialog-grace" => options.dialog_grace = milliseconds(&flag, args.next())?,
            "--session-id" => options.session_id = Some(text(&flag, args.next())?),
            "--resume" => options.resume = Some(text(&flag, args.next())?),
            "--fork-session" => options.fork_session = true,
            "--settings" => drop(text(&flag, args.next())?),
            "--replay" => {
                let file = args.next().ok_or_else(|| format!("`{flag}` needs a file"))?;
                options.replay = Some(file.into());
            }
            "--fast" => options.fast = true,
            "--delay" => options.delay = milliseconds(&flag, args.next())?,
            "--word-delay" => options.word_delay = milliseconds(&flag, args.next())?,
            other => return Err(format!("unknown argument `{other}`; known are:\n{FLAGS}")),
        }
    }
    let is_both = options.session_id.is_some() && options.resume.is_some();
    if is_both != options.fork_session {
        return Err("`--fork-session` requires `--resume ID` and `--session-id ID`, which are valid together only with it"
            .to_string());
    }
    if options.fast && options.replay.is_none() {
        return Err("`--fast` needs `--replay FILE`".to_string());
    }
    Ok(options)
}

fn text(flag: &str, argument: Option<String>) -> Result<String, String> {
    argument.ok_or_else(|| format!("`{flag}` needs a value"))
}

fn value<T: std::str::FromStr>(flag: &str, argument: Option<String>) -> Result<T, String> {
    let argument = argument.ok_or_else(|| format!("`{flag}` needs a number"))?;
    argument.parse().map_err(|_| format!("`{flag}` needs a number, not `{argument}`"))
}

fn milliseconds(flag: &str, argument: Option<String>) -> Result<Duration, String> {
    value::<u32>(flag, argument).map(|ms| Duration::from_millis(u64::from(ms)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<MockAgentOptions, String> {
        parse_args(line.split_whitespace().map(String::from))
    }

    #[test]
    fn no_argument_is_the_default() {
        assert_eq!(parse(""), Ok(MockAgentOptions::default()));
    }

    #[test]
    fn every_flag_is_taken() {
        let given = parse(
            "--full-screen --theme --login --onboarding --swallow-enter 2 --slow-start 300 --dialog-grace 150 --never-ready \
             --exit-at-once 3 --ignore-interrupt --stop-reading --no-paste-chip --delay 5 --word-delay 7 --no-title \
             --session-id b --resume a --fork-session --settings x --replay a/b.ahr --fast",
        );
        let expected = MockAgentOptions {
            full_screen: true,
            theme: true,
            login: true,
            onboarding: true,
            swallow_enter: 2,
            slow_start: Duration::from_millis(300),
            dialog_grace: Duration::from_millis(150),
            never_ready: true,
            exit_at_once: Some(3),
            ignore_interrupt: true,
            stop_reading: true,
            paste_chip: false,
            delay: Duration::from_millis(5),
            word_delay: Duration::from_millis(7),
            title: false,
            session_id: Some("b".into()),
            resume: Some("a".into()),
            fork_session: true,
            replay: Some("a/b.ahr".into()),
            fast: true,
        };
        assert_eq!(given, Ok(expected));
    }

    #[test]
    fn a_bad_argument_is_named() {
        assert!(parse("--colour").is_err_and(|e| e.contains("`--colour`")));
        assert!(parse("--delay").is_err_and(|e| e.contains("`--delay` needs a number")));
        assert!(parse("--replay").is_err_and(|e| e.contains("`--replay` needs a file")));
        assert!(parse("--fast").is_err_and(|e| e.contains("`--replay FILE`")));
        assert!(parse("--resume a --session-id b").is_err_and(|e| e.contains("--fork-session")));
        assert!(parse("--delay soon").is_err_and(|e| e.contains("`soon`")));
    }
}
