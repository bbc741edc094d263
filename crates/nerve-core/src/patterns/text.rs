//! What an agent is told, what it said, and whether it said the word.

use serde_json::Value;

/// What may stand around a phrase on its line: emphasis, and quotation marks.
const AROUND: [char; 13] = ['*', '_', '`', '~', '"', '\'', '“', '”', '„', '‘', '’', '«', '»'];
/// What may end it.
const ENDS: [char; 3] = ['.', '!', '…'];

/// Puts values in the place of their names in braces. Once: what a value holds is not looked at, and other braces stay.
pub(super) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        text.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        let found = values.iter().find_map(|(name, value)| {
            Some((behind.strip_prefix(name).and_then(|behind| behind.strip_prefix('}'))?, value))
        });
        match found {
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

/// What an agent said: its last section of text, else its text, else all that its terminal showed, else its output. A value that
/// has none of these is a text, or printed as JSON.
pub(super) fn message_of(value: &Value) -> String {
    let is_text = |section: &&Value| section.get("type").and_then(Value::as_str) == Some("text");
    let sections = value.get("sections").and_then(Value::as_array);
    let last = sections.and_then(|sections| said(sections.iter().rfind(is_text)?, "content"));
    let field = |name: &str| said(value, name);
    let found = last.or_else(|| field("text")).or_else(|| field("raw")).or_else(|| field("output"));
    match (found, value) {
        (Some(text), _) => text.to_string(),
        (None, Value::String(text)) => text.clone(),
        (None, Value::Null) => String::new(),
        // A response that holds no text said nothing.
        (None, Value::Object(fields))
            if ["text", "raw", "output"].iter().any(|name| fields.contains_key(*name)) =>
        {
            String::new()
        }
        (None, other) => other.to_string(),
    }
}

fn said<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str).filter(|text| !text.trim().is_empty())
}

/// Is one of the phrases said on a line of its own? Emphasis, quotation marks and a full stop may stand around it, words may not.
pub(super) fn says(message: &str, phrases: &[String]) -> bool {
    let around = |c: char| c.is_whitespace() || AROUND.contains(&c);
    let is_it = |line: &str, phrase: &str| {
        line.split_once(phrase).is_some_and(|(before, behind)| {
            before.chars().all(around) && behind.chars().all(|c| around(c) || ENDS.contains(&c))
        })
    };
    message.lines().any(|line| phrases.iter().any(|phrase| is_it(line, phrase.trim())))
}

/// What is wrong with phrases that are looked for.
pub(super) fn problem(phrases: &[String], what: &str) -> Option<String> {
    phrases.iter().find_map(|phrase| match phrase.trim() {
        "" => Some(format!("{what}: a phrase is blank")),
        text if text.lines().count() > 1 => {
            Some(format!("{what}: a phrase is on one line, this one is not: '{}'", text.escape_debug()))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn accepts(message: &str) -> bool {
        says(message, &["I ACCEPT TASK COMPLETION".to_string()])
    }

    #[test]
    fn a_phrase_on_a_line_of_its_own_is_said() {
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
    fn anything_else_around_it_is_something_else() {
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
    fn any_phrase_will_do_and_marks_in_it_are_its_own() {
        let phrases = ["LGTM".to_string(), "__done__".to_string()];
        assert!(says("LGTM!", &phrases) && says("**__done__**", &phrases));
        assert!(!says("done", &phrases) && !says("LGTM LGTM", &phrases));
    }

    #[test]
    fn phrases_that_cannot_be_said_are_refused() {
        assert_eq!(problem(&["ok".to_string()], "x"), None);
        assert!(problem(&[" ".to_string()], "x").is_some());
        assert!(problem(&["a\nb".to_string()], "x").is_some());
    }

    #[test]
    fn names_in_braces_are_filled_once_and_other_braces_stay() {
        let values = [("task", "write {dev_message}"), ("dev_message", "fn main() {}")];
        assert_eq!(
            fill("{task}: {dev_message} {unknown} {{task}} { task } {", &values),
            "write {dev_message}: fn main() {} {unknown} {write {dev_message}} { task } {"
        );
        assert_eq!(fill("", &values), "");
        assert_eq!(fill("é{task}é", &[("task", "ü")]), "éüé");
    }

    #[test]
    fn the_last_text_is_what_was_said() {
        let section = |kind: &str, content: &str| json!({"type": kind, "content": content});
        let sections = json!([
            section("text", "one"),
            section("tool_call", "x"),
            section("text", "two"),
            section("thinking", "y")
        ]);
        assert_eq!(message_of(&json!({"sections": sections, "text": "one\ntwo", "raw": "r"})), "two");
        assert_eq!(message_of(&json!({"sections": [], "text": "t", "raw": "r"})), "t");
        assert_eq!(message_of(&json!({"sections": [section("text", " ")], "text": "", "raw": "r"})), "r");
        assert_eq!(message_of(&json!({"text": "", "raw": "", "output": ""})), "");
        assert_eq!(message_of(&json!({"output": "o"})), "o");
        assert_eq!(message_of(&json!("plain")), "plain");
        assert_eq!(message_of(&json!(null)), "");
        assert_eq!(message_of(&json!({"a": 1})), r#"{"a":1}"#);
    }
}
