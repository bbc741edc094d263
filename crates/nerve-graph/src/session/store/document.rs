//! The content of the sessions file. Sessions are kept as the JSON they were read from, so that unchanged ones are written back as
//! they were. This includes unknown fields of newer versions, and sessions that cannot be parsed.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::json::SessionJson;
use super::metadata::SessionMetadata;

/// The version of new files.
const VERSION: &str = "1.0";
/// The major version that can be written.
const MAJOR: u32 = 1;

/// The content of the sessions file.
#[derive(Debug, Clone)]
pub(super) struct Document {
    version: String,
    sessions: Vec<Value>,
    /// Fields other than version and sessions.
    rest: Map<String, Value>,
}

impl Default for Document {
    fn default() -> Document {
        Document { version: VERSION.to_string(), sessions: Vec::new(), rest: Map::new() }
    }
}

impl Document {
    /// Parses a file. Three layouts are known: `{"version": "1.0", "sessions": […]}`, the same without a version, and
    /// `{id: session, …}` of nerve's first version.
    ///
    /// # Errors
    /// Returns why the file matches none of them.
    pub(super) fn parse(bytes: &[u8]) -> Result<Document, String> {
        let root: Value =
            serde_json::from_slice(bytes).map_err(|error| format!("it is not JSON: {error}"))?;
        let Value::Object(mut root) = root else {
            return Err("it is not a JSON object".to_string());
        };
        let version = match root.get("version") {
            Some(Value::String(version)) => Some(version.clone()),
            Some(Value::Number(version)) => Some(version.to_string()),
            _ => None,
        };
        if version.is_none() && !root.get("sessions").is_some_and(Value::is_array) {
            if root.values().all(Value::is_object) {
                return Ok(Document { sessions: by_id(root), ..Document::default() });
            }
            return Err("it has neither a list of sessions nor sessions by their ids".to_string());
        }
        root.remove("version");
        let sessions = match root.remove("sessions") {
            Some(Value::Array(sessions)) => sessions,
            Some(Value::Object(sessions)) => by_id(sessions),
            None => Vec::new(),
            Some(_) => return Err("its sessions are not a list".to_string()),
        };
        Ok(Document { version: version.unwrap_or_else(|| VERSION.to_string()), sessions, rest: root })
    }

    /// Returns the version if it is too new to be written.
    pub(super) fn newer(&self) -> Option<&str> {
        let major = self.version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        major.is_none_or(|major| major > MAJOR).then_some(&self.version)
    }

    /// Returns the sessions by id, and the problems of those that cannot be parsed.
    pub(super) fn sessions(&self) -> (BTreeMap<String, SessionMetadata>, Vec<String>) {
        let mut sessions = BTreeMap::new();
        let mut problems = Vec::new();
        for (index, value) in self.sessions.iter().enumerate() {
            let read = serde_json::from_value::<SessionJson>(value.clone())
                .map_err(|error| error.to_string())
                .and_then(SessionMetadata::try_from);
            match read {
                Ok(session) => {
                    sessions.insert(session.id.clone(), session);
                }
                Err(why) => {
                    let name = session_id(value)
                        .map_or_else(|| format!("number {}", index + 1), |id| format!("{id:?}"));
                    problems.push(format!("session {name} cannot be read and is kept unchanged: {why}"));
                }
            }
        }
        (sessions, problems)
    }

    /// Adds a session or replaces the one with its id. Unknown fields of the replaced one are kept.
    pub(super) fn put(&mut self, session: &SessionMetadata) {
        let Ok(Value::Object(fields)) = serde_json::to_value(SessionJson::from(session)) else {
            // SessionStore::add rejects sessions whose paths are not UTF-8.
            return;
        };
        match self.sessions.iter().position(|known| session_id(known) == Some(&session.id)) {
            Some(index) => {
                let mut known = self.sessions.remove(index);
                if let Value::Object(known) = &mut known {
                    known.extend(fields);
                }
                self.remove(&session.id);
                self.sessions.insert(index, known);
            }
            None => self.sessions.push(Value::Object(fields)),
        }
    }

    pub(super) fn with_session(mut self, session: &SessionMetadata) -> Document {
        self.put(session);
        self
    }

    pub(super) fn remove(&mut self, id: &str) {
        self.sessions.retain(|known| session_id(known) != Some(id));
    }

    /// Serialises the file, indented for people.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut root = Map::from_iter([
            ("version".to_string(), json!(self.version)),
            ("sessions".to_string(), json!(self.sessions)),
        ]);
        root.extend(self.rest.clone());
        let mut bytes = serde_json::to_vec_pretty(&root)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Checks that the document can be read back after it was written.
    pub(super) fn check_round_trip(&self) -> Result<(), String> {
        let bytes = self.to_bytes().map_err(|error| error.to_string())?;
        let (_, problems) = Document::parse(&bytes)?.sessions();
        problems.into_iter().next().map_or(Ok(()), Err)
    }
}

/// Converts sessions keyed by id to a list. The sessions need not repeat their ids.
fn by_id(sessions: Map<String, Value>) -> Vec<Value> {
    let with_id = |(id, mut session): (String, Value)| {
        if let Value::Object(fields) = &mut session {
            fields.entry("id").or_insert(Value::String(id));
        }
        session
    };
    sessions.into_iter().map(with_id).collect()
}

fn session_id(session: &Value) -> Option<&str> {
    session.get("id")?.as_str()
}
