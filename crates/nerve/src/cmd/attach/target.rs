//! Which program is meant, as it is named on the command line.

/// A node of a server, or another program that can be attached to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AttachTarget {
    /// A node's name, or the beginning of the id of a recorded session or of a host.
    pub(crate) target: String,
    /// The server whose node it is.
    pub(crate) server: String,
    /// The server's session the node is in, if not its default session.
    pub(crate) session: Option<String>,
}

/// The server that is meant where none is named.
const DEFAULT: &str = "default";

impl AttachTarget {
    /// What shows it, to be typed.
    pub(crate) fn command(&self) -> String {
        let mut command = format!("nerve attach {}", self.target);
        if self.server != DEFAULT {
            command.push_str(&format!(" --server {}", self.server));
        }
        if let Some(session) = &self.session {
            command.push_str(&format!(" --session {session}"));
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_says_no_more_than_it_must() {
        let place = |server: &str, session: Option<&str>| AttachTarget {
            target: "me".into(),
            server: server.into(),
            session: session.map(str::to_string),
        };
        assert_eq!(place("default", None).command(), "nerve attach me");
        assert_eq!(place("night", Some("two")).command(), "nerve attach me --server night --session two");
    }
}
