//! Which headers go on, and which belong to one connection only.

use http::HeaderMap;
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE,
    EXPECT, HOST, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};

use crate::secret::Secret;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// The id of a request in the log.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-nerve-request-id");
/// Which conversation of Claude Code a request belongs to.
const SESSION_ID: HeaderName = HeaderName::from_static("x-claude-code-session-id");

/// Takes out what is about the connection (RFC 9110, §7.6.1) and what the next one says itself.
fn drop_hops(headers: &mut HeaderMap) {
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
        // Who names these as the connection's own would take the message apart.
        if *name != CONTENT_LENGTH && *name != CONTENT_TYPE {
            headers.remove(name);
        }
    }
}

/// The headers of a request as the upstream gets them. The body is to come uncompressed, so that its tokens can be counted.
pub(crate) fn of_request(mut headers: HeaderMap, key: Option<&Secret>) -> HeaderMap {
    drop_hops(&mut headers);
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

/// Over HTTP/2 a cookie may come in pieces, which over HTTP/1.1 must be one (RFC 9113 §8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let pieces: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if pieces.len() > 1
        && let Ok(mut whole) = HeaderValue::from_bytes(&pieces.join(&b"; "[..]))
    {
        whole.set_sensitive(true);
        headers.insert(COOKIE, whole);
    }
}

/// What comes behind a reply's body, as the client gets it.
pub(crate) fn of_trailers(trailers: &mut HeaderMap) {
    drop_hops(trailers);
    for name in [CONTENT_LENGTH, CONTENT_TYPE, HOST] {
        trailers.remove(name);
    }
}

/// The headers of a reply as the client gets them.
pub(crate) fn of_reply(mut headers: HeaderMap) -> HeaderMap {
    drop_hops(&mut headers);
    headers
}

/// `Authorization: Bearer …`; `None` if the key cannot be part of a header.
pub(crate) fn bearer(key: &Secret) -> Option<HeaderValue> {
    sensitive(&format!("Bearer {}", key.reveal()))
}

fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// What a client shows to be let in, in either of the two ways.
pub(crate) fn shown(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = text(AUTHORIZATION).and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    bearer.into_iter().chain(text(API_KEY))
}

/// A header as text; empty if it is not there or no text.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The conversation a request belongs to, where the agent says so.
pub(crate) fn session(headers: &HeaderMap) -> Option<&str> {
    Some(text(headers, &SESSION_ID)).filter(|id| !id.is_empty())
}

/// The trace that a request belongs to (W3C Trace Context, §3.2), where the agent says so.
pub(crate) fn traceparent(headers: &HeaderMap) -> Option<&str> {
    Some(text(headers, &HeaderName::from_static("traceparent"))).filter(|parent| !parent.is_empty())
}

/// Whether a body is compressed.
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
    fn hop_by_hop_headers_stay_and_the_others_go_on() {
        let asked = map(&[
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
        let sent = of_request(asked.clone(), None);
        let mut names: Vec<&str> = sent.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            ["accept-encoding", "anthropic-beta", "anthropic-beta", "authorization", "x-stainless-lang"]
        );
        assert_eq!(sent["accept-encoding"], "identity");
        assert_eq!(sent["authorization"], "Bearer theirs");
        let with_key = of_request(asked, Some(&Secret::new("ours")));
        assert_eq!(with_key["x-api-key"], "ours");
        assert!(with_key["x-api-key"].is_sensitive() && !with_key.contains_key("authorization"));
        let reply =
            of_reply(map(&[("content-length", "3"), ("transfer-encoding", "chunked"), ("request-id", "r")]));
        assert_eq!(reply.len(), 2);
    }

    #[test]
    fn pieces_of_a_cookie_become_one() {
        let sent = of_request(map(&[("cookie", "a=b"), ("cookie", "c=d; e=f")]), None);
        assert_eq!(sent.get_all("cookie").iter().collect::<Vec<_>>(), ["a=b; c=d; e=f"]);
        assert_eq!(of_request(map(&[("cookie", "a=b")]), None)["cookie"], "a=b");
    }

    #[test]
    fn what_only_http1_knows_stays_behind() {
        let pairs = [
            ("te", "trailers"),
            ("http2-settings", "AAMAAABk"),
            ("upgrade", "h2c"),
            ("proxy-connection", "x"),
        ];
        assert_eq!(of_reply(map(&pairs)).len(), 0);
        let mut trailers = map(&[("transfer-encoding", "chunked"), ("content-length", "1"), ("x-sum", "1")]);
        of_trailers(&mut trailers);
        assert_eq!(trailers, map(&[("x-sum", "1")]));
    }

    #[test]
    fn what_is_shown() {
        let both = map(&[("authorization", "bearer  a "), ("x-api-key", "b")]);
        assert_eq!(shown(&both).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(shown(&map(&[("authorization", "Basic a")])).count(), 0);
    }
}
