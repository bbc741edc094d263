//! Request ids, in responses and in the log: chosen by the client or generated.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header, in requests and responses.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");
/// Maximum length of a client's id in bytes.
const MAX_BYTES: usize = 128;

/// The id of a request: 1–128 printable ASCII characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestId(String);

/// Generates ids that are unique on this machine.
#[derive(Debug)]
pub(crate) struct IdGenerator {
    prefix: u64,
    next: AtomicU64,
}

impl IdGenerator {
    pub(crate) fn new() -> IdGenerator {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        IdGenerator { prefix: u64::try_from(now.as_micros()).unwrap_or_default(), next: AtomicU64::new(1) }
    }

    /// Returns the client's id if it is well-formed, otherwise a new one.
    pub(crate) fn assign(&self, headers: &HeaderMap) -> RequestId {
        let id = headers.get(HEADER).and_then(|value| value.to_str().ok());
        match id.filter(|id| {
            (1..=MAX_BYTES).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
        }) {
            Some(id) => RequestId(id.to_string()),
            None => RequestId(format!("{:x}-{:x}", self.prefix, self.next.fetch_add(1, Ordering::Relaxed))),
        }
    }
}

impl RequestId {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.0).ok()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_formed_client_id_is_kept() {
        let ids = IdGenerator::new();
        let assign = |id: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, HeaderValue::from_bytes(id).unwrap());
            ids.assign(&headers).as_str().to_string()
        };
        assert_eq!(assign(b"build-7/a:b"), "build-7/a:b");
        for unfit in [&b""[..], b"a b", b"\xff", "x".repeat(129).as_bytes()] {
            assert_ne!(assign(unfit).as_bytes(), unfit);
        }
        assert_ne!(assign(b""), assign(b""));
    }
}
