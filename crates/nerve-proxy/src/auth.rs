//! Decides which requests may use the proxy. Pages in a browser may not: they could spend the proxy's key.

use std::net::IpAddr;

use http::header::{HOST, HeaderName, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{StatusCode, Version};

use crate::api_error::ApiError;
use crate::headers;
use crate::secret::Secret;

/// Relation between a page and the target of its request. Browsers set this header, and pages cannot.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Checks the head of a request before its body is read.
///
/// # Errors
/// 400 for a missing or ambiguous host, 403 for a foreign host name or a page in a browser, 401 for a missing or wrong
/// token.
pub(crate) fn check(head: &Parts, token: Option<&Secret>) -> Result<(), ApiError> {
    let forbidden = |message| Err(ApiError::new(StatusCode::FORBIDDEN, message));
    // DNS rebinding makes a foreign name resolve to this machine, but the header still contains the name.
    if !is_loopback_host(&host(head)?) {
        return forbidden("the proxy does not serve this host name: use http://127.0.0.1:PORT");
    }
    // Agents send no Origin. Even an origin on this machine may be a page of any author.
    let is_browser = head.headers.contains_key(ORIGIN)
        || head
            .headers
            .get_all(SEC_FETCH_SITE)
            .iter()
            .any(|site| !matches!(site.as_bytes(), b"none" | b"same-origin"));
    if is_browser {
        return forbidden("the proxy does not serve pages in a browser");
    }
    match token {
        Some(token) if !headers::credentials(&head.headers).any(|credentials| token.matches(credentials)) => {
            Err(ApiError::new(
                StatusCode::UNAUTHORIZED,
                "the proxy requires its token, as Authorization: Bearer or x-api-key",
            ))
        }
        _ => Ok(()),
    }
}

/// Returns the host that a request is for. A host in the request line takes precedence over Host (RFC 9112 §3.2.2); if
/// both are present, they must match. In HTTP/2 it is `:authority`, and Host is optional (RFC 9113 §8.3.1).
fn host(head: &Parts) -> Result<Authority, ApiError> {
    let mut all = head.headers.get_all(HOST).iter();
    let host = match (all.next(), all.next(), head.uri.authority()) {
        (Some(host), None, _) => host,
        (None, None, Some(authority)) if head.version == Version::HTTP_2 => return Ok(authority.clone()),
        _ => return Err(ApiError::bad_request("the request must have exactly one Host")),
    };
    let host = Authority::try_from(host.as_bytes()).map_err(|_| ApiError::bad_request("Host is invalid"))?;
    match head.uri.authority() {
        Some(authority) if *authority != host => {
            Err(ApiError::bad_request("the URL and Host name different hosts"))
        }
        _ => Ok(host),
    }
}

/// Returns true for a loopback address, or a name that always resolves to one.
fn is_loopback_host(host: &Authority) -> bool {
    if host.as_str().contains('@') {
        return false;
    }
    let name = host.host();
    let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    if let Ok(address) = inner.parse::<IpAddr>() {
        return address.to_canonical().is_loopback();
    }
    let name = name.to_ascii_lowercase();
    let name = name.strip_suffix('.').unwrap_or(&name);
    name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn status_of(uri: &str, lines: &[(&str, &str)], token: Option<&str>) -> u16 {
        let request =
            lines.iter().fold(Request::post(uri), |request, (name, value)| request.header(*name, *value));
        let (head, ()) = request.body(()).unwrap().into_parts();
        let token = token.map(Secret::new);
        check(&head, token.as_ref()).map_or_else(|error| error.status.as_u16(), |()| 200)
    }

    fn status(lines: &[(&str, &str)]) -> u16 {
        status_of("/v1/messages", lines, None)
    }

    #[test]
    fn only_loopback_hosts_are_served() {
        for host in [
            "127.0.0.1:80",
            "localhost",
            "LOCALHOST:1",
            "[::1]:1",
            "127.8.8.8",
            "localhost.",
            "a.localhost:1",
        ] {
            assert_eq!(status(&[("host", host)]), 200, "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example:80",
            "localhost@evil.example",
            "evil@127.0.0.1",
            "evil:x@localhost:1",
            "0.0.0.0",
            "10.0.0.1",
            "2130706433",
        ] {
            assert_eq!(status(&[("host", host)]), 403, "{host}");
        }
        for host in ["", "a b", "localhost/x"] {
            assert_eq!(status(&[("host", host)]), 400, "{host}");
        }
    }

    #[test]
    fn host_must_be_unambiguous() {
        assert_eq!(status(&[]), 400);
        for second in ["evil.example", "localhost"] {
            assert_eq!(status(&[("host", "localhost"), ("host", second)]), 400, "{second}");
        }
        let at = |uri| status_of(uri, &[("host", "localhost:80")], None);
        assert_eq!(at("http://localhost:80/v1/messages"), 200);
        for foreign in
            ["http://evil.example/v1/messages", "http://localhost:81/", "http://evil@localhost:80/"]
        {
            assert_eq!(at(foreign), 400, "{foreign}");
        }
    }

    #[test]
    fn http2_host_is_the_authority() {
        let at = |uri: &str, lines: &[(&str, &str)]| {
            let request = Request::post(uri).version(Version::HTTP_2);
            let request = lines.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            let (head, ()) = request.body(()).unwrap().into_parts();
            check(&head, None).map_or_else(|error| error.status.as_u16(), |()| 200)
        };
        assert_eq!(at("http://localhost:80/v1/messages", &[]), 200);
        assert_eq!(at("http://LOCALHOST:80/", &[("host", "localhost:80")]), 200);
        assert_eq!(at("/v1/messages", &[("host", "localhost:80")]), 200, "no :authority");
        assert_eq!(at("http://evil.example/", &[]), 403);
        assert_eq!(at("http://evil@localhost/", &[]), 403);
        assert_eq!(at("/v1/messages", &[]), 400);
        assert_eq!(at("http://localhost/", &[("host", "evil.example")]), 400);
        assert_eq!(at("http://localhost/", &[("host", "localhost"), ("host", "localhost")]), 400);
    }

    #[test]
    fn browser_pages_are_rejected() {
        let with = |name, value| status(&[("host", "localhost"), (name, value)]);
        for origin in
            ["https://evil.example", "null", "", "file://", "http://localhost:3000", "http://localhost"]
        {
            assert_eq!(with("origin", origin), 403, "{origin}");
        }
        for site in ["cross-site", "same-site", "", "what"] {
            assert_eq!(with("sec-fetch-site", site), 403, "{site}");
        }
        assert_eq!((with("sec-fetch-site", "none"), with("sec-fetch-mode", "cors")), (200, 200));
    }

    #[test]
    fn token_is_required() {
        let with = |name, value| status_of("/", &[("host", "localhost"), (name, value)], Some("t0ken"));
        assert_eq!(with("authorization", "Bearer t0ken"), 200);
        assert_eq!(with("x-api-key", "t0ken"), 200);
        for wrong in ["t0ke", "t0ken2", "", "T0KEN"] {
            assert_eq!(with("x-api-key", wrong), 401, "{wrong}");
        }
        assert_eq!(with("x-app", "t0ken"), 401);
    }
}
