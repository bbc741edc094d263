//! opencode's session export (`opencode export ID`, version 1.18): an object with `info` and `messages`, each message
//! with `info` and `parts`. It can be imported as another session if all its ids are replaced.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use nerve_types::TsNs;
use serde_json::Value;

use crate::parse::transcript::{CutError, PathRewriter, is_after};

/// Characters of an id that encode its kind and time and define the order of ids.
const TIME: usize = 16;

/// Properties of the new session.
#[derive(Debug, Clone, Copy)]
pub struct NewSession<'a> {
    /// Letters and digits unique to the new session; they become part of its ids.
    pub salt: &'a str,
    /// The session's working directory.
    pub cwd: &'a Path,
    /// Old and new folder, if files have moved.
    pub moved: Option<(&'a Path, &'a Path)>,
}

/// A session as it was at a moment, with new ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutSession {
    /// The export to import; without messages if there were none yet.
    pub text: String,
    /// The new session's id.
    pub id: String,
    /// Number of prompts in the cut.
    pub turns: u64,
    /// Number of prompts in the whole session.
    pub total_turns: u64,
}

/// Returns the export as it was at `at`, or all of it if `at` is `None`, with new ids. An answer that was incomplete by
/// then is left out, together with what followed. Paths below the old folder are rewritten, except in content signed by
/// a model.
///
/// # Errors
/// [`CutError::Unknown`].
pub fn cut_opencode(export: &str, at: Option<TsNs>, new: NewSession<'_>) -> Result<CutSession, CutError> {
    let mut whole: Value = serde_json::from_str(export).map_err(|_| CutError::Unknown)?;
    let id = whole["info"]["id"].as_str().ok_or(CutError::Unknown)?.to_string();
    let messages = whole["messages"].as_array().ok_or(CutError::Unknown)?;
    let total_turns = prompts(messages);
    let end = messages.iter().position(|message| is_after_cut(message, at)).unwrap_or(messages.len());
    let lines_to_keep = messages[..end].to_vec();
    let turns = prompts(&lines_to_keep);
    let mut ids = Ids { salt: new.salt, known: HashMap::new() };
    let id = ids.add(&id);
    for message in &lines_to_keep {
        let parts = message["parts"].as_array().into_iter().flatten();
        for old in parts.map(|part| &part["id"]).chain([&message["info"]["id"]]).filter_map(Value::as_str) {
            ids.add(old);
        }
    }
    let moved = new.moved.and_then(|(from, to)| PathRewriter::new(from, to));
    let rewritten = |value: &Value| {
        let mut value = value.clone();
        ids.rename(&mut value);
        match &moved {
            Some(moved) => serde_json::from_str(&moved.rewrite_text(&value.to_string())).unwrap_or(value),
            None => value,
        }
    };
    let messages: Vec<Value> = lines_to_keep
        .iter()
        .map(|message| {
            let parts = message["parts"].as_array().into_iter().flatten().map(&rewritten).collect();
            serde_json::json!({ "info": rewritten(&message["info"]), "parts": Value::Array(parts) })
        })
        .collect();
    let there: HashSet<&str> =
        lines_to_keep.iter().filter_map(|message| message["info"]["id"].as_str()).collect();
    if let Some(info) = whole["info"].as_object_mut() {
        // Shared links and reverted messages belong to the original session.
        info.remove("share");
        if !info
            .get("revert")
            .is_none_or(|revert| revert["messageID"].as_str().is_some_and(|id| there.contains(id)))
        {
            info.remove("revert");
        }
    }
    let mut info = rewritten(&whole["info"]);
    info["directory"] = Value::from(new.cwd.to_str().ok_or(CutError::Unknown)?);
    let text = serde_json::json!({ "info": info, "messages": messages }).to_string();
    Ok(CutSession { text, id, turns, total_turns })
}

fn prompts(messages: &[Value]) -> u64 {
    messages.iter().filter(|message| message["info"]["role"] == "user").count() as u64
}

/// Returns true if the message began after `at`, or is an answer that was not complete by then.
fn is_after_cut(message: &Value, at: Option<TsNs>) -> bool {
    let time = &message["info"]["time"];
    let is_after = |time: &Value| time.as_i64().is_some_and(|ms| is_after(ms, at));
    let is_agents = message["info"]["role"] == "assistant";
    is_after(&time["created"]) || (is_agents && (time["completed"].is_null() || is_after(&time["completed"])))
}

/// Maps old ids to new ones.
struct Ids<'a> {
    salt: &'a str,
    known: HashMap<String, String>,
}

impl Ids<'_> {
    /// Returns a new id of the same kind and time.
    fn add(&mut self, old: &str) -> String {
        let number = self.known.len();
        let beginning: String = old.chars().take(TIME).collect();
        let new = format!("{beginning}{}{}", self.salt, encode_letters(number));
        self.known.entry(old.to_string()).or_insert(new).clone()
    }

    /// Replaces all strings that are old ids.
    fn rename(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(new) = self.known.get(text.as_str()) {
                    text.clone_from(new);
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.rename(value)),
            Value::Object(fields) => fields.values_mut().for_each(|value| self.rename(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Encodes a number as at least four letters that sort like the numbers.
fn encode_letters(mut number: usize) -> String {
    let mut letters = Vec::new();
    while number > 0 || letters.len() < 4 {
        letters.push(char::from(b'a' + u8::try_from(number % 26).unwrap_or(0)));
        number /= 26;
    }
    letters.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn export() -> String {
        let message = |n: u64, role: &str, created: u64, completed: Option<u64>, text: &str| {
            let id = format!("msg_20568e38f0{n:02}jBP69mipKs1PlY");
            let session = "ses_dfa971cc6ffe9JYeNidr2l0jpl";
            json!({
                "info": { "id": id, "sessionID": session, "role": role, "path": { "cwd": "/a/b" },
                    "time": { "created": created, "completed": completed } },
                "parts": [
                    { "id": format!("prt_20568e38f0{n:02}jBP69mipKs1PlY"), "messageID": id, "text": text },
                    { "id": format!("prt_20568e38f1{n:02}jBP69mipKs1PlY"), "text": "/a/b", "metadata": { "signature": "x" } },
                ],
            })
        };
        json!({
            "info": { "id": "ses_dfa971cc6ffe9JYeNidr2l0jpl", "directory": "/a/b", "share": { "url": "u" },
                "revert": { "messageID": "msg_20568e38f003jBP69mipKs1PlY" } },
            "messages": [
                message(1, "user", 1000, None, "alpha in /a/b"),
                message(2, "assistant", 1001, Some(1500), "said"),
                message(3, "user", 2000, None, "beta"),
                message(4, "assistant", 2001, Some(2500), "said"),
            ],
        })
        .to_string()
    }

    fn cut(ms: Option<u64>) -> (CutSession, Value) {
        let (from, to) = (Path::new("/a/b"), Path::new("/n"));
        let new = NewSession { salt: "saltsaltsa", cwd: to, moved: Some((from, to)) };
        let cut = cut_opencode(&export(), ms.map(|ms| TsNs(ms * 1_000_000)), new).unwrap();
        let value = serde_json::from_str(&cut.text).unwrap();
        (cut, value)
    }

    #[test]
    fn cut_contains_only_complete_messages() {
        let turns = |ms| {
            let (cut, value) = cut(ms);
            (cut.turns, cut.total_turns, value["messages"].as_array().unwrap().len())
        };
        assert_eq!(turns(None), (2, 2, 4));
        assert_eq!(turns(Some(1700)), (1, 2, 2));
        assert_eq!(turns(Some(1400)), (1, 2, 1), "the answer was incomplete");
        assert_eq!(turns(Some(900)), (0, 2, 0));
    }

    #[test]
    fn all_ids_are_new_and_keep_their_order() {
        let (cut, value) = cut(Some(1700));
        let text = value.to_string();
        assert!(!text.contains("jBP69mipKs1PlY") && !text.contains("9JYeNidr2l0jpl"), "{text}");
        assert_eq!(value["info"]["id"], cut.id);
        let (first, second) = (&value["messages"][0], &value["messages"][1]);
        assert_eq!(first["parts"][0]["messageID"], first["info"]["id"]);
        assert_eq!(first["info"]["sessionID"], cut.id);
        assert!(first["info"]["id"].as_str() < second["info"]["id"].as_str());
        assert_eq!(cut.id.len(), "ses_dfa971cc6ffe9JYeNidr2l0jpl".len());
        assert!(value["info"]["share"].is_null() && value["info"]["revert"].is_null(), "{text}");
    }

    #[test]
    fn paths_are_rewritten_except_in_signed_parts() {
        let (_, value) = cut(None);
        assert_eq!(value["info"]["directory"], "/n");
        let first = &value["messages"][0];
        assert_eq!(
            (&first["info"]["path"]["cwd"], &first["parts"][0]["text"]),
            (&json!("/n"), &json!("alpha in /n"))
        );
        assert_eq!(first["parts"][1]["text"], "/a/b");
        assert!(!value["info"]["revert"].is_null(), "the named message exists");
    }

    #[test]
    fn invalid_export_is_an_error() {
        let new = NewSession { salt: "s", cwd: Path::new("/n"), moved: None };
        for text in ["", "[]", r#"{"info":{}}"#, r#"{"info":{"id":"ses_1"}}"#] {
            assert_eq!(cut_opencode(text, None, new), Err(CutError::Unknown), "{text}");
        }
    }
}
