//! Decides which requests may use the proxy. Pages in a browser may not: they could spend the proxy's key.

use std::net::Ipv4Addr;

use http::StatusCode;
use http::header::{HeaderName, ORIGIN};
use http::request::Parts;
use nerve_llm::request_host::{self, AllowedHosts};

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
    let host = request_host::requested_host(head).map_err(ApiError::bad_request)?;
    if !AllowedHosts::new(&[], Ipv4Addr::LOCALHOST.into()).allows(&host) {
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

#[cfg(test)]
mod tests {
    use http::{Request, Version};

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
        for (host, wanted) in
            [("127.0.0.1:80", 200), ("LOCALHOST:1", 200), ("evil.example", 403), ("10.0.0.1", 403)]
        {
            assert_eq!(status(&[("host", host)]), wanted, "{host}");
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
