//! `SESSION/NODE`: a node together with its session.

use nerve_machine::address::split_machine;

use super::NodeCommand;
use crate::failure::{Failure, USAGE};

/// Splits `SESSION/NODE` into the node and its session. A name without `/` stays.
///
/// # Errors
/// A part is empty, or `session` is already another one.
pub fn split_node_path(node: &mut String, session: &mut Option<String>) -> Result<(), Failure> {
    let Some((in_session, name)) = node.split_once('/') else { return Ok(()) };
    if split_machine(node).is_some() {
        let failure = Failure::new(USAGE, format!("cannot use '{node}' here: it has a machine"));
        return Err(failure.hint("this works on one machine only: use NODE or SESSION/NODE"));
    }
    if in_session.is_empty() || name.is_empty() || name.contains('/') {
        let failure = Failure::new(USAGE, format!("'{node}' is no name of a node"));
        return Err(failure.hint("use NODE, SESSION/NODE or MACHINE/SESSION/NODE"));
    }
    if let Some(other) = session.as_deref().filter(|other| *other != in_session) {
        let failure = Failure::new(USAGE, format!("node '{node}' is not in session '{other}'"));
        return Err(failure.hint("name the session once: NODE --session NAME, or SESSION/NODE"));
    }
    *session = Some(in_session.to_string());
    *node = name.to_string();
    Ok(())
}

impl NodeCommand {
    /// Returns the name of the node that the command is about, or creates.
    pub fn node_mut(&mut self) -> Option<&mut String> {
        Some(match self {
            NodeCommand::List(_) | NodeCommand::Prune(_) => return None,
            NodeCommand::Create(args) => &mut args.name,
            NodeCommand::Budget(args) => return args.node.as_mut(),
            NodeCommand::Start(args) => &mut args.node,
            NodeCommand::Fork(args) => &mut args.node,
            NodeCommand::Info(args) | NodeCommand::Interrupt(args) | NodeCommand::Why(args) => &mut args.node,
            NodeCommand::Execute(args) | NodeCommand::Send(args) => &mut args.node,
            NodeCommand::Run(args) => &mut args.node,
            NodeCommand::Read(args) => &mut args.node,
            NodeCommand::Write(args) => &mut args.node,
            NodeCommand::Resize(args) => &mut args.node,
            NodeCommand::Show(args) => &mut args.node,
            NodeCommand::Wait(args) => &mut args.node,
            NodeCommand::Answer(args) => &mut args.node,
            NodeCommand::History(args) => &mut args.node,
            NodeCommand::Stop(args) | NodeCommand::Delete(args) | NodeCommand::Close(args) => &mut args.node,
            NodeCommand::Remove(args) => &mut args.node,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_is_split_from_node() {
        let split = |node: &str, session: Option<&str>| {
            let (mut node, mut session) = (node.to_string(), session.map(str::to_string));
            split_node_path(&mut node, &mut session).map(|()| (node, session)).map_err(|failure| failure.code)
        };
        assert_eq!(split("web", None), Ok(("web".to_string(), None)));
        let in_night = Ok(("web".to_string(), Some("night".to_string())));
        assert_eq!(split("night/web", None), in_night);
        assert_eq!(split("night/web", Some("night")), in_night);
        for (node, session) in [("night/web", Some("day")), ("/web", None), ("night/", None), ("a/b/c", None)]
        {
            assert_eq!(split(node, session), Err(USAGE), "{node}");
        }
    }
}
