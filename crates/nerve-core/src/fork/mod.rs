//! Conversations of agents: which one a node has, and how another node goes on from it (seed claude-fork).
//!
//! [`branch`] goes on from a place in a recording, whether or not its node is still there.
//!
//! What the words of a command mean is data of the profile ([`nerve_term::profile::session`]); where agents keep their conversations
//! is in `session_files`; the command FORK_NODE is the engine's.

pub mod branch;
mod opencode;
pub(crate) mod session_files;

use nerve_term::profile::Profile;
use nerve_term::profile::session::{IdKind, SessionForms, Told};
use uuid::Uuid;

use crate::command::CommandLine;
use crate::error::{EngineError, ErrorKind};

/// The id of the conversation that a command begins or goes on with: the one that was given, else the one in the command, else one that
/// is made up, for agents that take one. Where it is not in the command, it is put in.
///
/// # Errors
/// InvalidRequest: what was given is no id, or not one that this command can have.
pub(crate) fn identify(
    profile: &Profile,
    argv: &mut Vec<String>,
    given: Option<String>,
) -> Result<Option<String>, EngineError> {
    let Some(forms) = &profile.session else {
        return match given {
            None => Ok(None),
            Some(_) => {
                let message = format!("a '{}' node has no id of a conversation", profile.name);
                Err(EngineError::new(ErrorKind::InvalidRequest, message)
                    .hint("leave claude_session_id out: only agents have one"))
            }
        };
    };
    let told = forms.told(argv);
    let Some(id) = given else {
        return Ok(match told {
            Told::Id(id) => Some(id).filter(|id| forms.is_id(id)),
            Told::Nothing | Told::Fork if forms.inject => put_in(forms, argv, new_id()),
            Told::Nothing | Told::Fork | Told::Other => None,
        });
    };
    check_id(forms, &id)?;
    match told {
        Told::Id(other) if other == id => Ok(Some(id)),
        Told::Id(other) => {
            let message = format!("two ids of a conversation: '{other}' in the command, and '{id}'");
            Err(EngineError::new(ErrorKind::InvalidRequest, message).hint("give one of them"))
        }
        _ => put_in(forms, argv, id).map(Some).ok_or_else(|| {
            let command = argv.join(" ");
            let message = format!("the conversation of '{command}' cannot be given an id");
            let program = profile.session.as_ref().and_then(|forms| forms.programs.first());
            let program = program.map_or("the agent", String::as_str);
            EngineError::new(ErrorKind::InvalidRequest, message).hint(format!(
                "the command has to start {program} itself, on a new conversation, to work with a person"
            ))
        }),
    }
}

/// Is this an id of a conversation of such an agent?
///
/// # Errors
/// InvalidRequest.
pub(crate) fn check_id(forms: &SessionForms, id: &str) -> Result<(), EngineError> {
    if forms.is_id(id) {
        return Ok(());
    }
    let shape = match forms.ids {
        IdKind::Uuid => "it must be a UUID",
        IdKind::Word => "it must be 1-128 letters, digits, '-' and '_'",
    };
    // What is no id may be anything, of any length.
    let shown: String = id.chars().take(60).collect();
    let message = format!("'{shown}' is no id of a conversation: {shape}");
    Err(EngineError::new(ErrorKind::InvalidRequest, message).hint("leave it out, and one is made up"))
}

/// A new id.
pub(crate) fn new_id() -> String {
    Uuid::new_v4().to_string()
}

/// The words of a command; one that a shell could not split is split where its spaces are (seed claude-fork §2.2).
pub(crate) fn words_of(command: &CommandLine) -> Vec<String> {
    match command {
        CommandLine::Argv(argv) => argv.clone(),
        CommandLine::Text(text) => {
            shell_words::split(text).unwrap_or_else(|_| text.split_whitespace().map(str::to_string).collect())
        }
    }
}

fn put_in(forms: &SessionForms, argv: &mut Vec<String>, id: String) -> Option<String> {
    *argv = forms.started(argv, &id)?;
    Some(id)
}

#[cfg(test)]
mod tests {
    use nerve_term::profile::Profiles;

    use super::*;

    const A: &str = "aaaaaaaa-1111-4111-8111-aaaaaaaaaaaa";
    const B: &str = "bbbbbbbb-2222-4222-8222-bbbbbbbbbbbb";

    fn identified(line: &str, given: Option<&str>) -> Result<(Option<String>, String), EngineError> {
        let mut argv = words_of(&CommandLine::Text(line.to_string()));
        let profile = Profiles::builtin().for_command(&argv).unwrap();
        let id = identify(&profile, &mut argv, given.map(str::to_string))?;
        Ok((id, argv.join(" ")))
    }

    #[test]
    fn one_is_made_up_and_put_in() {
        let (id, command) = identified("claude --dangerously-skip-permissions", None).unwrap();
        let id = id.unwrap();
        assert_eq!(id.len(), 36);
        assert_eq!(id.as_bytes()[14], b'4', "a random one: {id}");
        assert_eq!(command, format!("claude --session-id {id} --dangerously-skip-permissions"));
        assert_ne!(identified("claude", None).unwrap().0, Some(id));
    }

    #[test]
    fn the_given_one_is_used() {
        let (id, command) = identified("claude", Some(A)).unwrap();
        assert_eq!((id.as_deref(), command), (Some(A), format!("claude --session-id {A}")));
        let line = format!("claude --session-id {A}");
        assert_eq!(identified(&line, Some(A)).unwrap(), (Some(A.to_string()), line));
        let line = format!("gemini --session-id {A}");
        assert_eq!(identified("gemini", Some(A)).unwrap().1, line);
    }

    #[test]
    fn the_one_in_the_command_is_found() {
        let line = format!("claude --resume={A}");
        assert_eq!(identified(&line, None).unwrap(), (Some(A.to_string()), line));
    }

    #[test]
    fn one_that_only_the_agent_knows_is_left_open() {
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
    fn what_is_no_id_or_cannot_be_one_is_refused() {
        let message = |line: &str, given: &str| {
            let error = identified(line, Some(given)).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidRequest);
            error.message
        };
        assert_eq!(message("claude", "custom"), "'custom' is no id of a conversation: it must be a UUID");
        assert!(message(&format!("claude --session-id {A}"), B).contains("two ids"));
        for line in ["claude -p x", "claude --continue", "nerve mock-agent", "codex"] {
            assert!(message(line, A).contains("cannot be given an id"), "{line}");
        }
        assert!(message("bash", A).contains("has no id"));
    }

    #[test]
    fn what_no_shell_could_split_is_split_at_its_spaces() {
        let words = words_of(&CommandLine::Text("claude --name 'open --session-id x".to_string()));
        assert_eq!(words, ["claude", "--name", "'open", "--session-id", "x"]);
    }
}
