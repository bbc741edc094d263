//! Tracks which messages a running program has seen: those it was given, wrote, or was prompted with.
//!
//! The marks are stored with the messages in the conversation's file. So they share its size limit, and survive the server.

use nerve_types::text::hex;
use ring::digest::{SHA256, digest};

use super::message::Message;

/// Maximum number of programs remembered per message; the latest are kept.
const MAX_PROGRAMS: usize = 8;

/// A running program and its current session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProgramSession {
    program: String,
    session: Option<String>,
}

impl ProgramSession {
    /// `program` identifies one start of a program. `session`: the id of the agent's own conversation, if known.
    pub(crate) fn new(program: &str, session: Option<&str>) -> ProgramSession {
        ProgramSession { program: short(program), session: session.map(short) }
    }

    /// Returns true if the program has seen the message in its current session. A session id that is unknown on either side
    /// counts as equal.
    pub(crate) fn has_seen(&self, message: &Message) -> bool {
        message.seen_by.iter().any(|seen| {
            let (program, session) = match seen.split_once(':') {
                Some((program, session)) => (program, Some(session)),
                None => (seen.as_str(), None),
            };
            let other = session.zip(self.session.as_deref()).is_some_and(|(then, now)| then != now);
            program == self.program && !other
        })
    }

    /// Marks the message as seen.
    pub(crate) fn mark_seen(&self, message: &mut Message) {
        message.seen_by.retain(|seen| seen.split(':').next() != Some(&self.program));
        let surplus = (message.seen_by.len() + 1).saturating_sub(MAX_PROGRAMS);
        message.seen_by.drain(..surplus);
        message.seen_by.push(match &self.session {
            Some(session) => format!("{}:{session}", self.program),
            None => self.program.clone(),
        });
    }
}

/// Shortens an id to the first 48 bits of its digest.
fn short(id: &str) -> String {
    hex(&digest(&SHA256, id.as_bytes()).as_ref()[..6])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::Role;

    #[test]
    fn other_program_or_session_has_not_seen_message() {
        let mut message = Message::new(Role::User, "x", 1);
        let (early, one) = (ProgramSession::new("p", None), ProgramSession::new("p", Some("s")));
        assert!(!one.has_seen(&message));
        early.mark_seen(&mut message);
        assert!(one.has_seen(&message), "the session was unknown then");
        one.mark_seen(&mut message);
        assert!(early.has_seen(&message) && one.has_seen(&message));
        assert!(!ProgramSession::new("p", Some("cleared")).has_seen(&message));
        assert!(!ProgramSession::new("q", Some("s")).has_seen(&message));
        assert_eq!(message.seen_by.len(), 1);
        for other in 0..20 {
            ProgramSession::new(&other.to_string(), None).mark_seen(&mut message);
        }
        assert_eq!(message.seen_by.len(), MAX_PROGRAMS);
        assert!(!one.has_seen(&message), "its mark was dropped");
    }
}
