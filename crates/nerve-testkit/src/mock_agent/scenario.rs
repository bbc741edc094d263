//! Maps words of a prompt to a list of steps.

use std::collections::VecDeque;
use std::time::Duration;

use super::options::MockAgentOptions;
use super::texts;

/// One step of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Pause; shows the spinner if nothing was printed since the last tool.
    Wait(Duration),
    /// Set the spinner's text in brackets.
    Spinner(&'static str),
    /// Print a block of answer text.
    Say(String),
    /// Print a line between the blocks that is not part of the answer.
    Note(&'static str),
    /// Print answer text word by word.
    Words { words: VecDeque<String>, every: Duration },
    /// Use a tool without permission.
    Tool { command: String, result: String },
    /// Use a tool that requires permission.
    Permit { command: String, result: String },
    /// Use a tool whose output redraws one row with carriage returns: updates done, and their total.
    Progress { done: u32, total: u32 },
    /// Print this many bytes of lines as fast as possible.
    Flood { bytes: usize },
    /// Print one line of this many bytes.
    HugeLine { bytes: usize },
    /// Print answer lines that are not UTF-8.
    BadUtf8,
    /// Fail the turn with this message and without an end line.
    ApiError(String),
    /// Print the end line.
    Done,
    /// Exit without a message.
    Crash(i32),
    /// Exit as on `/exit`.
    Leave,
    /// Stay busy forever and ignore interrupts.
    Hang,
}

/// Maximum lines of a HUGE answer.
const HUGE_LIMIT: u64 = 1_000_000;
/// Maximum megabytes of a FLOOD.
const FLOOD_LIMIT: u64 = 4096;

/// Plans the turn for `prompt`. The first word that names a scenario decides.
pub(super) fn plan(prompt: &str, options: &MockAgentOptions) -> VecDeque<Step> {
    let words: Vec<&str> =
        prompt.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric())).collect();
    let scenario_steps = words.iter().enumerate().find_map(|(at, word)| {
        let number = words.get(at + 1).and_then(|next| next.parse().ok());
        scenario(word, number, prompt, options)
    });
    let steps = scenario_steps.unwrap_or_else(|| vec![Step::Say(echo(prompt)), Step::Done]);
    std::iter::once(Step::Wait(options.delay)).chain(steps).collect()
}

/// Plans a turn that repeats the earlier prompts.
pub(super) fn recall(past: &[String], options: &MockAgentOptions) -> VecDeque<Step> {
    VecDeque::from([
        Step::Wait(options.delay),
        Step::Say(format!("You said: {}", past.join(" | "))),
        Step::Done,
    ])
}

/// Returns the text of the answer, without tools.
pub(super) fn text(steps: &VecDeque<Step>) -> String {
    let texts = steps.iter().filter_map(|step| match step {
        Step::Say(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

fn echo(prompt: &str) -> String {
    format!("You said: {prompt}")
}

fn scenario(word: &str, number: Option<u64>, prompt: &str, options: &MockAgentOptions) -> Option<Vec<Step>> {
    let say = |text: &str| vec![Step::Say(text.to_owned()), Step::Done];
    let steps = match word {
        "LONG" => say(texts::LONG),
        "HUGE" => say(&texts::huge(number.unwrap_or(300).min(HUGE_LIMIT))),
        "WIDE" => say(texts::WIDE),
        "QUOTE" => say(texts::QUOTE),
        "SLOW" => vec![Step::Say(echo(prompt)), slow(options.word_delay), Step::Done],
        "STALL" => {
            let tenths = number.unwrap_or(10).min(36_000);
            vec![Step::Wait(Duration::from_millis(tenths * 100)), Step::Say(echo(prompt)), Step::Done]
        }
        "TOOL" => tool(Step::Tool { command: "echo hello".into(), result: "hello".into() }, "hello"),
        "PERMIT" => tool(
            Step::Permit {
                command: "touch made-by-tool.txt && ls -l made-by-tool.txt".into(),
                result: "-rw-r--r-- 1 mock mock 0 Jan 1 00:00 made-by-tool.txt".into(),
            },
            "-rw-r--r-- 1 mock mock 0 Jan 1 00:00 made-by-tool.txt",
        ),
        "CR" => vec![
            Step::Say("I will run a command.".into()),
            Step::Progress { done: 0, total: 2000 },
            Step::Say("END-OF-CR".into()),
            Step::Done,
        ],
        "HUGELINE" => vec![
            Step::Say("One line:".into()),
            Step::HugeLine { bytes: 1_000_000 },
            Step::Say("END-OF-HUGELINE".into()),
            Step::Done,
        ],
        "BADUTF8" => vec![
            Step::Say("These bytes are no text:".into()),
            Step::BadUtf8,
            Step::Say("END-OF-BADUTF8".into()),
            Step::Done,
        ],
        "FLOOD" => {
            let bytes = number.unwrap_or(1).min(FLOOD_LIMIT) << 20;
            vec![
                Step::Say("Here it comes.".into()),
                Step::Flood { bytes: usize::try_from(bytes).unwrap_or(usize::MAX) },
                Step::Say("END-OF-FLOOD".into()),
                Step::Done,
            ]
        }
        "ERR" => vec![Step::ApiError(format!("{} scripted error", number.unwrap_or(400)))],
        "THINK" => {
            let mut steps = spinner(&["1s · thinking", "2s · ↓ 83 tokens · thinking"]);
            steps.extend([
                Step::Note("  Thought for 2s (ctrl+o to expand)"),
                Step::Say(echo(prompt)),
                Step::Done,
            ]);
            steps
        }
        "TOKENS" => {
            let mut steps = spinner(&[
                "1s · ↓ 40 tokens · thinking",
                "2s · ↓ 83 tokens · thinking",
                "3s · ↓ 1.2k tokens",
            ]);
            steps.extend(say(&echo(prompt)));
            steps
        }
        "CRASH" => vec![Step::Say("This answer does not end because".into()), Step::Crash(70)],
        "EXIT" => vec![Step::Say("Goodbye.".into()), Step::Done, Step::Leave],
        "HANG" => vec![Step::Hang],
        _ => return None,
    };
    Some(steps)
}

fn tool(step: Step, result: &str) -> Vec<Step> {
    let after = format!("The tool said: {result}\nEND-OF-TOOL");
    vec![Step::Say("I will run a command.".into()), step, Step::Say(after), Step::Done]
}

fn slow(every: Duration) -> Step {
    let sentence = "Slow words keep coming one after the other until the end.";
    let mut words: VecDeque<String> =
        std::iter::repeat_n(sentence, 6).flat_map(|s| s.split(' ')).map(String::from).collect();
    words.push_back("\nEND-OF-SLOW".into());
    Step::Words { words, every }
}

fn spinner(texts: &[&'static str]) -> Vec<Step> {
    texts.iter().flat_map(|text| [Step::Spinner(text), Step::Wait(Duration::from_millis(200))]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(prompt: &str) -> Vec<Step> {
        let mut steps = plan(prompt, &MockAgentOptions::default());
        assert_eq!(steps.pop_front(), Some(Step::Wait(Duration::from_millis(20))));
        steps.into()
    }

    #[test]
    fn a_prompt_without_a_known_word_is_echoed() {
        assert_eq!(steps("hello long"), [Step::Say("You said: hello long".into()), Step::Done]);
    }

    #[test]
    fn text_of_an_answer_has_no_tools() {
        let steps = plan("use a TOOL", &MockAgentOptions::default());
        assert_eq!(text(&steps), "I will run a command.\n\nThe tool said: hello\nEND-OF-TOOL");
    }

    #[test]
    fn the_first_known_word_decides() {
        assert_eq!(steps("please HANG, not LONG"), [Step::Hang]);
    }

    #[test]
    fn a_number_after_the_word_counts() {
        assert_eq!(steps("STALL 3")[0], Step::Wait(Duration::from_millis(300)));
        assert_eq!(steps("ERR 529"), [Step::ApiError("529 scripted error".into())]);
        assert_eq!(steps("FLOOD 2")[1], Step::Flood { bytes: 2 << 20 });
    }
}
