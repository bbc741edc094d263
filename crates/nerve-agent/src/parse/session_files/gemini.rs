//! Gemini CLI's session file (`~/.gemini/tmp/<project>/chats/session-*.jsonl`, version 0.61): a head line followed by
//! appended lines. An earlier state of the session is therefore a prefix of the file.

use std::path::Path;

use nerve_types::TsNs;
use serde_json::Value;

use crate::parse::transcript::{CutError, PathRewriter, TranscriptCut, is_after};

/// Marks the context that Gemini CLI inserts before the first prompt.
const CONTEXT: &str = "<session_context>";

/// Returns the file as it was at `at`, or all of it if `at` is `None`. `moved` (from, to) rewrites paths if the work
/// continues in another folder. A truncated last line is still being written and is left out.
///
/// # Errors
/// [`CutError::Malformed`], [`CutError::Unknown`].
pub fn cut_gemini(
    text: &str,
    at: Option<TsNs>,
    moved: Option<(&Path, &Path)>,
) -> Result<TranscriptCut, CutError> {
    let moved = moved.and_then(|(from, to)| PathRewriter::new(from, to));
    let mut cut = TranscriptCut { text: String::new(), turns: 0, total_turns: 0 };
    let mut prompts = Prompts::default();
    let mut is_past_cut = false;
    let mut rows = text.lines().enumerate().filter(|(_, row)| !row.trim().is_empty()).peekable();
    let mut is_head = true;
    while let Some((index, row)) = rows.next() {
        let line = match serde_json::from_str::<Value>(row) {
            Ok(line) if line.is_object() => line,
            Err(_) if rows.peek().is_none() && !text.ends_with('\n') => break,
            _ => return Err(CutError::Malformed { line: index + 1 }),
        };
        if is_head && !line["sessionId"].is_string() {
            return Err(CutError::Unknown);
        }
        is_head = false;
        if !is_past_cut && entry_time(&line).is_some_and(|ms| is_after(ms, at)) {
            is_past_cut = true;
            cut.turns = prompts.count();
        }
        prompts.line(&line);
        if !is_past_cut {
            cut.text
                .push_str(&moved.as_ref().map_or_else(|| row.to_string(), |moved| moved.rewrite_line(row)));
            cut.text.push('\n');
        }
    }
    if is_head {
        return Err(CutError::Unknown);
    }
    cut.total_turns = prompts.count();
    if !is_past_cut {
        cut.turns = cut.total_turns;
    }
    Ok(cut)
}

/// Returns when a line was written, in milliseconds since the Unix epoch.
fn entry_time(line: &Value) -> Option<i64> {
    let time = [&line["timestamp"], &line["$set"]["lastUpdated"], &line["startTime"]];
    let time = time.into_iter().find_map(Value::as_str)?;
    time.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

/// Message ids so far, in order, and whether each message is a prompt.
#[derive(Default)]
struct Prompts {
    messages: Vec<(String, bool)>,
}

impl Prompts {
    fn line(&mut self, line: &Value) {
        if let Some(messages) = line["$set"]["messages"].as_array() {
            // Replaces all earlier messages.
            self.messages.clear();
            messages.iter().for_each(|message| self.message(message));
        } else if let Some(id) = line["$rewindTo"].as_str() {
            let at = self.messages.iter().position(|(known, _)| known == id);
            self.messages.truncate(at.unwrap_or(self.messages.len()));
        } else {
            self.message(line);
        }
    }

    fn message(&mut self, message: &Value) {
        let Some(id) = message["id"].as_str() else { return };
        // A message that grew is written again.
        if !self.messages.iter().any(|(known, _)| known == id) {
            self.messages.push((id.to_string(), is_prompt(message)));
        }
    }

    fn count(&self) -> u64 {
        self.messages.iter().filter(|(_, is_prompt)| *is_prompt).count() as u64
    }
}

/// Returns true for a user's prompt; false for tool results and inserted context.
fn is_prompt(message: &Value) -> bool {
    let is_user_text = |text: &Value| text.as_str().is_some_and(|text| !text.starts_with(CONTEXT));
    let content = &message["content"];
    let texts = || content.as_array().into_iter().flatten().any(|part| is_user_text(&part["text"]));
    message["type"] == "user" && (is_user_text(content) || texts())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAT: &str = concat!(
        r#"{"sessionId":"s","projectHash":"h","startTime":"2026-11-22T22:38:00.910Z","lastUpdated":"2026-11-22T22:38:00.910Z","kind":"main"}"#,
        "\n",
        r#"{"$set":{"messages":[{"id":"c","timestamp":"2026-11-22T22:38:00.911Z","type":"user","content":[{"text":"<session_context>\n /a/b\n"}]}],"lastUpdated":"2026-11-22T22:38:00.911Z"}}"#,
        "\n",
        r#"{"id":"1","timestamp":"2026-11-22T22:38:03.015Z","type":"user","content":[{"text":"alpha"}]}"#,
        "\n",
        r#"{"id":"2","timestamp":"2026-11-22T22:38:03.312Z","type":"gemini","content":"in /a/b/file","model":"m"}"#,
        "\n",
        r#"{"id":"3","timestamp":"2026-11-22T22:38:04.000Z","type":"user","content":[{"functionResponse":{"id":"x"}}]}"#,
        "\n",
        r#"{"id":"4","timestamp":"2026-11-22T22:38:55.469Z","type":"user","content":[{"text":"beta"}]}"#,
        "\n",
        r#"{"$set":{"lastUpdated":"2026-11-22T22:38:55.469Z"}}"#,
        "\n",
    );

    fn at(time: &str) -> Option<TsNs> {
        let time: jiff::Timestamp = time.parse().unwrap();
        Some(TsNs(u64::try_from(time.as_nanosecond()).unwrap()))
    }

    #[test]
    fn cut_is_a_prefix_of_the_file() {
        let cut = cut_gemini(CHAT, at("2026-11-22T22:38:10Z"), None).unwrap();
        assert_eq!((cut.turns, cut.total_turns), (1, 2));
        assert!(CHAT.starts_with(&cut.text) && cut.text.lines().count() == 5, "{}", cut.text);
        let early = cut_gemini(CHAT, at("2026-11-22T22:38:01Z"), None).unwrap();
        assert_eq!((early.turns, early.total_turns), (0, 2), "inserted context is not a prompt");
        let whole = cut_gemini(CHAT, None, None).unwrap();
        assert_eq!((whole.text.as_str(), whole.turns, whole.total_turns), (CHAT, 2, 2));
    }

    #[test]
    fn paths_are_rewritten() {
        let moved = Some((Path::new("/a/b"), Path::new("/n")));
        let cut = cut_gemini(CHAT, None, moved).unwrap();
        assert!(cut.text.contains("in /n/file") && !cut.text.contains("/a/b"), "{}", cut.text);
    }

    #[test]
    fn rewound_prompts_do_not_count() {
        let rewound = format!("{CHAT}{}\n", r#"{"$rewindTo":"4"}"#);
        assert_eq!(cut_gemini(&rewound, None, None).unwrap().total_turns, 1);
    }

    #[test]
    fn malformed_line_is_an_error_unless_incomplete() {
        assert_eq!(cut_gemini("", None, None), Err(CutError::Unknown));
        assert_eq!(cut_gemini("{}\n", None, None), Err(CutError::Unknown));
        let broken = CHAT.replace(r#"{"id":"2""#, "id");
        assert_eq!(cut_gemini(&broken, None, None), Err(CutError::Malformed { line: 4 }));
        let cut = cut_gemini(&format!("{CHAT}{{\"id\":"), None, None).unwrap();
        assert_eq!(cut.text, CHAT);
    }
}
