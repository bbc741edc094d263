//! Roles of web sessions, and the role of the request that is being served.

use nerve_api::RequestName;
use nerve_node::error::{EngineError, ErrorKind};
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantNames};

tokio::task_local! {
    static CURRENT: Role;
}

/// Permissions of a web session. Each role may do what the previous one may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, EnumString, VariantNames, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Role {
    /// Reads and waits.
    View,
    /// Answers dialogs of nodes and gates of runs.
    Answer,
    /// Does everything.
    Full,
}

impl Role {
    /// Returns the names of all roles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        <Role as VariantNames>::VARIANTS.iter().copied()
    }

    /// Returns true if a session with this role may send a request.
    pub fn can_send(self, request: RequestName) -> bool {
        // The file also has what was typed, which the terminal need not have shown.
        let is_readable = request.is_read_only() && request != RequestName::GetRecordingFile;
        match self {
            Role::View => is_readable,
            Role::Answer => {
                is_readable || matches!(request, RequestName::AnswerNode | RequestName::AnswerGate)
            }
            Role::Full => true,
        }
    }
}

/// Serves requests of a web session with this role. `None` serves a client that has the token.
pub(crate) async fn with_role<F: Future>(role: Option<Role>, work: F) -> F::Output {
    match role {
        Some(role) => CURRENT.scope(role, work).await,
        None => work.await,
    }
}

/// Returns the role of the web session whose request this task serves; `None` if it comes from another client.
pub(crate) fn current_role() -> Option<Role> {
    CURRENT.try_with(|role| *role).ok()
}

/// Checks that the client whose request this task serves may send it.
///
/// # Errors
/// `permission_error` if the role of its web session does not allow the request.
pub(crate) fn check_permission(request: RequestName) -> Result<(), EngineError> {
    match current_role() {
        Some(role) if !role.can_send(request) => {
            let message = format!("the role '{role}' of this web session does not allow {request}");
            Err(EngineError::new(ErrorKind::Permission, message)
                .hint("log in with the link that 'nerve web --role full' prints"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_build_on_each_other() {
        for request in RequestName::ALL.iter().copied() {
            assert!(!Role::View.can_send(request) || Role::Answer.can_send(request), "{request}");
            assert!(Role::Full.can_send(request), "{request}");
        }
        for request in [RequestName::ListNodes, RequestName::WaitNode, RequestName::Subscribe] {
            assert!(Role::View.can_send(request), "{request}");
        }
        for request in [
            RequestName::ExecuteInput,
            RequestName::StopNode,
            RequestName::Shutdown,
            RequestName::GetRecordingFile,
        ] {
            assert!(!Role::Answer.can_send(request), "{request}");
        }
        assert!(
            Role::Answer.can_send(RequestName::AnswerGate) && !Role::View.can_send(RequestName::AnswerGate)
        );
    }

    #[tokio::test]
    async fn role_applies_within_its_scope() {
        assert!(check_permission(RequestName::StopNode).is_ok());
        with_role(Some(Role::View), async {
            let error = check_permission(RequestName::StopNode).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Permission);
            assert!(check_permission(RequestName::GetNode).is_ok());
        })
        .await;
        with_role(None, async { assert!(check_permission(RequestName::StopNode).is_ok()) }).await;
    }
}
