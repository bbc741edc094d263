//! Who is let in. A page in a browser is not: it could spend the proxy's key.

use http::header::{HOST, HeaderMap, ORIGIN};
use http::uri::Authority;
use http::{StatusCode, Uri};

use crate::fault::Fault;
use crate::headers;
use crate::secret::Secret;
use crate::upstream::is_loopback;

/// Looks at a request before its body is read.
///
/// # Errors
/// 403 for a `Host` or an `Origin` that is not this machine, 401 for a missing or wrong token.
pub(crate) fn check(headers: &HeaderMap, token: Option<&Secret>) -> Result<(), Fault> {
    let forbidden = |message| Err(Fault::new(StatusCode::FORBIDDEN, message));
    // A foreign name that was made to point here (DNS rebinding) still stands in the header.
    let host = headers::text(headers, &HOST).parse::<Authority>();
    if !host.is_ok_and(|host| is_loopback(host.host())) {
        return forbidden("the proxy is asked under a foreign name: use http://127.0.0.1:PORT");
    }
    if headers.contains_key(ORIGIN) {
        let origin = headers::text(headers, &ORIGIN).parse::<Uri>();
        if !origin.is_ok_and(|origin| origin.host().is_some_and(is_loopback)) {
            return forbidden("the proxy is not for pages of other sites");
        }
    }
    match token {
        Some(token) if !headers::shown(headers).any(|shown| token.is(shown)) => Err(Fault::new(
            StatusCode::UNAUTHORIZED,
            "the proxy wants its token, as Authorization: Bearer or as x-api-key",
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn status(pairs: &[(&'static str, &'static str)], token: Option<&str>) -> u16 {
        let mut map = HeaderMap::new();
        pairs.iter().for_each(|(name, value)| {
            map.append(*name, HeaderValue::from_static(value));
        });
        let token = token.map(Secret::new);
        check(&map, token.as_ref()).map_or_else(|fault| fault.status.as_u16(), |()| 200)
    }

    #[test]
    fn only_this_machine() {
        for host in ["127.0.0.1:80", "localhost", "LOCALHOST:1", "[::1]:1"] {
            assert_eq!(status(&[("host", host)], None), 200, "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example:80", "", "a b", "localhost@evil.example"] {
            assert_eq!(status(&[("host", host)], None), 403, "{host}");
        }
        assert_eq!(status(&[], None), 403);
        assert_eq!(status(&[("host", "localhost"), ("origin", "http://localhost:3000")], None), 200);
        for origin in ["https://evil.example", "null", "", "file://"] {
            assert_eq!(status(&[("host", "localhost"), ("origin", origin)], None), 403, "{origin}");
        }
    }

    #[test]
    fn only_with_the_token() {
        let with = |name, value| status(&[("host", "localhost"), (name, value)], Some("t0ken"));
        assert_eq!(with("authorization", "Bearer t0ken"), 200);
        assert_eq!(with("x-api-key", "t0ken"), 200);
        for wrong in ["t0ke", "t0ken2", "", "T0KEN"] {
            assert_eq!(with("x-api-key", wrong), 401, "{wrong}");
        }
        assert_eq!(with("x-app", "t0ken"), 401);
    }
}
