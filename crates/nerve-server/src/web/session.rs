//! Web sessions: browsers that have logged in.
//!
//! Each session has a private file, named by the SHA-256 of its cookie, so that a restart keeps browsers logged in. The file's
//! time of modification is the time of its last use. Setting it never creates a file, so a revoked session stays revoked.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use nerve_types::activity::TsMs;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::now;
use super::record_store::{self, RecordStore, digest};
use super::role::Role;
use super::share::{ShareStore, SharedNode};
use crate::access::token::Token;
use crate::error::ServerError;
use nerve_web_push::subscription::{NotificationStatus, PushRecord, PushSubscription};

/// Time for which a session is valid.
pub(crate) const SESSION_LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Maximum number of sessions of logins. A further one ends the one that was used least recently.
const MAX_SESSIONS: usize = 64;
/// Maximum number of sessions of one share.
const MAX_SESSIONS_OF_SHARE: usize = 16;
/// Maximum length of a stored user agent in characters.
const MAX_USER_AGENT: usize = 200;
/// Maximum length of the stored error of a push service in characters.
const MAX_ERROR: usize = 200;
/// Precision of the time of last use.
const USE_PRECISION: Duration = Duration::from_secs(60);
/// Interval between checks for sessions that were revoked.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Random bytes of a cookie.
const COOKIE_BYTES: usize = 32;

/// The sessions of one server.
#[derive(Debug)]
pub(crate) struct SessionStore {
    records: RecordStore<SessionRecord>,
    /// Push subscriptions: records of their own, so that writing one cannot restore a session that another process revokes.
    push: RecordStore<PushRecord>,
    shares: ShareStore,
    /// Revocations of the sessions that were used on this server, by digest.
    revocations: Mutex<HashMap<String, CancellationToken>>,
    /// Held while a push subscription is read and changed.
    push_changes: Mutex<()>,
}

/// A session for display.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WebSession {
    /// Id: the beginning of the digest of its cookie.
    pub web_session_id: String,
    /// Role.
    pub role: Role,
    /// The share that began it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_id: Option<String>,
    /// The only node that it may read, if a share began it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<SharedNode>,
    /// Time of the login.
    pub created_at: TsMs,
    /// Time of the last request, to the minute.
    pub last_used_at: TsMs,
    /// The browser's description of itself, without control characters.
    pub user_agent: String,
    /// Whether notifications reach the browser, if it subscribed to them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notifications: Option<NotificationStatus>,
}

/// A session that a request belongs to.
#[derive(Debug, Clone)]
pub(crate) struct FoundSession {
    digest: String,
    pub(crate) role: Role,
    /// The only node that it may read, if a share began it.
    pub(crate) share: Option<SharedNode>,
}

impl FoundSession {
    /// Returns its id, as `nerve web sessions list` prints it.
    pub(crate) fn id(&self) -> String {
        record_store::id(&self.digest)
    }
}

/// The share that began a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SessionShare {
    /// Digest of the share's secret.
    pub(super) digest: String,
    pub(super) node: SharedNode,
}

#[derive(Debug, Serialize, Deserialize)]
struct SessionRecord {
    role: Role,
    created_at: TsMs,
    user_agent: String,
    /// Fingerprint of the server's token at the login.
    token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    share: Option<SessionShare>,
}

impl SessionRecord {
    fn is_expired(&self) -> bool {
        u128::from(now().0.saturating_sub(self.created_at.0)) >= SESSION_LIFETIME.as_millis()
    }
}

/// Returns true for control characters and directional marks, which can disguise a text.
fn is_hidden(c: char) -> bool {
    let is_directional =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || is_directional
}

impl SessionStore {
    pub(super) fn new(folder: PathBuf, shares: ShareStore) -> SessionStore {
        let (records, push) = (RecordStore::new(folder.clone(), "json"), RecordStore::new(folder, "push"));
        SessionStore { records, push, shares, revocations: Mutex::default(), push_changes: Mutex::default() }
    }

    #[cfg(test)]
    pub(super) fn for_test(folder: &std::path::Path) -> SessionStore {
        SessionStore::new(folder.join("sessions"), ShareStore::new(folder.join("shares")))
    }

    /// Begins a session and returns the secret for its cookie. With a share, it may only look at the share's node.
    ///
    /// # Errors
    /// Returns an error if the system gives no random bytes or the file cannot be written.
    pub(super) fn begin(
        &self,
        role: Role,
        share: Option<SessionShare>,
        user_agent: &str,
        token: &Token,
    ) -> Result<String, ServerError> {
        // Visitors of a share end neither logins nor sessions of other shares.
        let id = share.as_ref().map(|share| record_store::id(&share.digest));
        let limit = if share.is_some() { MAX_SESSIONS_OF_SHARE } else { MAX_SESSIONS };
        let mut sessions = self.list();
        sessions.retain(|session| session.share_id == id);
        while sessions.len() >= limit
            && let Some(oldest) = sessions.pop()
        {
            self.end_by_id(&oldest.web_session_id)?;
        }
        let user_agent = user_agent.chars().filter(|c| !is_hidden(*c)).take(MAX_USER_AGENT).collect();
        let record = SessionRecord { role, created_at: now(), user_agent, token: token.fingerprint(), share };
        self.records.create::<COOKIE_BYTES>("create a web session in", &record)
    }

    /// Returns the session with this cookie if it is valid with the server's token. Records its use.
    ///
    /// # Errors
    /// Returns an error if the session's file exists but cannot be read: the session has not ended.
    pub(crate) fn find(&self, cookie: &str, token: &Token) -> io::Result<Option<FoundSession>> {
        let digest = digest(cookie);
        let Some(record) = self.records.read(&digest)? else { return Ok(None) };
        if self.is_over(&record) || record.token != token.fingerprint() {
            let _ = self.remove(&digest);
            return Ok(None);
        }
        let used = self.records.last_write(&digest);
        if used.is_ok_and(|used| used.elapsed().is_ok_and(|elapsed| elapsed >= USE_PRECISION)) {
            let _ = self.records.touch(&digest);
        }
        Ok(Some(FoundSession { digest, role: record.role, share: record.share.map(|share| share.node) }))
    }

    /// Sets the push subscription of the session with this cookie.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub(crate) fn subscribe(&self, cookie: &str, subscription: &PushSubscription) -> io::Result<()> {
        let _change = self.push_changes.lock();
        let digest = digest(cookie);
        // A browser subscribes again with each load of the page: the status of an unchanged subscription stays.
        let existing = self.read_push(&digest).filter(|record| record.subscription == *subscription);
        let status = existing.map(|record| record.status).unwrap_or_default();
        self.write_push(&digest, &PushRecord { subscription: subscription.clone(), status })
    }

    fn write_push(&self, digest: &str, record: &PushRecord) -> io::Result<()> {
        self.push.write(digest, record)?;
        // The session may have ended meanwhile.
        if self.has_ended(digest) {
            let _ = self.remove(digest);
        }
        Ok(())
    }

    /// Records whether a message was delivered, unless the browser has subscribed anew. `error`: the reason why it was not.
    pub(super) fn record_delivery(
        &self,
        digest: &str,
        subscription: &PushSubscription,
        error: Option<String>,
    ) {
        let _change = self.push_changes.lock();
        let Some(mut record) = self.read_push(digest) else { return };
        if record.subscription != *subscription || (error.is_none() && record.status.error.is_none()) {
            return;
        }
        let error = error.map(|error| error.chars().take(MAX_ERROR).collect());
        record.status = NotificationStatus { failed_at: error.is_some().then(now), error };
        if let Err(error) = self.write_push(digest, &record) {
            tracing::warn!(%error, "the outcome of a push message cannot be stored");
        }
    }

    /// Removes the push subscription of the session with this cookie.
    pub(crate) fn unsubscribe(&self, cookie: &str) {
        let _change = self.push_changes.lock();
        let _ = self.push.remove(&digest(cookie));
    }

    /// Removes an expired push subscription, unless the browser has subscribed anew.
    pub(super) fn remove_subscription(&self, digest: &str, expired: &PushSubscription) {
        let _change = self.push_changes.lock();
        if self.read_push(digest).is_some_and(|record| record.subscription == *expired) {
            let _ = self.push.remove(digest);
        }
    }

    /// Returns the push subscriptions of all valid sessions, by digest.
    pub(super) fn subscriptions(&self) -> Vec<(String, PushSubscription)> {
        let live = self.records.digests().into_iter().filter(|digest| !self.has_ended(digest));
        live.filter_map(|digest| Some((digest.clone(), self.read_push(&digest)?.subscription))).collect()
    }

    fn read_push(&self, digest: &str) -> Option<PushRecord> {
        self.push.read(digest).ok().flatten()
    }

    /// Removes the records of a session.
    fn remove(&self, digest: &str) -> io::Result<()> {
        let _ = self.push.remove(digest);
        self.records.remove(digest)
    }

    /// Returns a token that is cancelled when the session ends, or with `parent`.
    pub(crate) fn revocation(&self, session: &FoundSession, parent: &CancellationToken) -> CancellationToken {
        let mut live = self.revocations.lock();
        live.retain(|_, revoked| !revoked.is_cancelled());
        live.entry(session.digest.clone()).or_insert_with(|| parent.child_token()).clone()
    }

    /// Ends the session with this cookie, if there is one.
    pub(crate) fn end(&self, cookie: &str) {
        let _ = self.end_by_id(&digest(cookie));
    }

    /// Ends all sessions whose digest begins with `id`.
    ///
    /// # Errors
    /// Returns an error if its file cannot be removed.
    pub(crate) fn end_by_id(&self, id: &str) -> Result<(), ServerError> {
        for digest in self.records.digests().into_iter().filter(|digest| digest.starts_with(id)) {
            if let Some(revoked) = self.revocations.lock().remove(&digest) {
                revoked.cancel();
            }
            self.remove(&digest).map_err(ServerError::io("remove", &self.records.path(&digest)))?;
        }
        Ok(())
    }

    /// Lists the sessions, the last used first. Removes expired ones.
    pub(crate) fn list(&self) -> Vec<WebSession> {
        let mut sessions = Vec::new();
        for digest in self.records.digests() {
            let Ok(Some(record)) = self.records.read(&digest) else { continue };
            let used = self.records.last_write(&digest);
            if self.is_over(&record) {
                let _ = self.remove(&digest);
                continue;
            }
            sessions.push(WebSession {
                web_session_id: record_store::id(&digest),
                role: record.role,
                share_id: record.share.as_ref().map(|share| record_store::id(&share.digest)),
                share: record.share.map(|share| share.node),
                created_at: record.created_at,
                last_used_at: used.map_or(record.created_at, TsMs::from),
                user_agent: record.user_agent,
                notifications: self.read_push(&digest).map(|record| record.status),
            });
        }
        sessions.sort_by_key(|session| std::cmp::Reverse(session.last_used_at));
        sessions
    }

    /// Ends connections of expired and removed sessions, and deletes sessions of an old token. Never completes.
    pub(crate) async fn watch(&self, read_token: impl Fn() -> Option<Token>) {
        let mut poll = tokio::time::interval(POLL_INTERVAL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut checked = None;
        loop {
            poll.tick().await;
            self.revocations.lock().retain(|digest, revoked| {
                let is_valid = !revoked.is_cancelled() && !self.has_ended(digest);
                if !is_valid {
                    revoked.cancel();
                }
                is_valid
            });
            // An unreadable token revokes nothing.
            let fingerprint = read_token().map(|token| token.fingerprint());
            if fingerprint.is_some() && fingerprint != checked {
                self.remove_other_tokens(fingerprint.as_deref().unwrap_or_default());
                checked = fingerprint;
            }
        }
    }

    /// Returns true if a session has expired or was removed. One whose file cannot be read has not ended.
    fn has_ended(&self, digest: &str) -> bool {
        self.records.read(digest).is_ok_and(|record| record.is_none_or(|record| self.is_over(&record)))
    }

    /// Returns true if a session has expired, or the share that began it has ended.
    fn is_over(&self, record: &SessionRecord) -> bool {
        let has_share_ended = |share: &SessionShare| self.shares.has_ended(&share.digest);
        record.is_expired() || record.share.as_ref().is_some_and(has_share_ended)
    }

    /// Removes the files of sessions that began with another token.
    fn remove_other_tokens(&self, fingerprint: &str) {
        for digest in self.records.digests() {
            let record = self.records.read(&digest).ok().flatten();
            if record.is_some_and(|record| record.token != fingerprint) {
                let _ = self.remove(&digest);
            }
        }
    }
}

#[cfg(test)]
mod tests;
