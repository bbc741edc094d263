//! The cookie of a web session, and the checks of requests that browsers send with it.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use super::session::SESSION_LIFETIME;

/// Describes the relation of a request's site to its target (Fetch Metadata). Browsers set it; scripts cannot.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Protocol of a request as a proxy received it.
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The cookie of one server's sessions. Cookies are sent to all ports of a host, so each server has a name of its own.
#[derive(Debug)]
pub(crate) struct SessionCookie {
    /// Name for connections without TLS.
    plain: String,
    /// Name for connections with TLS. Its prefix makes browsers refuse the cookie unless it is `Secure`, has the path `/`
    /// and no domain (RFC 6265bis).
    secure: String,
    /// True if the server uses TLS itself: then there are only secure cookies.
    has_tls: bool,
}

impl SessionCookie {
    /// Creates the cookie of a server. `has_tls` states whether the server uses TLS itself.
    pub(crate) fn new(server: &str, has_tls: bool) -> SessionCookie {
        let plain = format!("nerve-session-{server}");
        SessionCookie { secure: format!("__Host-{plain}"), plain, has_tls }
    }

    /// Returns the secret in the cookie of a request.
    pub(crate) fn read<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let secure_value = find(headers, &self.secure);
        secure_value.or_else(|| find(headers, &self.plain).filter(|_| !self.has_tls))
    }

    /// Returns the headers that set the cookie for a request from `peer`, and remove the request's cookie with the other name.
    pub(crate) fn set(&self, secret: &str, headers: &HeaderMap, peer: IpAddr) -> HeaderMap {
        let is_secure = self.has_tls || is_https(headers, peer);
        let other = if is_secure { &self.plain } else { &self.secure };
        let lifetime = SESSION_LIFETIME.as_secs();
        let set = self.header(if is_secure { &self.secure } else { &self.plain }, secret, lifetime);
        let removed = find(headers, other).and_then(|_| self.header(other, "", 0));
        set.into_iter().chain(removed).map(|value| (header::SET_COOKIE, value)).collect()
    }

    /// Returns the headers that remove the cookies of a request.
    pub(crate) fn clear(&self, headers: &HeaderMap) -> HeaderMap {
        let names = [&self.plain, &self.secure].into_iter().filter(|name| find(headers, name).is_some());
        names.filter_map(|name| Some((header::SET_COOKIE, self.header(name, "", 0)?))).collect()
    }

    fn header(&self, name: &str, value: &str, max_age: u64) -> Option<HeaderValue> {
        let secure = if *name == self.secure { "; Secure" } else { "" };
        let text = format!("{name}={value}; Path=/; Max-Age={max_age}; HttpOnly; SameSite=Strict{secure}");
        HeaderValue::from_str(&text).ok()
    }
}

/// Returns the value of a cookie of a request.
fn find<'a>(headers: &'a HeaderMap, wanted: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

/// Returns true if the browser uses `https`, although the server receives plain HTTP from a proxy. A client that pretends
/// to do so gets a cookie that its own browser refuses over `http`, and affects no other client.
fn is_https(headers: &HeaderMap, peer: IpAddr) -> bool {
    // The gate has checked that the origin is the server's own host.
    let has_origin =
        headers.get(header::ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"));
    let is_forwarded = headers.get(FORWARDED_PROTO).is_some_and(|protocol| protocol == "https");
    has_origin || (is_forwarded && peer.to_canonical().is_loopback())
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
    use std::net::Ipv4Addr;

    use super::*;

    fn headers(lines: &[(HeaderName, &'static str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn texts(headers: &HeaderMap) -> Vec<&str> {
        headers.get_all(header::SET_COOKIE).iter().map(|value| value.to_str().unwrap()).collect()
    }

    #[test]
    fn cookie_is_read_by_its_exact_name() {
        let cookie = SessionCookie::new("work", false);
        let sent = headers(&[(header::COOKIE, "a=b; nerve-session-work=abc; nerve-session-work2=def")]);
        assert_eq!(cookie.read(&sent), Some("abc"));
        assert_eq!(SessionCookie::new("default", false).read(&sent), None);
        assert_eq!(SessionCookie::new("work", true).read(&sent), None);
        let both = headers(&[(header::COOKIE, "nerve-session-work=abc; __Host-nerve-session-work=def")]);
        assert_eq!(cookie.read(&both), Some("def"));
    }

    #[test]
    fn cookie_is_secure_with_tls_of_server_or_proxy() {
        let plain = "nerve-session-work=abc; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict";
        let secure = format!("__Host-{plain}; Secure");
        let remote = IpAddr::from([10, 0, 0, 1]);
        let forwarded = [(FORWARDED_PROTO, "https")];
        type Lines<'a> = &'a [(HeaderName, &'static str)];
        let cases: [(bool, Lines<'_>, IpAddr, &str); 6] = [
            (false, &[], LOCAL, plain),
            (true, &[], remote, &secure),
            (false, &forwarded, LOCAL, &secure),
            (false, &forwarded, remote, plain),
            (false, &[(header::ORIGIN, "https://host.example")], remote, &secure),
            (false, &[(header::ORIGIN, "http://host.example")], LOCAL, plain),
        ];
        for (has_tls, lines, peer, expected) in cases {
            let set = SessionCookie::new("work", has_tls).set("abc", &headers(lines), peer);
            assert_eq!(texts(&set), [expected], "{lines:?}");
        }
    }

    #[test]
    fn other_cookie_of_the_browser_is_removed() {
        let cookie = SessionCookie::new("work", false);
        let sent = headers(&[(header::COOKIE, "__Host-nerve-session-work=old")]);
        let removed = "__Host-nerve-session-work=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict; Secure";
        assert_eq!(texts(&cookie.set("abc", &sent, LOCAL))[1..], [removed]);
        assert_eq!(texts(&cookie.clear(&sent)), [removed]);
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
