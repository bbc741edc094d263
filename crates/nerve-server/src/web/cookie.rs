//! The cookie of a web session, and the checks of requests that browsers send with it.

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use super::session::SESSION_LIFETIME;

/// Describes the relation of a request's site to its target (Fetch Metadata). Browsers set it; scripts cannot.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The cookie of one server's sessions. Cookies are sent to all ports of a host, so each server has a name of its own.
#[derive(Debug)]
pub(crate) struct SessionCookie {
    name: String,
    is_secure: bool,
}

impl SessionCookie {
    /// Creates the cookie of a server. `is_secure` states whether the server uses TLS.
    pub(crate) fn new(server: &str, is_secure: bool) -> SessionCookie {
        // The prefix makes browsers refuse the cookie unless it is Secure, has the path / and no domain (RFC 6265bis).
        let prefix = if is_secure { "__Host-" } else { "" };
        SessionCookie { name: format!("{prefix}nerve-session-{server}"), is_secure }
    }

    /// Returns the secret in the cookie of a request.
    pub(crate) fn read<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.name).map(|(_, value)| value)
    }

    /// Returns the header that sets the cookie.
    pub(crate) fn set(&self, secret: &str) -> Option<HeaderValue> {
        self.header(secret, SESSION_LIFETIME.as_secs())
    }

    /// Returns the header that removes the cookie.
    pub(crate) fn clear(&self) -> Option<HeaderValue> {
        self.header("", 0)
    }

    fn header(&self, value: &str, max_age: u64) -> Option<HeaderValue> {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let name = &self.name;
        let text = format!("{name}={value}; Path=/; Max-Age={max_age}; HttpOnly; SameSite=Strict{secure}");
        HeaderValue::from_str(&text).ok()
    }
}

/// Checks a request that is authenticated by a cookie, which browsers also add to requests of other pages. The gate has
/// already checked that an `Origin`, if there is one, is the server's own.
///
/// # Errors
/// Returns the reason why the request is refused.
pub(crate) fn check_request(
    method: &Method,
    headers: &HeaderMap,
    is_websocket: bool,
) -> Result<(), &'static str> {
    let site = headers.get(FETCH_SITE).map(HeaderValue::as_bytes);
    if site.is_some_and(|site| site != b"same-origin" && site != b"none") {
        return Err("requests of other pages are rejected");
    }
    let is_read = *method == Method::GET || *method == Method::HEAD;
    if is_read && !is_websocket {
        return Ok(());
    }
    if !headers.contains_key(header::ORIGIN) {
        return Err("a request with a session cookie needs an Origin");
    }
    // A form of another page cannot send JSON.
    if !is_read && *method != Method::DELETE && !is_json(headers) {
        return Err("a request with a session cookie needs 'Content-Type: application/json'");
    }
    Ok(())
}

/// Returns true if the body is JSON.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(HeaderName, &'static str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn cookie_is_read_by_its_exact_name() {
        let cookie = SessionCookie::new("work", false);
        let sent = headers(&[(header::COOKIE, "a=b; nerve-session-work=abc; nerve-session-work2=def")]);
        assert_eq!(cookie.read(&sent), Some("abc"));
        assert_eq!(SessionCookie::new("default", false).read(&sent), None);
        assert_eq!(SessionCookie::new("work", true).read(&sent), None);
    }

    #[test]
    fn cookie_is_secure_with_tls() {
        let plain = SessionCookie::new("work", false).set("abc").unwrap();
        assert_eq!(
            plain.to_str().unwrap(),
            "nerve-session-work=abc; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict"
        );
        let secure = SessionCookie::new("work", true).set("abc").unwrap();
        let secure = secure.to_str().unwrap();
        assert!(
            secure.starts_with("__Host-nerve-session-work=abc; ") && secure.ends_with("; Secure"),
            "{secure}"
        );
    }

    #[test]
    fn changes_need_origin_and_json() {
        let origin = (header::ORIGIN, "http://localhost");
        let json = (header::CONTENT_TYPE, "application/json; charset=utf-8");
        let form = (header::CONTENT_TYPE, "text/plain");
        let (get, post) = (Method::GET, Method::POST);
        assert!(check_request(&get, &headers(&[]), false).is_ok());
        assert!(check_request(&get, &headers(&[]), true).is_err());
        assert!(check_request(&get, &headers(std::slice::from_ref(&origin)), true).is_ok());
        assert!(check_request(&post, &headers(std::slice::from_ref(&json)), false).is_err());
        assert!(check_request(&post, &headers(&[origin.clone(), form]), false).is_err());
        assert!(check_request(&post, &headers(&[origin.clone(), json]), false).is_ok());
        assert!(check_request(&Method::DELETE, &headers(&[origin]), false).is_ok());
        for (site, is_allowed) in
            [("same-origin", true), ("none", true), ("same-site", false), ("cross-site", false)]
        {
            let sent = headers(&[(FETCH_SITE, site)]);
            assert_eq!(check_request(&get, &sent, false).is_ok(), is_allowed, "{site}");
        }
    }
}
