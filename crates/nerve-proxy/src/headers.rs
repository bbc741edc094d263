//! Decides which headers are forwarded and which belong to a single connection.

use http::HeaderMap;
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE,
    EXPECT, HOST, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};

use crate::secret::Secret;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// Id of the request in the log.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-nerve-request-id");
/// Claude Code's conversation id.
const SESSION_ID: HeaderName = HeaderName::from_static("x-claude-code-session-id");

/// Removes the headers that belong to one connection (RFC 9110 §7.6.1).
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let always = [
        CONNECTION,
        HeaderName::from_static("http2-settings"),
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
    ];
    for name in named.iter().chain(&always) {
        // Removing these because a client lists them in Connection would corrupt the message.
        if *name != CONTENT_LENGTH && *name != CONTENT_TYPE {
            headers.remove(name);
        }
    }
}

/// Returns the headers of a request for the upstream. Requests an uncompressed body, so that its tokens can be counted.
pub(crate) fn for_upstream(mut headers: HeaderMap, key: Option<&Secret>) -> HeaderMap {
    remove_hop_by_hop(&mut headers);
    for name in [HOST, CONTENT_LENGTH, EXPECT] {
        headers.remove(name);
    }
    join_cookies(&mut headers);
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if let Some(key) = key {
        headers.remove(AUTHORIZATION);
        headers.remove(API_KEY);
        headers.extend(sensitive(key.reveal()).map(|value| (API_KEY, value)));
    }
    headers
}

/// Joins the cookie fields: HTTP/2 may split them, HTTP/1.1 may not (RFC 9113 §8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let pieces: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if pieces.len() > 1
        && let Ok(mut whole) = HeaderValue::from_bytes(&pieces.join(&b"; "[..]))
    {
        whole.set_sensitive(true);
        headers.insert(COOKIE, whole);
    }
}

/// Removes headers that must not appear in a response's trailers.
pub(crate) fn strip_trailers(trailers: &mut HeaderMap) {
    remove_hop_by_hop(trailers);
    for name in [CONTENT_LENGTH, CONTENT_TYPE, HOST] {
        trailers.remove(name);
    }
}

/// Returns the headers of a response for the client.
pub(crate) fn for_client(mut headers: HeaderMap) -> HeaderMap {
    remove_hop_by_hop(&mut headers);
    headers
}

/// Returns `Bearer KEY`; `None` if the key is not valid in a header.
pub(crate) fn bearer(key: &Secret) -> Option<HeaderValue> {
    sensitive(&format!("Bearer {}", key.reveal()))
}

fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Returns the tokens that a client sent, in either header.
pub(crate) fn credentials(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = text(AUTHORIZATION).and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    bearer.into_iter().chain(text(API_KEY))
}

/// Returns a header as text; empty if it is missing or not text.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Returns the conversation id, if the agent sent one.
pub(crate) fn session(headers: &HeaderMap) -> Option<&str> {
    Some(text(headers, &SESSION_ID)).filter(|id| !id.is_empty())
}

/// Returns the trace context of the request (W3C Trace Context §3.2), if the agent sent one.
pub(crate) fn traceparent(headers: &HeaderMap) -> Option<&str> {
    Some(text(headers, &HeaderName::from_static("traceparent"))).filter(|parent| !parent.is_empty())
}

/// Returns true if the body is compressed.
pub(crate) fn is_encoded(headers: &HeaderMap) -> bool {
    !matches!(text(headers, &CONTENT_ENCODING), "" | "identity")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let mut map = HeaderMap::new();
        pairs.for_each(|(name, value)| {
            map.append(name, value);
        });
        map
    }

    #[test]
    fn hop_by_hop_headers_are_removed() {
        let received = map(&[
            ("host", "127.0.0.1:1"),
            ("connection", "keep-alive, X-Mine, content-length"),
            ("x-mine", "1"),
            ("keep-alive", "1"),
            ("transfer-encoding", "chunked"),
            ("accept-encoding", "gzip, br"),
            ("anthropic-beta", "a"),
            ("anthropic-beta", "b"),
            ("authorization", "Bearer theirs"),
            ("x-stainless-lang", "js"),
        ]);
        let sent = for_upstream(received.clone(), None);
        let mut names: Vec<&str> = sent.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            ["accept-encoding", "anthropic-beta", "anthropic-beta", "authorization", "x-stainless-lang"]
        );
        assert_eq!(sent["accept-encoding"], "identity");
        assert_eq!(sent["authorization"], "Bearer theirs");
        let with_key = for_upstream(received, Some(&Secret::new("ours")));
        assert_eq!(with_key["x-api-key"], "ours");
        assert!(with_key["x-api-key"].is_sensitive() && !with_key.contains_key("authorization"));
        let reply = for_client(map(&[
            ("content-length", "3"),
            ("transfer-encoding", "chunked"),
            ("request-id", "r"),
        ]));
        assert_eq!(reply.len(), 2);
    }

    #[test]
    fn cookie_fields_are_joined() {
        let sent = for_upstream(map(&[("cookie", "a=b"), ("cookie", "c=d; e=f")]), None);
        assert_eq!(sent.get_all("cookie").iter().collect::<Vec<_>>(), ["a=b; c=d; e=f"]);
        assert_eq!(for_upstream(map(&[("cookie", "a=b")]), None)["cookie"], "a=b");
    }

    #[test]
    fn http1_only_headers_are_removed() {
        let pairs = [
            ("te", "trailers"),
            ("http2-settings", "AAMAAABk"),
            ("upgrade", "h2c"),
            ("proxy-connection", "x"),
        ];
        assert_eq!(for_client(map(&pairs)).len(), 0);
        let mut trailers = map(&[("transfer-encoding", "chunked"), ("content-length", "1"), ("x-sum", "1")]);
        strip_trailers(&mut trailers);
        assert_eq!(trailers, map(&[("x-sum", "1")]));
    }

    #[test]
    fn credentials_from_both_headers() {
        let both = map(&[("authorization", "bearer  a "), ("x-api-key", "b")]);
        assert_eq!(credentials(&both).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(credentials(&map(&[("authorization", "Basic a")])).count(), 0);
    }
}
