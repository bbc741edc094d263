//! Who is let in. A page in a browser is not: it could spend the proxy's key.

use std::net::IpAddr;

use http::header::{HOST, HeaderName, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{StatusCode, Version};

use crate::api_error::Fault;
use crate::headers;
use crate::secret::Secret;

/// How a page stands to where it sends a request; browsers say it, and a page cannot set it.
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Looks at a request before its body is read.
///
/// # Errors
/// 400 for a request that does not say clearly whom it is for, 403 for a name that is not this machine's and for a page of a browser, 401
/// for a missing or wrong token.
pub(crate) fn check(head: &Parts, token: Option<&Secret>) -> Result<(), Fault> {
    let forbidden = |message| Err(Fault::new(StatusCode::FORBIDDEN, message));
    // A foreign name that was made to point here (DNS rebinding) still stands in the header.
    if !is_own(&host(head)?) {
        return forbidden("the proxy is asked under a foreign name: use http://127.0.0.1:PORT");
    }
    // Agents send no Origin. One of this machine may still be a page of anybody's.
    let of_a_page = head.headers.contains_key(ORIGIN)
        || head.headers.get_all(SITE).iter().any(|site| !matches!(site.as_bytes(), b"none" | b"same-origin"));
    if of_a_page {
        return forbidden("the proxy is for agents, not for pages in a browser");
    }
    match token {
        Some(token) if !headers::shown(&head.headers).any(|shown| token.is(shown)) => Err(Fault::new(
            StatusCode::UNAUTHORIZED,
            "the proxy wants its token, as Authorization: Bearer or as x-api-key",
        )),
        _ => Ok(()),
    }
}

/// Whom a request is for. Where both are there, the one in its first line counts (RFC 9112 §3.2.2), and neither may lie. In HTTP/2 that is
/// `:authority`, and Host may be left out (RFC 9113 §8.3.1).
fn host(head: &Parts) -> Result<Authority, Fault> {
    let mut all = head.headers.get_all(HOST).iter();
    let host = match (all.next(), all.next(), head.uri.authority()) {
        (Some(host), None, _) => host,
        (None, None, Some(named)) if head.version == Version::HTTP_2 => return Ok(named.clone()),
        _ => return Err(Fault::bad_request("the proxy wants one Host")),
    };
    let host = Authority::try_from(host.as_bytes())
        .map_err(|_| Fault::bad_request("the proxy cannot read Host: it is no host"))?;
    match head.uri.authority() {
        Some(named) if *named != host => {
            Err(Fault::bad_request("the proxy finds another host in the URL than in Host"))
        }
        _ => Ok(host),
    }
}

/// Whether it is loopback, by address or by a name that nobody else can give out.
fn is_own(host: &Authority) -> bool {
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
        check(&head, token.as_ref()).map_or_else(|fault| fault.status.as_u16(), |()| 200)
    }

    fn status(lines: &[(&str, &str)]) -> u16 {
        status_of("/v1/messages", lines, None)
    }

    #[test]
    fn only_under_a_name_of_this_machine() {
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
    fn it_is_said_once_whom_a_request_is_for() {
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
    fn over_http2_the_authority_says_it() {
        let at = |uri: &str, lines: &[(&str, &str)]| {
            let request = Request::post(uri).version(Version::HTTP_2);
            let request = lines.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            let (head, ()) = request.body(()).unwrap().into_parts();
            check(&head, None).map_or_else(|fault| fault.status.as_u16(), |()| 200)
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
    fn no_page_is_let_in() {
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
    fn only_with_the_token() {
        let with = |name, value| status_of("/", &[("host", "localhost"), (name, value)], Some("t0ken"));
        assert_eq!(with("authorization", "Bearer t0ken"), 200);
        assert_eq!(with("x-api-key", "t0ken"), 200);
        for wrong in ["t0ke", "t0ken2", "", "T0KEN"] {
            assert_eq!(with("x-api-key", wrong), 401, "{wrong}");
        }
        assert_eq!(with("x-app", "t0ken"), 401);
    }
}
