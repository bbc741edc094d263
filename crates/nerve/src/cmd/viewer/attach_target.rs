//! The target of `nerve attach`.

use nerve_types::name::DEFAULT_SERVER;

/// A node of a server, or another program that can be attached to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AttachTarget {
    /// Node name, or prefix of a session id or host id.
    pub(crate) target: String,
    /// Server of the node.
    pub(crate) server: String,
    /// Session of the node, if not the default session.
    pub(crate) session: Option<String>,
}

impl AttachTarget {
    /// Returns the command that attaches to the target.
    pub(crate) fn command(&self) -> String {
        self.command_of("attach")
    }

    /// Returns the command line `nerve NAME` for the target.
    pub(crate) fn command_of(&self, name: &str) -> String {
        let mut command = format!("nerve {name} {}", self.target);
        if self.server != DEFAULT_SERVER {
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
    fn command_omits_defaults() {
        let place = |server: &str, session: Option<&str>| AttachTarget {
            target: "me".into(),
            server: server.into(),
            session: session.map(str::to_string),
        };
        assert_eq!(place("default", None).command(), "nerve attach me");
        assert_eq!(place("night", Some("two")).command(), "nerve attach me --server night --session two");
    }
}
