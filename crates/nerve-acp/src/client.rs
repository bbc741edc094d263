//! The client: what was agreed with it, and updates of sessions in its version of the protocol.

use std::sync::Arc;

use crate::peer::Peer;
use crate::types::{ContentBlock, SessionUpdate};
use crate::version2::{Encoder, SessionState, encode_prompt, encode_state};

/// What a client and this server agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Agreement {
    pub(crate) version: Version,
    /// The client shows notices.
    pub(crate) shows_notices: bool,
}

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    /// A draft.
    V2,
}

impl Version {
    /// Returns the version to use with a client that proposes `proposed`: the latest one that both have, otherwise the first.
    pub(crate) fn agree(proposed: u16, latest: u16) -> Version {
        if proposed.min(latest) >= 2 { Version::V2 } else { Version::V1 }
    }

    /// Returns the number of the version.
    pub(crate) fn number(self) -> u16 {
        match self {
            Version::V1 => 1,
            Version::V2 => 2,
        }
    }
}

/// Sends the updates of one session for the duration of a request.
#[derive(Debug)]
pub(crate) struct UpdateSender {
    pub(crate) peer: Arc<Peer>,
    session: String,
    /// `None` in version 1.
    encoder: Option<Encoder>,
}

impl UpdateSender {
    pub(crate) fn new(peer: Arc<Peer>, session: &str, version: Version) -> UpdateSender {
        let encoder = (version == Version::V2).then(Encoder::new);
        UpdateSender { peer, session: session.to_string(), encoder }
    }

    /// Returns the version of the protocol.
    pub(crate) fn version(&self) -> Version {
        if self.encoder.is_some() { Version::V2 } else { Version::V1 }
    }

    /// Sends updates in their order.
    pub(crate) async fn send(&mut self, updates: impl IntoIterator<Item = SessionUpdate>) {
        for update in updates {
            match &mut self.encoder {
                Some(encoder) => self.peer.update(&self.session, &encoder.encode(&update)).await,
                None => self.peer.update(&self.session, &update).await,
            }
        }
    }

    /// Reports a prompt that the agent has accepted. Only version 2 has such reports.
    pub(crate) async fn report_prompt(&self, id: &str, prompt: &[ContentBlock]) {
        if self.encoder.is_some() {
            self.peer.update(&self.session, &encode_prompt(id, prompt)).await;
        }
    }

    /// Reports the state of the session. Only version 2 has such reports.
    pub(crate) async fn report_state(&self, state: &SessionState) {
        if self.encoder.is_some() {
            self.peer.update(&self.session, &encode_state(state)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_common_version_is_used() {
        assert_eq!(Version::agree(1, 2), Version::V1);
        assert_eq!(Version::agree(2, 1), Version::V1);
        assert_eq!(Version::agree(2, 2), Version::V2);
        assert_eq!(Version::agree(9, 2), Version::V2);
        assert_eq!(Version::agree(0, 2), Version::V1);
    }
}
