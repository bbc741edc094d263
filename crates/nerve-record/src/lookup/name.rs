//! A name as given by a user.

use nerve_types::name::check;

use super::LookupError;
use crate::store::check_id;

/// A parsed name: `ID`, `NODE`, `SESSION/NODE`, or a node with `@N` for its N-th newest recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// The name as given.
    pub(super) text: String,
    /// The session, if given.
    pub(super) session: Option<String>,
    /// The node, if the name can be one.
    pub(super) node: Option<String>,
    /// Position among the node's recordings, newest first, from 1.
    pub(super) position: usize,
    /// The name can be an id or the beginning of one.
    pub(super) is_id: bool,
}

impl Name {
    /// Parses a name.
    ///
    /// # Errors
    /// [`LookupError::Invalid`]: neither a node nor an id can have this name.
    pub fn parse(text: &str) -> Result<Name, LookupError> {
        let invalid = || LookupError::invalid(text);
        let (path, position) = match text.split_once('@') {
            Some((path, number)) => {
                (path, number.parse().ok().filter(|number| *number > 0).ok_or_else(invalid)?)
            }
            None => (text, 1),
        };
        let (session, node) = match path.split_once('/') {
            Some((session, node)) => (Some(session), node),
            None => (None, path),
        };
        let is_node = session.is_none_or(is_name) && is_name(node);
        let is_id = check_id(text).is_ok();
        if !is_node && !is_id {
            return Err(invalid());
        }
        Ok(Name {
            text: text.to_string(),
            session: session.map(str::to_string),
            node: is_node.then(|| node.to_string()),
            position,
            is_id,
        })
    }

    /// Limits the name to nodes of `session`, unless it names one itself.
    #[must_use]
    pub fn in_session(mut self, session: Option<&str>) -> Name {
        if let (None, Some(session)) = (&self.session, session) {
            self.session = Some(session.to_string());
            self.is_id = false;
        }
        self
    }

    /// Returns the node, if the name can be one.
    pub fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// Returns the session, if given.
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Returns true if the name selects an earlier recording of a node than the newest.
    pub fn is_earlier(&self) -> bool {
        self.position > 1
    }

    /// Returns the name with its session, for commands that have no option for the session.
    pub fn full_text(&self) -> String {
        match &self.session {
            Some(session) if !self.text.contains('/') => format!("{session}/{}", self.text),
            _ => self.text.clone(),
        }
    }

    /// Returns true if the name has the form of a UUID's beginning (RFC 9562 §4), at least its first hyphen. Then only
    /// the ids have to be read.
    pub(super) fn is_uuid_prefix(&self) -> bool {
        let is_uuid_byte = |(at, byte): (usize, u8)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        };
        (9..=36).contains(&self.text.len()) && self.text.bytes().enumerate().all(is_uuid_byte)
    }
}

/// Returns true if a node or session can have this name.
fn is_name(name: &str) -> bool {
    check("node", name).is_ok()
}
