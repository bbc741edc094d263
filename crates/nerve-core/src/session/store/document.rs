//! The file's content. Sessions are kept as the JSON they came as, so that what was not changed here is written back as it was, with
//! fields of a newer nerve and with what cannot be understood.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::json::SessionShape;
use super::metadata::SessionMetadata;

/// The version of files that this nerve begins.
const VERSION: &str = "1.0";
/// The major version it writes.
const MAJOR: u32 = 1;

/// The file's content.
#[derive(Debug, Clone)]
pub(super) struct Document {
    version: String,
    sessions: Vec<Value>,
    /// Fields beside version and sessions.
    rest: Map<String, Value>,
}

impl Default for Document {
    fn default() -> Document {
        Document { version: VERSION.to_string(), sessions: Vec::new(), rest: Map::new() }
    }
}

impl Document {
    /// Reads a file's content. Three layouts are known: `{"version": "1.0", "sessions": […]}`, the same without a version, and the
    /// first nerve's `{id: session, …}`.
    ///
    /// # Errors
    /// It is none of them: says why.
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

    /// The version, if it is not one this nerve writes.
    pub(super) fn newer(&self) -> Option<&str> {
        let major = self.version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        major.is_none_or(|major| major > MAJOR).then_some(&self.version)
    }

    /// The sessions by their ids, and what is wrong with those that cannot be understood.
    pub(super) fn sessions(&self) -> (BTreeMap<String, SessionMetadata>, Vec<String>) {
        let mut sessions = BTreeMap::new();
        let mut problems = Vec::new();
        for (index, value) in self.sessions.iter().enumerate() {
            let read = serde_json::from_value::<SessionShape>(value.clone())
                .map_err(|error| error.to_string())
                .and_then(SessionMetadata::try_from);
            match read {
                Ok(session) => {
                    sessions.insert(session.id.clone(), session);
                }
                Err(why) => {
                    let name =
                        id_of(value).map_or_else(|| format!("number {}", index + 1), |id| format!("{id:?}"));
                    problems
                        .push(format!("session {name} cannot be understood and stays there unused: {why}"));
                }
            }
        }
        (sessions, problems)
    }

    /// Adds a session or takes the place of the one with its id; fields of that one which this nerve does not know stay.
    pub(super) fn put(&mut self, session: &SessionMetadata) {
        let Ok(Value::Object(fields)) = serde_json::to_value(SessionShape::from(session)) else {
            // A session with a path that is no text was never added.
            return;
        };
        match self.sessions.iter().position(|known| id_of(known) == Some(&session.id)) {
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

    pub(super) fn with(mut self, session: &SessionMetadata) -> Document {
        self.put(session);
        self
    }

    pub(super) fn remove(&mut self, id: &str) {
        self.sessions.retain(|known| id_of(known) != Some(id));
    }

    /// The file's content. Indented: people look into it.
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

    /// Can this be read when it is written?
    pub(super) fn reread(&self) -> Result<(), String> {
        let bytes = self.to_bytes().map_err(|error| error.to_string())?;
        let (_, problems) = Document::parse(&bytes)?.sessions();
        problems.into_iter().next().map_or(Ok(()), Err)
    }
}

/// Sessions under their ids, which they need not repeat.
fn by_id(sessions: Map<String, Value>) -> Vec<Value> {
    let with_id = |(id, mut session): (String, Value)| {
        if let Value::Object(fields) = &mut session {
            fields.entry("id").or_insert(Value::String(id));
        }
        session
    };
    sessions.into_iter().map(with_id).collect()
}

fn id_of(session: &Value) -> Option<&str> {
    session.get("id")?.as_str()
}
