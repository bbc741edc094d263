//! Which messages a running program knows already: those it was given, and those it said or was asked itself.
//!
//! It is noted with the messages, in the conversation's file: so it goes with them, outlives a server as far as the program does, and is as
//! bounded as they are.

use ring::digest::{SHA256, digest};

use super::message::Message;

/// Programs that are remembered for a message; of more, the last.
const REMEMBERED: usize = 8;

/// A running program, and the conversation of its own that it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listener {
    program: String,
    session: Option<String>,
}

impl Listener {
    /// `program` differs for each program that was started. `session`: the id of the agent's own conversation, as far as it is known.
    pub(crate) fn new(program: &str, session: Option<&str>) -> Listener {
        Listener { program: short(program), session: session.map(short) }
    }

    /// It was told this message, or said it, in the conversation of its own that it is in now. An id that was not known then or is
    /// not now tells nothing.
    pub(crate) fn knows(&self, message: &Message) -> bool {
        message.seen_by.iter().any(|seen| {
            let (program, session) = match seen.split_once(':') {
                Some((program, session)) => (program, Some(session)),
                None => (seen.as_str(), None),
            };
            let other = session.zip(self.session.as_deref()).is_some_and(|(then, now)| then != now);
            program == self.program && !other
        })
    }

    /// Notes that it knows the message.
    pub(crate) fn mark(&self, message: &mut Message) {
        message.seen_by.retain(|seen| seen.split(':').next() != Some(&self.program));
        let surplus = (message.seen_by.len() + 1).saturating_sub(REMEMBERED);
        message.seen_by.drain(..surplus);
        message.seen_by.push(match &self.session {
            Some(session) => format!("{}:{session}", self.program),
            None => self.program.clone(),
        });
    }
}

/// Ids differ in the first 48 bits of their digests.
fn short(id: &str) -> String {
    digest(&SHA256, id.as_bytes()).as_ref()[..6].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::Role;

    #[test]
    fn another_program_and_another_session_do_not_know_it() {
        let mut message = Message::new(Role::User, "x", 1);
        let (early, one) = (Listener::new("p", None), Listener::new("p", Some("s")));
        assert!(!one.knows(&message));
        early.mark(&mut message);
        assert!(one.knows(&message), "its session was not known then");
        one.mark(&mut message);
        assert!(early.knows(&message) && one.knows(&message));
        assert!(!Listener::new("p", Some("cleared")).knows(&message));
        assert!(!Listener::new("q", Some("s")).knows(&message));
        assert_eq!(message.seen_by.len(), 1);
        for other in 0..20 {
            Listener::new(&other.to_string(), None).mark(&mut message);
        }
        assert_eq!(message.seen_by.len(), REMEMBERED);
        assert!(!one.knows(&message), "it was long ago");
    }
}
