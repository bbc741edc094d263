//! Identifies the conversation of a node's agent, which another node can continue.
//!
//! The meaning of a command's arguments is data of the profile ([`nerve_agent::profile::session`]). `nerve_transcript` knows where
//! agents store their conversations. The engine implements the command FORK_NODE.

use nerve_agent::profile::Profile;
use nerve_agent::profile::session::{ConversationRef, IdKind, SessionArgs};
use nerve_api::request::CommandLine;
use nerve_transcript::session_files::new_id;

use crate::error::EngineError;

/// Determines the id of the conversation that a command begins or continues: `requested`, else the id in the command. Without
/// either, agents that accept ids get a new one. Adds the id to the command if it is missing.
///
/// # Errors
/// InvalidRequest: `requested` is invalid, or cannot be used with this command.
pub(crate) fn identify(
    profile: &Profile,
    argv: &mut Vec<String>,
    requested: Option<String>,
) -> Result<Option<String>, EngineError> {
    let Some(session_args) = &profile.session else {
        return match requested {
            None => Ok(None),
            Some(_) => {
                Err(EngineError::invalid_request(format!("a '{}' node has no conversation id", profile.name))
                    .hint("leave conversation_id out: only agents have one"))
            }
        };
    };
    let reference = session_args.conversation(argv);
    let Some(id) = requested else {
        return Ok(match reference {
            ConversationRef::Id(id) => Some(id).filter(|id| session_args.is_id(id)),
            ConversationRef::New | ConversationRef::Fork if session_args.inject => {
                insert_id(session_args, argv, new_id())
            }
            ConversationRef::New | ConversationRef::Fork | ConversationRef::Unspecified => None,
        });
    };
    check_id(session_args, &id)?;
    match reference {
        ConversationRef::Id(other) if other == id => Ok(Some(id)),
        ConversationRef::Id(other) => {
            let message = format!("two conversation ids: '{other}' in the command, and '{id}'");
            Err(EngineError::invalid_request(message).hint("give only one of them"))
        }
        _ => insert_id(session_args, argv, id).map(Some).ok_or_else(|| {
            let command = argv.join(" ");
            let message = format!("the conversation of '{command}' cannot be given an id");
            let program = profile.session.as_ref().and_then(|session_args| session_args.programs.first());
            let program = program.map_or("the agent", String::as_str);
            EngineError::invalid_request(message).hint(format!(
                "the command has to start {program} directly and interactively, with a new conversation"
            ))
        }),
    }
}

/// Checks an id of a conversation of an agent.
///
/// # Errors
/// InvalidRequest.
pub(crate) fn check_id(session_args: &SessionArgs, id: &str) -> Result<(), EngineError> {
    if session_args.is_id(id) {
        return Ok(());
    }
    let shape = match session_args.ids {
        IdKind::Uuid => "it must be a UUID",
        IdKind::Word => "it must be 1-128 letters, digits, '-' and '_'",
    };
    // An invalid id may be any text of any length.
    let shown: String = id.chars().take(60).collect();
    let message = format!("'{shown}' is not a conversation id: {shape}");
    Err(EngineError::invalid_request(message).hint("leave it out to generate one"))
}

/// Splits a command into words. A command with invalid shell syntax is split at its spaces.
pub fn command_words(command: &CommandLine) -> Vec<String> {
    match command {
        CommandLine::Argv(argv) => argv.clone(),
        CommandLine::Text(text) => {
            shell_words::split(text).unwrap_or_else(|_| text.split_whitespace().map(str::to_string).collect())
        }
    }
}

fn insert_id(session_args: &SessionArgs, argv: &mut Vec<String>, id: String) -> Option<String> {
    *argv = session_args.start_command(argv, &id)?;
    Some(id)
}

#[cfg(test)]
mod tests {
    use nerve_agent::profile::Profiles;

    use super::*;
    use crate::error::ErrorKind;

    const A: &str = "aaaaaaaa-1111-4111-8111-aaaaaaaaaaaa";
    const B: &str = "bbbbbbbb-2222-4222-8222-bbbbbbbbbbbb";

    fn identified(line: &str, given: Option<&str>) -> Result<(Option<String>, String), EngineError> {
        let mut argv = command_words(&CommandLine::Text(line.to_string()));
        let profile = Profiles::builtin().for_command(&argv).unwrap();
        let id = identify(&profile, &mut argv, given.map(str::to_string))?;
        Ok((id, argv.join(" ")))
    }

    #[test]
    fn new_id_is_generated_and_inserted() {
        let (id, command) = identified("claude --dangerously-skip-permissions", None).unwrap();
        let id = id.unwrap();
        assert_eq!(id.len(), 36);
        assert_eq!(id.as_bytes()[14], b'4', "a random UUID: {id}");
        assert_eq!(command, format!("claude --session-id {id} --dangerously-skip-permissions"));
        assert_ne!(identified("claude", None).unwrap().0, Some(id));
    }

    #[test]
    fn given_id_is_used() {
        let (id, command) = identified("claude", Some(A)).unwrap();
        assert_eq!((id.as_deref(), command), (Some(A), format!("claude --session-id {A}")));
        let line = format!("claude --session-id {A}");
        assert_eq!(identified(&line, Some(A)).unwrap(), (Some(A.to_string()), line));
        let line = format!("gemini --session-id {A}");
        assert_eq!(identified("gemini", Some(A)).unwrap().1, line);
    }

    #[test]
    fn id_in_command_is_found() {
        let line = format!("claude --resume={A}");
        assert_eq!(identified(&line, None).unwrap(), (Some(A.to_string()), line));
    }

    #[test]
    fn unknown_id_is_left_open() {
        for line in [
            "claude --continue",
            "claude -r",
            "claude -p hello",
            "codex",
            "gemini",
            "opencode",
            "nerve mock-agent",
            "bash",
        ] {
            assert_eq!(identified(line, None).unwrap(), (None, line.to_string()));
        }
    }

    #[test]
    fn invalid_ids_are_rejected() {
        let message = |line: &str, given: &str| {
            let error = identified(line, Some(given)).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidRequest);
            error.message
        };
        assert_eq!(message("claude", "custom"), "'custom' is not a conversation id: it must be a UUID");
        assert!(message(&format!("claude --session-id {A}"), B).contains("two conversation ids"));
        for line in ["claude -p x", "claude --continue", "nerve mock-agent", "codex"] {
            assert!(message(line, A).contains("cannot be given an id"), "{line}");
        }
        assert!(message("bash", A).contains("has no conversation id"));
    }

    #[test]
    fn invalid_shell_syntax_is_split_at_spaces() {
        let words = command_words(&CommandLine::Text("claude --name 'open --session-id x".to_string()));
        assert_eq!(words, ["claude", "--name", "'open", "--session-id", "x"]);
    }
}
