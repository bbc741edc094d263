//! The key of a snapshot's files. It becomes part of a path and of a git reference and is therefore validated.

use std::fmt;
use std::str::FromStr;

/// Maximum characters of a session's name.
const MAX_SESSION: usize = 64;

/// A session and a snapshot number in it: `0195e3-…/3`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotKey {
    session: String,
    id: u64,
}

/// A session name that is unsafe in a path or a git reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "session {session:?} is not allowed: use 1 to 64 of a-z, A-Z, 0-9, '-', '_' and '.', with no '.' at the beginning or end, no '..' and no '.lock' at the end"
)]
pub struct KeyError {
    session: String,
}

impl SnapshotKey {
    /// Creates a key after checking the session's name. The rule is wider than that of [`nerve_types::name`], because
    /// sessions are named by UUIDs and ULIDs and foreign recordings may have names of their own. Allowed is what both
    /// paths and git (`git-check-ref-format(1)`) accept.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn new(session: &str, id: u64) -> Result<SnapshotKey, KeyError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let fine = (1..=MAX_SESSION).contains(&session.len())
            && session.bytes().all(allowed)
            && !session.starts_with('.')
            && !session.contains("..")
            && !session.ends_with('.')
            && !session.ends_with(".lock");
        if fine {
            Ok(SnapshotKey { session: session.to_string(), id })
        } else {
            let quoted = session.chars().take(MAX_SESSION).collect();
            Err(KeyError { session: quoted })
        }
    }

    /// Returns the session's name.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Returns the snapshot's number.
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl fmt::Display for SnapshotKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.session, self.id)
    }
}

impl FromStr for SnapshotKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<SnapshotKey, KeyError> {
        let bad = || KeyError { session: text.chars().take(MAX_SESSION).collect() };
        let (session, id) = text.split_once('/').ok_or_else(bad)?;
        let id: u64 = id.parse().map_err(|_| bad())?;
        let key = SnapshotKey::new(session, id)?;
        // Only the canonical form is valid, not `a/01` or `a/+1`.
        if key.to_string() == text { Ok(key) } else { Err(bad()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_session_names_pass() {
        for session in
            ["a", "0195e3a1-77aa-7bcd-8000-0123456789ab", "01HXYZABCDEFGHJKMNPQRSTVWX", "a_b.c", "_", "-x"]
        {
            let key = SnapshotKey::new(session, 7).unwrap();
            assert_eq!(key.to_string(), format!("{session}/7"));
            assert_eq!(key.to_string().parse(), Ok(key));
        }
    }

    #[test]
    fn unsafe_session_names_are_rejected() {
        let long = "x".repeat(65);
        for session in [
            "", ".", "..", "../x", "a/b", "a..b", ".a", "a.", "a.lock", "a b", "a\n", "ä", "a\0", "a~1",
            "@{", &long,
        ] {
            let error = SnapshotKey::new(session, 1).unwrap_err().to_string();
            assert!(error.contains("not allowed"), "{error}");
        }
        for key in ["a", "a/", "a/x", "a/-1", "a/+1", "a/01", "a/1/2", "../1", "/1", "a/18446744073709551616"]
        {
            assert!(key.parse::<SnapshotKey>().is_err(), "{key}");
        }
    }
}
