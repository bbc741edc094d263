//! Answers to the dialogs of nodes.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use nerve_api::request::NodeRef;

use crate::client_origin::ClientOrigin;
use crate::error::{EngineError, ErrorKind};

/// A choice of a dialog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Position of the choice, from 1.
    Number(usize),
    /// A part of the choice's label, ignoring case. Only one choice may match.
    Label(String),
    /// Closes the dialog without an answer (Escape).
    Cancel,
}

/// The answer to a dialog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialogAnswer {
    /// The choice.
    pub choice: Choice,
    /// Id of the dialog that is meant; `None` for any.
    pub dialog_id: Option<String>,
    /// Wait for the turn that the dialog interrupted.
    pub wait: bool,
    /// Time limit of that turn.
    pub timeout: Option<Duration>,
    /// The client that answers.
    pub origin: ClientOrigin,
}

/// Creates the error of an answer to a node without a dialog.
pub fn no_dialog_error(node: &str) -> EngineError {
    EngineError::invalid_request(format!("node '{node}' is not showing a dialog"))
        .hint("only a blocked node can be answered")
}

/// Returns the id of a dialog: a hash of its contents.
pub(crate) fn dialog_id(contents: &impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    contents.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Checks that an answer is not meant for another dialog.
///
/// # Errors
/// Blocked, with the choices of this dialog.
pub fn check_dialog(
    node: &NodeRef,
    answer: &DialogAnswer,
    id: &str,
    choices: &[String],
) -> Result<(), EngineError> {
    if answer.dialog_id.as_ref().is_none_or(|expected| expected == id) {
        return Ok(());
    }
    let mut error = EngineError::new(
        ErrorKind::Blocked,
        format!("node '{}': another dialog is open; nothing was typed", node.node),
    );
    error.choices = choices.to_vec().into();
    Err(error.hint(format!("`nerve node why {}` shows it", node.arguments())))
}

/// Resolves a choice to its index, or to `None` for cancelling the dialog.
///
/// # Errors
/// InvalidRequest, with the choices: there is no such choice, or several.
pub fn resolve_choice(choice: &Choice, choices: &[String]) -> Result<Option<usize>, EngineError> {
    let offered = || {
        choices.iter().enumerate().map(|(at, c)| format!("{}. {c}", at + 1)).collect::<Vec<_>>().join(", ")
    };
    let invalid = |message: String| {
        let mut error = EngineError::invalid_request(message);
        error.choices = choices.to_vec().into();
        Err(error)
    };
    match choice {
        Choice::Cancel => Ok(None),
        Choice::Number(number) if (1..=choices.len()).contains(number) => Ok(Some(number - 1)),
        Choice::Number(number) => invalid(format!("no choice {number}: {}", offered())),
        Choice::Label(label) => {
            let label = label.to_lowercase();
            let exact = choices.iter().position(|choice| choice.to_lowercase() == label);
            let matching: Vec<usize> =
                (0..choices.len()).filter(|at| choices[*at].to_lowercase().contains(&label)).collect();
            match (exact, matching.as_slice()) {
                (Some(at), _) => Ok(Some(at)),
                (None, [at]) => Ok(Some(*at)),
                (None, []) => invalid(format!("no choice contains '{label}': {}", offered())),
                (None, _) => invalid(format!("'{label}' matches several choices: {}", offered())),
            }
        }
    }
}
