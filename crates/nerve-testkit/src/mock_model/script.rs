//! Selects the answer to a prompt.

use std::time::Duration;

use super::answer::{Answer, Part, Reply, ToolCall, pieces};
use super::texts;

/// The rules of a mock model. Own rules come first; then words of the prompt decide, the first known one:
///
/// | word | answer |
/// |---|---|
/// | (none) | `You said: <prompt>` |
/// | `LONG`, `HUGE`, `WIDE`, `QUOTE` | markdown of every kind, 300 list lines, unusual widths, a terminal agent's marks |
/// | `SLOW` | five words each 100 ms |
/// | `STALL n` | nothing for n seconds |
/// | `THINK` | thinking first |
/// | `TOUCHTOOL`, `ESCTOOL` (outside Codex's sandbox), `SLOWTOOL n`, `READTOOL FILE=path`, `WRITETOOL FILE=path` | a tool use |
/// | `ERR n` | HTTP status n |
///
/// The result of a tool is answered with `The tool said: <result>` and `END-OF-TOOL`.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// Custom rules: a part of the last user text, and the answer. The first match wins.
    pub rules: Vec<(String, Answer)>,
    /// Answers to the first requests, in order and regardless of content; the rules apply afterwards.
    pub first: Vec<Answer>,
    /// Delay of the answer to a tool's result.
    pub after_tool: Duration,
}

/// A request, independent of any protocol.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Prompt {
    /// The last text of the user.
    pub(super) text: String,
    /// The result of a tool, if the request contains one.
    pub(super) tool_result: Option<String>,
    /// The names of the tools the agent offers.
    pub(super) tools: Vec<String>,
    /// A request by the agent itself, such as for a title.
    pub(super) is_side_request: bool,
    /// The JSON schema for the answer.
    pub(super) schema: Option<serde_json::Value>,
}

/// The answer to side requests without a JSON schema.
const SIDE_ANSWER: &str = "Scripted title";

impl Script {
    /// Adds a rule.
    #[must_use]
    pub fn rule(mut self, pattern: impl Into<String>, answer: Answer) -> Script {
        self.rules.push((pattern.into(), answer));
        self
    }

    /// Adds answers to the first requests.
    #[must_use]
    pub fn first(mut self, answers: impl IntoIterator<Item = Answer>) -> Script {
        self.first.extend(answers);
        self
    }

    pub(super) fn answer(&self, prompt: &Prompt) -> Answer {
        if let Some(schema) = &prompt.schema {
            return Answer::text(smallest(schema).to_string());
        }
        if prompt.is_side_request {
            return Answer::text(SIDE_ANSWER);
        }
        if let Some(result) = &prompt.tool_result {
            return Answer::late(self.after_tool, format!("The tool said: {result}\nEND-OF-TOOL"));
        }
        match self.rules.iter().find(|(pattern, _)| prompt.text.contains(pattern.as_str())) {
            Some((_, answer)) => answer.clone(),
            None => by_word(&prompt.text),
        }
    }
}

fn by_word(text: &str) -> Answer {
    let words: Vec<&str> = text.split_whitespace().collect();
    let answer = words.iter().enumerate().find_map(|(at, word)| {
        let number = words.get(at + 1).and_then(|next| next.parse().ok());
        known_word(word.trim_matches(|c: char| !c.is_alphanumeric()), number, text)
    });
    answer.unwrap_or_else(|| Answer::text(echo(text)))
}

fn echo(text: &str) -> String {
    format!("You said: {text}")
}

fn known_word(word: &str, number: Option<u32>, text: &str) -> Option<Answer> {
    let path = || {
        text.split_whitespace().find_map(|word| word.strip_prefix("FILE=")).unwrap_or("notes.txt").to_owned()
    };
    let run = |command: String, outside_sandbox| {
        Answer::tool("I will run a command.", ToolCall::Shell { command, outside_sandbox })
    };
    let answer = match word {
        "LONG" => Answer::text(texts::LONG),
        "HUGE" => Answer::text(texts::huge(300)),
        "WIDE" => Answer::text(texts::WIDE),
        "QUOTE" => Answer::text(texts::QUOTE),
        "SLOW" => slow(text),
        "STALL" => Answer::late(Duration::from_secs(number.unwrap_or(1).min(3600).into()), echo(text)),
        "THINK" => think(text),
        "TOUCHTOOL" => run("touch made-by-tool.txt && ls -la made-by-tool.txt".into(), false),
        "ESCTOOL" => run("touch made-by-tool.txt && ls -la made-by-tool.txt".into(), true),
        "SLOWTOOL" => run(format!("sleep {}; echo slept", number.unwrap_or(6).min(3600)), false),
        "READTOOL" => Answer::tool("I will read the file.", ToolCall::Read { path: path() }),
        "WRITETOOL" => {
            let content = "line one\nline two\nline three\n".into();
            Answer::tool("I will write the file.", ToolCall::Write { path: path(), content })
        }
        "ERR" => {
            let status = number.and_then(|n| u16::try_from(n).ok()).filter(|n| (400..600).contains(n));
            Answer::error(status.unwrap_or(500), "scripted error")
        }
        _ => return None,
    };
    Some(answer)
}

fn slow(text: &str) -> Answer {
    let sentences = "Slow words keep coming one after the other until the end. ".repeat(6);
    let words: Vec<&str> = sentences.split_inclusive(' ').collect();
    let mut deltas = vec![echo(text) + "\n\n"];
    deltas.extend(words.chunks(5).map(<[&str]>::concat));
    deltas.push("\nEND-OF-SLOW".into());
    Answer::slow(Duration::from_millis(100), deltas)
}

fn think(text: &str) -> Answer {
    let thought = Part::Thinking("The user wants me to think. I think, therefore I answer.".into());
    Answer::Reply(Reply { parts: vec![thought, Part::Text(pieces(&echo(text)))], ..Reply::default() })
}

/// Returns the simplest value that conforms to a JSON schema.
fn smallest(schema: &serde_json::Value) -> serde_json::Value {
    use serde_json::{Value, json};
    if let Some(first) = schema.get("enum").and_then(|values| values.get(0)) {
        return first.clone();
    }
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or("object").to_ascii_lowercase();
    match kind.as_str() {
        "string" => json!(SIDE_ANSWER),
        "boolean" => json!(false),
        "number" | "integer" => json!(schema.get("minimum").and_then(Value::as_i64).unwrap_or(0)),
        "array" => json!([]),
        _ => {
            let properties = schema.get("properties").and_then(Value::as_object);
            properties.into_iter().flatten().map(|(name, inner)| (name.clone(), smallest(inner))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(text: &str) -> Answer {
        Script::default().answer(&Prompt { text: text.into(), ..Prompt::default() })
    }

    #[test]
    fn prompt_words_select_answer() {
        assert_eq!(answer("hello"), Answer::text("You said: hello"));
        assert_eq!(answer("ERR 529 now"), Answer::error(529, "scripted error"));
        assert_eq!(
            answer("STALL 6 please"),
            Answer::late(Duration::from_secs(6), "You said: STALL 6 please")
        );
        let read = ToolCall::Read { path: "/tmp/x".into() };
        assert_eq!(answer("READTOOL FILE=/tmp/x"), Answer::tool("I will read the file.", read));
    }

    #[test]
    fn a_slow_answer_has_many_pieces_and_an_end() {
        let Answer::Reply(reply) = answer("SLOW") else { panic!("an error") };
        let [Part::Text(pieces)] = &reply.parts[..] else { panic!("not one text") };
        assert!(pieces.len() > 10);
        assert!(reply.text().ends_with("until the end. \nEND-OF-SLOW"));
        assert_eq!(reply.every, Duration::from_millis(100));
    }

    #[test]
    fn own_rules_come_before_words() {
        let script = Script::default().rule("LONG", Answer::text("short"));
        let prompt = Prompt { text: "a LONG one".into(), ..Prompt::default() };
        assert_eq!(script.answer(&prompt), Answer::text("short"));
    }

    #[test]
    fn a_tool_result_is_reported() {
        let prompt = Prompt { text: "ERR".into(), tool_result: Some("done".into()), ..Prompt::default() };
        assert_eq!(Script::default().answer(&prompt), Answer::text("The tool said: done\nEND-OF-TOOL"));
    }

    #[test]
    fn side_requests_are_harmless() {
        let mut prompt = Prompt { text: "ERR 500".into(), is_side_request: true, ..Prompt::default() };
        assert_eq!(Script::default().answer(&prompt), Answer::text("Scripted title"));
        prompt.schema = Some(json!({
            "type": "object",
            "properties": {"title": {"type": "string"}, "next": {"enum": ["user", "model"]}, "sure": {"type": "BOOLEAN"}}
        }));
        let expected = json!({"title": "Scripted title", "next": "user", "sure": false}).to_string();
        assert_eq!(Script::default().answer(&prompt), Answer::text(expected));
    }
}
