//! Prompt templates, messages in responses, and phrases in messages.

use serde_json::Value;

/// Emphasis and quotation marks that may surround a phrase on its line.
const MARKS: [char; 13] = ['*', '_', '`', '~', '"', '\'', '“', '”', '„', '‘', '’', '«', '»'];
/// Punctuation that may follow a phrase.
const PUNCTUATION: [char; 3] = ['.', '!', '…'];

/// Replaces `{name}` by the value of that name. Values are not expanded again, and other braces are kept.
pub(crate) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        text.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        let expansion = values.iter().find_map(|(name, value)| {
            Some((behind.strip_prefix(name).and_then(|behind| behind.strip_prefix('}'))?, value))
        });
        match expansion {
            Some((behind, value)) => {
                text.push_str(value);
                rest = behind;
            }
            None => {
                text.push('{');
                rest = behind;
            }
        }
    }
    text.push_str(rest);
    text
}

/// Returns the message in a response: its last text section, or else its text, its raw output, or its output. Other values are
/// formatted as JSON, except strings.
pub(crate) fn message_text(value: &Value) -> String {
    let is_text = |section: &&Value| section.get("type").and_then(Value::as_str) == Some("text");
    let sections = value.get("sections").and_then(Value::as_array);
    let last = sections.and_then(|sections| non_blank(sections.iter().rfind(is_text)?, "content"));
    let field = |name: &str| non_blank(value, name);
    let message = last.or_else(|| field("text")).or_else(|| field("raw")).or_else(|| field("output"));
    match (message, value) {
        (Some(text), _) => text.to_string(),
        (None, Value::String(text)) => text.clone(),
        (None, Value::Null) => String::new(),
        // A response whose text fields are all blank.
        (None, Value::Object(fields))
            if ["text", "raw", "output"].iter().any(|name| fields.contains_key(*name)) =>
        {
            String::new()
        }
        (None, other) => other.to_string(),
    }
}

fn non_blank<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str).filter(|text| !text.trim().is_empty())
}

/// Returns true if a line consists of one of the phrases, possibly with emphasis, quotation marks and final punctuation.
pub(crate) fn contains_phrase(message: &str, phrases: &[String]) -> bool {
    let around = |c: char| c.is_whitespace() || MARKS.contains(&c);
    let matches = |line: &str, phrase: &str| {
        line.split_once(phrase).is_some_and(|(before, behind)| {
            before.chars().all(around) && behind.chars().all(|c| around(c) || PUNCTUATION.contains(&c))
        })
    };
    message.lines().any(|line| phrases.iter().any(|phrase| matches(line, phrase.trim())))
}

/// Returns the problem of an invalid phrase, if any.
pub(crate) fn phrase_problem(phrases: &[String], what: &str) -> Option<String> {
    phrases.iter().find_map(|phrase| match phrase.trim() {
        "" => Some(format!("{what}: a phrase must not be blank")),
        text if text.lines().count() > 1 => {
            Some(format!("{what}: a phrase must be a single line: '{}'", text.escape_debug()))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn accepts(message: &str) -> bool {
        contains_phrase(message, &["I ACCEPT TASK COMPLETION".to_string()])
    }

    #[test]
    fn phrase_on_its_own_line_is_found() {
        for message in [
            "I ACCEPT TASK COMPLETION",
            "Well done.\n\n  I ACCEPT TASK COMPLETION  \nThanks",
            "**I ACCEPT TASK COMPLETION**.",
            "**I ACCEPT TASK COMPLETION.**",
            "_I ACCEPT TASK COMPLETION_",
            "`I ACCEPT TASK COMPLETION`!",
            "“I ACCEPT TASK COMPLETION”\r\n",
        ] {
            assert!(accepts(message), "{message:?}");
        }
    }

    #[test]
    fn phrase_with_other_words_is_not_found() {
        for message in [
            "",
            "I DO NOT ACCEPT TASK COMPLETION",
            "I do not accept: I ACCEPT TASK COMPLETION comes later",
            "When it is done I will say \"I ACCEPT TASK COMPLETION\".",
            "I ACCEPT TASK COMPLETION, but not yet",
            "I ACCEPT TASK COMPLETION?",
            "i accept task completion",
            "NOT I ACCEPT TASK COMPLETION",
            "I ACCEPT TASK\nCOMPLETION",
            "> I ACCEPT TASK COMPLETION",
        ] {
            assert!(!accepts(message), "{message:?}");
        }
    }

    #[test]
    fn any_phrase_matches_and_keeps_its_own_marks() {
        let phrases = ["LGTM".to_string(), "__done__".to_string()];
        assert!(contains_phrase("LGTM!", &phrases) && contains_phrase("**__done__**", &phrases));
        assert!(!contains_phrase("done", &phrases) && !contains_phrase("LGTM LGTM", &phrases));
    }

    #[test]
    fn blank_and_multiline_phrases_are_rejected() {
        assert_eq!(phrase_problem(&["ok".to_string()], "x"), None);
        assert!(phrase_problem(&[" ".to_string()], "x").is_some());
        assert!(phrase_problem(&["a\nb".to_string()], "x").is_some());
    }

    #[test]
    fn template_values_are_not_expanded_again() {
        let values = [("task", "write {dev_message}"), ("dev_message", "fn main() {}")];
        assert_eq!(
            fill("{task}: {dev_message} {unknown} {{task}} { task } {", &values),
            "write {dev_message}: fn main() {} {unknown} {write {dev_message}} { task } {"
        );
        assert_eq!(fill("", &values), "");
        assert_eq!(fill("é{task}é", &[("task", "ü")]), "éüé");
    }

    #[test]
    fn message_is_the_last_text() {
        let section = |kind: &str, content: &str| json!({"type": kind, "content": content});
        let sections = json!([
            section("text", "one"),
            section("tool_call", "x"),
            section("text", "two"),
            section("thinking", "y")
        ]);
        assert_eq!(message_text(&json!({"sections": sections, "text": "one\ntwo", "raw": "r"})), "two");
        assert_eq!(message_text(&json!({"sections": [], "text": "t", "raw": "r"})), "t");
        assert_eq!(message_text(&json!({"sections": [section("text", " ")], "text": "", "raw": "r"})), "r");
        assert_eq!(message_text(&json!({"text": "", "raw": "", "output": ""})), "");
        assert_eq!(message_text(&json!({"output": "o"})), "o");
        assert_eq!(message_text(&json!("plain")), "plain");
        assert_eq!(message_text(&json!(null)), "");
        assert_eq!(message_text(&json!({"a": 1})), r#"{"a":1}"#);
    }
}
