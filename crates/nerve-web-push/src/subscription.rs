//! Push subscriptions of browsers.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Uri;
use nerve_types::activity::TsMs;
use serde::{Deserialize, Serialize};

/// Maximum length of an endpoint in bytes.
const MAX_ENDPOINT: usize = 2048;
/// Length of the secret that a browser shares with the server, in bytes (RFC 8291, section 3.2).
const AUTH_BYTES: usize = 16;
/// Length of an uncompressed point of P-256 in bytes.
pub(crate) const POINT_BYTES: usize = 65;
/// First byte of an uncompressed point.
const UNCOMPRESSED: u8 = 4;

/// A subscription as the Push API's `PushSubscription.toJSON()` describes it.
#[derive(Debug, Deserialize)]
pub struct SubscriptionRequest {
    endpoint: String,
    keys: RequestKeys,
}

#[derive(Debug, Deserialize)]
struct RequestKeys {
    p256dh: String,
    auth: String,
}

/// A browser's subscription. The endpoint is a secret: everyone who knows it can send messages to the push service.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushSubscription {
    /// URL of the push service.
    endpoint: String,
    /// Public key of the browser, as base64url.
    p256dh: String,
    /// Secret of the browser, as base64url.
    auth: String,
}

/// Whether messages reach a browser that subscribed to notifications, for display.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NotificationStatus {
    /// Time of the last failure, unless a later message was delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<TsMs>,
    /// Reason of that failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl std::fmt::Display for NotificationStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.error {
            Some(error) => write!(f, "failing: {error}"),
            None => f.write_str("on"),
        }
    }
}

/// A subscription as it is stored.
#[derive(Debug, Serialize, Deserialize)]
pub struct PushRecord {
    #[serde(flatten)]
    /// The subscription.
    pub subscription: PushSubscription,
    #[serde(flatten)]
    /// The status of its messages.
    pub status: NotificationStatus,
}

impl std::fmt::Debug for PushSubscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PushSubscription").finish_non_exhaustive()
    }
}

impl PushSubscription {
    /// Checks a browser's subscription.
    ///
    /// # Errors
    /// Returns the reason if it is invalid: its endpoint must be an `https` URL.
    pub fn new(request: SubscriptionRequest) -> Result<PushSubscription, &'static str> {
        let is_https = request.endpoint.parse::<Uri>().is_ok_and(|uri| uri.scheme_str() == Some("https"));
        if request.endpoint.len() > MAX_ENDPOINT || !is_https {
            return Err("endpoint: expected an https URL of at most 2048 bytes");
        }
        let RequestKeys { p256dh, auth } = request.keys;
        let subscription = PushSubscription { endpoint: request.endpoint, p256dh, auth };
        match subscription.public_key().is_some() && subscription.auth_secret().is_some() {
            true => Ok(subscription),
            false => Err("keys: expected p256dh, a point of P-256, and auth, 16 bytes, both as base64url"),
        }
    }

    /// Creates a subscription with these keys, for tests: `https` is not required.
    #[cfg(feature = "browser")]
    pub fn with_keys(endpoint: String, public_key: &[u8], auth: &[u8]) -> PushSubscription {
        let encode = |bytes| URL_SAFE_NO_PAD.encode(bytes);
        PushSubscription { endpoint, p256dh: encode(public_key), auth: encode(auth) }
    }

    /// Returns the URL of the push service for this browser.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Returns the browser's public key as an uncompressed point.
    pub(crate) fn public_key(&self) -> Option<[u8; POINT_BYTES]> {
        decode(&self.p256dh).filter(|point: &[u8; POINT_BYTES]| point[0] == UNCOMPRESSED)
    }

    pub(crate) fn auth_secret(&self) -> Option<[u8; AUTH_BYTES]> {
        decode(&self.auth)
    }
}

fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn subscription_needs_https_and_keys() {
        let point = URL_SAFE_NO_PAD.encode([UNCOMPRESSED; POINT_BYTES]);
        let auth = URL_SAFE_NO_PAD.encode([7; AUTH_BYTES]);
        let create = |endpoint: &str, p256dh: &str, auth: &str| {
            let request = json!({ "endpoint": endpoint, "keys": { "p256dh": p256dh, "auth": auth } });
            PushSubscription::new(serde_json::from_value(request).unwrap()).map(|_| ())
        };
        assert_eq!(create("https://push.example/x", &point, &auth), Ok(()));
        assert!(create("http://push.example/x", &point, &auth).is_err());
        assert!(create("file:///etc/passwd", &point, &auth).is_err());
        assert!(create(&format!("https://push.example/{}", "x".repeat(3000)), &point, &auth).is_err());
        assert!(create("https://push.example/x", "AAAA", &auth).is_err());
        assert!(create("https://push.example/x", &point, "not base64").is_err());
    }
}
