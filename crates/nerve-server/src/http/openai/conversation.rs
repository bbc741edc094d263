//! The messages of a request, and their comparison with the turns of a node.

use nerve_api::reply::{Section, TranscriptTurn};
use nerve_api::request::ConversationMessage;
use nerve_api::value::{Role, SectionKind};

use super::error::ApiError;
use super::sent_answers::SentAnswers;
use super::types::{ChatContent, ChatMessage, ChatRole};

/// Beginning of a line that shows a tool call in an answer.
pub(super) const TOOL_LINE: &str = "> tool: ";
/// Letters and digits that an answer may have in addition to those of the turn, and their share: the screen of an agent may have
/// shown a word that is not part of its answer.
const EXTRA_LETTERS: usize = 40;
const EXTRA_SHARE: usize = 5;

/// The conversation of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Conversation {
    /// Instructions; empty without any.
    pub(super) system: String,
    /// Earlier prompts and answers.
    pub(super) exchanges: Vec<Exchange>,
    /// The last message.
    pub(super) prompt: String,
}

/// An earlier prompt and its answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Exchange {
    prompt: String,
    /// `None` if the client has none.
    answer: Option<String>,
}

impl Conversation {
    /// Reads the messages.
    ///
    /// # Errors
    /// A message is not text, belongs to a tool of the client, or the last one is not the user's.
    pub(super) fn read(messages: Vec<ChatMessage>) -> Result<Conversation, ApiError> {
        let mut system: Vec<String> = Vec::new();
        let mut exchanges: Vec<Exchange> = Vec::new();
        let mut last = None;
        for (at, message) in messages.into_iter().enumerate() {
            let role = message.role;
            last = Some(role);
            let text = text_of(at, message)?;
            match role {
                ChatRole::System | ChatRole::Developer => system.push(text),
                ChatRole::User => exchanges.push(Exchange { prompt: text, answer: None }),
                ChatRole::Assistant => match exchanges.last_mut() {
                    Some(Exchange { answer: answer @ None, .. }) => *answer = Some(text),
                    _ => exchanges.push(Exchange { prompt: String::new(), answer: Some(text) }),
                },
                ChatRole::Tool | ChatRole::Function => {
                    return Err(ApiError::unsupported(
                        format!("messages[{at}]"),
                        "results of the client's tools are not supported: the agent uses its own tools",
                    ));
                }
            }
        }
        let prompt = exchanges.pop().filter(|_| last == Some(ChatRole::User));
        let Some(Exchange { prompt, .. }) = prompt else {
            return Err(ApiError::invalid("messages", "the last message is not the user's"));
        };
        if prompt.trim().is_empty() {
            return Err(ApiError::invalid("messages", "the last message is empty"));
        }
        Ok(Conversation { system: system.join("\n\n"), exchanges, prompt })
    }

    /// Returns the number of exchanges that are the first turns of a node. `sent`: answers that were streamed.
    pub(super) fn count_common(&self, turns: &[TranscriptTurn], sent: &SentAnswers) -> usize {
        let is_same = |(at, (exchange, turn)): (usize, (&Exchange, &TranscriptTurn))| {
            // Instructions precede the first prompt.
            let has_instructions = at == 0 && !self.system.is_empty();
            is_same_prompt(&exchange.prompt, &turn.prompt, has_instructions)
                && exchange.answer.as_ref().is_some_and(|answer| is_same_answer(answer, turn, sent))
        };
        self.exchanges.iter().zip(turns).enumerate().take_while(|pair| is_same(*pair)).count()
    }

    /// Returns the messages that precede the prompt for a node that knows the first `known` exchanges.
    pub(super) fn messages(&self, known: usize) -> Vec<ConversationMessage> {
        let message =
            |role, content: &str| ConversationMessage { role, content: content.into(), timestamp: 0 };
        let instructions = (known == 0 && !self.system.is_empty()).then(|| message(Role::User, &self.system));
        let exchanges = self.exchanges.iter().skip(known).flat_map(|exchange| {
            let prompt = (!exchange.prompt.is_empty()).then(|| message(Role::User, &exchange.prompt));
            let answer = exchange.answer.as_ref().map(|answer| message(Role::Assistant, answer));
            prompt.into_iter().chain(answer)
        });
        instructions.into_iter().chain(exchanges).collect()
    }
}

fn text_of(at: usize, message: ChatMessage) -> Result<String, ApiError> {
    let calls_tools =
        message.tool_calls.as_ref().and_then(|calls| calls.as_array()).is_some_and(|calls| !calls.is_empty());
    if calls_tools {
        let message = "calls of the client's tools are not supported: the agent uses its own tools";
        return Err(ApiError::unsupported(format!("messages[{at}].tool_calls"), message));
    }
    let parts = match message.content {
        None => return Ok(String::new()),
        Some(ChatContent::Text(text)) => return Ok(text),
        Some(ChatContent::Parts(parts)) => parts,
    };
    let mut texts = Vec::with_capacity(parts.len());
    for (part_at, part) in parts.into_iter().enumerate() {
        match (part.kind.as_str(), part.text) {
            ("text", Some(text)) => texts.push(text),
            _ => {
                let param = format!("messages[{at}].content[{part_at}]");
                return Err(ApiError::unsupported(
                    param,
                    "only text is supported, not images, audio or files",
                ));
            }
        }
    }
    Ok(texts.join("\n\n"))
}

/// Returns the letters and digits of a text: a screen wraps lines and shows no marks of Markdown.
pub(super) fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// Returns true if a message is the prompt of a turn. `may_follow`: the prompt of the turn may begin with another text.
fn is_same_prompt(message: &str, prompt: &str, may_follow: bool) -> bool {
    let (wanted, found) = (letters(message), letters(prompt));
    match wanted.is_empty() {
        true => message.trim() == prompt.trim(),
        false => wanted == found || (may_follow && found.ends_with(&wanted)),
    }
}

/// Returns the letters and digits of an answer's texts.
pub(super) fn answer_letters(sections: &[Section]) -> String {
    sections.iter().filter(|section| is_answer(section)).map(|section| letters(&section.content)).collect()
}

fn is_answer(section: &Section) -> bool {
    matches!(section.kind, SectionKind::Text | SectionKind::Error)
}

/// Returns true if a message is the answer of a turn: it was sent for the turn, or has the turn's texts in their order and hardly
/// anything else.
fn is_same_answer(message: &str, turn: &TranscriptTurn, sent: &SentAnswers) -> bool {
    let lines: Vec<&str> = message.lines().filter(|line| !line.starts_with(TOOL_LINE)).collect();
    let message = letters(&lines.join("\n"));
    if sent.contains(&message, &answer_letters(&turn.sections)) {
        return true;
    }
    let (mut rest, mut count) = (message.as_str(), 0);
    for section in turn.sections.iter().filter(|section| is_answer(section)) {
        let text = letters(&section.content);
        let Some(at) = rest.find(&text) else { return false };
        rest = &rest[at + text.len()..];
        count += text.len();
    }
    message.len() - count <= EXTRA_LETTERS.min(count) + count / EXTRA_SHARE
}

#[cfg(test)]
mod tests {
    use nerve_api::reply::Section;
    use serde_json::{Value, json};

    use super::*;

    fn read(messages: Value) -> Result<Conversation, String> {
        let messages = messages.as_array().unwrap().iter();
        let messages = messages.map(|message| serde_json::from_value(message.clone()).unwrap()).collect();
        Conversation::read(messages).map_err(|error| String::from_utf8(error.body()).unwrap())
    }

    fn message(role: &str, content: impl Into<Value>) -> Value {
        json!({ "role": role, "content": content.into() })
    }

    fn turn(prompt: &str, texts: &[&str]) -> TranscriptTurn {
        let sections = texts.iter().map(|text| Section::new(SectionKind::Text, *text)).collect();
        TranscriptTurn { prompt: prompt.into(), sections, ..TranscriptTurn::default() }
    }

    #[test]
    fn messages_become_exchanges_and_a_prompt() {
        let parts = json!([{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }]);
        let read = read(json!([
            message("system", "be brief"),
            message("developer", "in verse"),
            message("assistant", "Welcome"),
            message("user", parts),
            message("assistant", "c"),
            message("user", "lost"),
            message("user", "d"),
        ]));
        let exchange = |prompt: &str, answer: Option<&str>| Exchange {
            prompt: prompt.into(),
            answer: answer.map(str::to_string),
        };
        let exchanges =
            vec![exchange("", Some("Welcome")), exchange("a\n\nb", Some("c")), exchange("lost", None)];
        let read = read.unwrap();
        assert_eq!(
            read,
            Conversation { system: "be brief\n\nin verse".into(), exchanges, prompt: "d".into() }
        );
        let contents =
            |known| read.messages(known).into_iter().map(|message| message.content).collect::<Vec<_>>();
        assert_eq!(contents(0), ["be brief\n\nin verse", "Welcome", "a\n\nb", "c", "lost"]);
        assert_eq!(contents(2), ["lost"]);
    }

    #[test]
    fn messages_that_are_not_text_are_refused() {
        let image = json!([{ "type": "image_url", "image_url": { "url": "data:" } }]);
        let call = json!({ "role": "assistant", "content": null, "tool_calls": [{ "id": "a" }] });
        for (messages, word) in [
            (json!([]), "\"messages\""),
            (json!([message("user", "a"), message("assistant", "b")]), "\"messages\""),
            (json!([message("user", "a"), message("system", "b")]), "\"messages\""),
            (json!([message("user", " ")]), "\"messages\""),
            (json!([message("user", image)]), "messages[0].content[0]"),
            (json!([call, message("user", "a")]), "messages[0].tool_calls"),
            (json!([message("user", "a"), message("tool", "b"), message("user", "c")]), "messages[1]"),
        ] {
            let error = read(messages.clone()).unwrap_err();
            assert!(error.contains(word), "{messages}: {error}");
        }
    }

    #[test]
    fn equal_beginning_of_the_conversation_is_counted() {
        let conversation = read(json!([
            message("system", "be brief"),
            message("user", "one?"),
            message("assistant", "I will look.\n\nIt is **one**."),
            message("user", "two"),
            message("assistant", "2"),
            message("user", "three"),
        ]))
        .unwrap();
        let first = turn("be brief --- one?", &["I will look.", "It is one."]);
        let count = |turns: &[TranscriptTurn]| conversation.count_common(turns, &SentAnswers::default());
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&[first.clone(), turn("two", &["2"])]), 2);
        assert_eq!(count(&[first.clone(), turn("two", &["3"])]), 1);
        assert_eq!(count(&[first, turn("too", &["2"]), turn("two", &["2"])]), 1);
        assert_eq!(count(&[turn("one", &["no"])]), 0);
    }

    #[test]
    fn answer_may_differ_in_marks_and_tool_lines_but_not_in_words() {
        let sent = SentAnswers::default();
        let of = |texts: &[&str], message: &str| is_same_answer(message, &turn("", texts), &sent);
        assert!(of(
            &["See [docs](x)", "done"],
            "See [docs](x)\n\n> tool: Bash ls -la /some/long/path\n\ndone"
        ));
        assert!(of(&[], ""));
        assert!(!of(&[], "I said something"));
        assert!(!of(&["done"], "done, and much more that the node has never said"));
        assert!(!of(&["one", "two"], "two one"));
        // The screen does not show the language of the code.
        let written = ["Run this:", "```python\nprint(1)\n```"];
        let seen = "Run this:\n\n> tool: Bash ls\n\nprint(1)";
        assert!(!of(&written, seen));
        sent.add("Runthisprint1", &answer_letters(&turn("", &written).sections));
        assert!(of(&written, seen) && !of(&written, "Run this:\nprint(2)"));
    }
}
