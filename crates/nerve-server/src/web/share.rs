//! Shares: read-only links to one node, which expire or are revoked.
//!
//! A share has a private file, named by the SHA-256 of the secret in its link. A browser that opens the link gets a web
//! session with the role `view` for this node, which ends with the share.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use http::{Method, Uri};
use nerve_types::activity::TsMs;
use serde::{Deserialize, Serialize};

use super::now;
use super::record_store::{self, RecordStore, digest};
use crate::error::ServerError;
use crate::http::raw_query;

/// Random bytes of a link.
const SECRET_BYTES: usize = 16;
/// Maximum number of shares of a server.
const MAX_SHARES: usize = 256;
/// Suffixes of the paths that read a node, after the path of the node.
const READABLE: [&str; 4] = ["", "/explain", "/transcript", "/terminal"];

/// The node that a share shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedNode {
    /// Session of the node.
    pub session_id: String,
    /// Id of the node.
    pub node_id: String,
}

/// A share for display.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Id: the beginning of the digest of its secret.
    pub share_id: String,
    /// The node that it shows.
    #[serde(flatten)]
    pub node: SharedNode,
    /// Time of its creation.
    pub created_at: TsMs,
    /// Time at which it expires.
    pub expires_at: TsMs,
}

/// A new share, and the secret for its link.
#[derive(Debug)]
pub struct NewShare {
    /// The share.
    pub share: Share,
    /// The secret, which is stored nowhere.
    pub secret: String,
}

/// The shares of one server.
#[derive(Debug, Clone)]
pub(super) struct ShareStore {
    records: RecordStore<ShareRecord>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct ShareRecord {
    #[serde(flatten)]
    node: SharedNode,
    created_at: TsMs,
    expires_at: TsMs,
}

impl SharedNode {
    /// Returns true if a request only reads this node or its events.
    pub(crate) fn is_read_by(&self, method: &Method, uri: &Uri) -> bool {
        let Ok(query) = raw_query(uri) else { return false };
        let has = |name: &str, value: &str| {
            let mut values = query.iter().filter(|(key, _)| key == name);
            values.next().is_some_and(|(_, actual)| actual == value) && values.next().is_none()
        };
        let is_in_session = has("session", &self.session_id);
        let node = format!("/nodes/{}", self.node_id);
        let is_node = uri.path().strip_prefix(&node).is_some_and(|rest| READABLE.contains(&rest));
        let is_events = uri.path() == "/events" && has("node", &self.node_id);
        *method == Method::GET && is_in_session && (is_node || is_events)
    }
}

impl ShareStore {
    pub(super) fn new(folder: PathBuf) -> ShareStore {
        ShareStore { records: RecordStore::new(folder, "json") }
    }

    /// Creates a share. Removes expired ones.
    ///
    /// # Errors
    /// Returns an error if there are 256 shares, the system gives no random bytes, or the file cannot be written.
    pub(super) fn create(&self, node: SharedNode, lifetime: Duration) -> Result<NewShare, ServerError> {
        let action = "create a share in";
        if self.list().len() >= MAX_SHARES {
            let source = io::Error::other(format!("there are {MAX_SHARES} shares: revoke some"));
            return Err(ServerError::Io { action, path: self.records.folder().to_path_buf(), source });
        }
        let created_at = now();
        let expires_at = TsMs::from(SystemTime::now() + lifetime);
        let record = ShareRecord { node, created_at, expires_at };
        let secret = self.records.create::<SECRET_BYTES>(action, &record)?;
        Ok(NewShare { share: record.share(&digest(&secret)), secret })
    }

    /// Returns the digest and the share of a secret; `None` if it is wrong, expired or revoked.
    pub(super) fn find(&self, secret: &str) -> Option<(String, Share)> {
        let digest = digest(secret);
        Some((digest.clone(), self.read(&digest)?.share(&digest)))
    }

    /// Returns true if the share with this digest was revoked or has expired. One whose file cannot be read has not ended.
    pub(super) fn has_ended(&self, digest: &str) -> bool {
        self.records.read(digest).is_ok_and(|record| record.is_none_or(|record| record.expires_at <= now()))
    }

    /// Lists the valid shares, the newest first. Removes expired ones.
    pub(super) fn list(&self) -> Vec<Share> {
        let digests = self.records.digests().into_iter();
        let mut shares: Vec<Share> =
            digests.filter_map(|digest| Some(self.read(&digest)?.share(&digest))).collect();
        shares.sort_by_key(|share| std::cmp::Reverse(share.created_at));
        shares
    }

    /// Ends all shares whose digest begins with `id`. Their sessions end within seconds.
    ///
    /// # Errors
    /// Returns an error if a file cannot be removed.
    pub(super) fn revoke(&self, id: &str) -> Result<(), ServerError> {
        for digest in self.records.digests().into_iter().filter(|digest| digest.starts_with(id)) {
            self.records.remove(&digest).map_err(ServerError::io("remove", &self.records.path(&digest)))?;
        }
        Ok(())
    }

    /// Reads a share. Removes it if it has expired.
    fn read(&self, digest: &str) -> Option<ShareRecord> {
        let record = self.records.read(digest).ok()??;
        if record.expires_at <= now() {
            let _ = self.records.remove(digest);
            return None;
        }
        Some(record)
    }
}

impl ShareRecord {
    fn share(self, digest: &str) -> Share {
        Share {
            share_id: record_store::id(digest),
            node: self.node,
            created_at: self.created_at,
            expires_at: self.expires_at,
        }
    }
}
