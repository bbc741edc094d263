//! The host that a request to an HTTP server names, and the check of Host and Origin.
//!
//! With DNS rebinding, a web page makes its own domain resolve to 127.0.0.1, and the browser then treats its requests to this server as
//! same-origin. The browser still sends that domain as `Host`. Only names that no one else can assign are therefore allowed.

use std::net::IpAddr;

use http::Version;
use http::header::HOST;
use http::request::Parts;
use http::uri::{Authority, Scheme, Uri};

/// Returns the host that a request addresses. An absolute URL in HTTP/1.1 takes precedence (RFC 9112 §3.2.2), but must match the Host
/// header. In HTTP/2, `:authority` is sufficient (RFC 9113 §8.3.1).
///
/// # Errors
/// Returns the reason if there is no host, more than one, or an invalid one.
pub fn requested_host(request: &Parts) -> Result<Authority, &'static str> {
    let mut headers = request.headers.get_all(HOST).iter();
    let host = match (headers.next(), headers.next(), request.uri.authority()) {
        (Some(host), None, _) => host,
        (None, None, Some(named)) if request.version == Version::HTTP_2 => return Ok(named.clone()),
        _ => return Err("a request must have exactly one Host"),
    };
    let host = Authority::try_from(host.as_bytes()).map_err(|_| "Host is invalid")?;
    match request.uri.authority() {
        Some(named) if *named != host => Err("the URL and Host name different hosts"),
        _ => Ok(host),
    }
}

/// The host names that requests may use.
#[derive(Debug, Clone)]
pub struct AllowedHosts {
    /// Names in lower case.
    names: Vec<String>,
    /// The server listens on loopback only, so other addresses cannot be its own.
    loopback: bool,
}

impl AllowedHosts {
    /// Creates the set. `names`: those in addition to loopback's.
    pub fn new(names: &[String], address: IpAddr) -> AllowedHosts {
        AllowedHosts {
            names: names.iter().map(|name| name.to_ascii_lowercase()).collect(),
            loopback: address.to_canonical().is_loopback(),
        }
    }

    /// Returns true if a request may use this host. The port is ignored, because it may have been forwarded.
    pub fn allows(&self, host: &Authority) -> bool {
        if host.as_str().contains('@') {
            return false;
        }
        match ip(host.host()) {
            // An address cannot be rebound.
            Some(address) => !self.loopback || address.to_canonical().is_loopback(),
            None => {
                let name = host.host().to_ascii_lowercase();
                let name = name.strip_suffix('.').unwrap_or(&name);
                name == "localhost"
                    || name.ends_with(".localhost")
                    || self.names.iter().any(|allowed| allowed == name)
            }
        }
    }
}

/// Parses a host that is an address.
fn ip(host: &str) -> Option<IpAddr> {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    inner.unwrap_or(host).parse().ok()
}

/// Returns true if `origin` has the same host and port as `host`.
pub fn is_same_origin(origin: &[u8], host: &Authority) -> bool {
    let Ok(origin) = Uri::try_from(origin) else { return false };
    let (Some(scheme), Some(authority)) = (origin.scheme(), origin.authority()) else { return false };
    let usual = match scheme {
        scheme if *scheme == Scheme::HTTP => 80,
        scheme if *scheme == Scheme::HTTPS => 443,
        _ => return false,
    };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(usual);
    authority.host().eq_ignore_ascii_case(host.host()) && port(authority) == port(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority(text: &str) -> Authority {
        text.parse().unwrap()
    }

    #[test]
    fn loopback_and_configured_names_are_allowed() {
        let hosts = AllowedHosts::new(&["nerve.example".to_string()], "127.0.0.1".parse().unwrap());
        for good in [
            "localhost",
            "LOCALHOST:9",
            "127.0.0.1:80",
            "127.8.8.8",
            "[::1]:7",
            "Nerve.Example:7",
            "a.localhost",
            "localhost.",
        ] {
            assert!(hosts.allows(&authority(good)), "{good}");
        }
        for bad in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "nerve.example.evil",
            "10.0.0.1",
            "0.0.0.0",
            "[2001:db8::1]",
            "user@localhost",
            "evil:x@localhost:1",
            "localhost@evil.example",
            "2130706433",
        ] {
            assert!(!hosts.allows(&authority(bad)), "{bad}");
        }
        let open = AllowedHosts::new(&[], "0.0.0.0".parse().unwrap());
        assert!(open.allows(&authority("10.0.0.1:7")) && !open.allows(&authority("evil.example")));
    }

    #[test]
    fn origin_needs_same_host_and_port() {
        let host = authority("localhost:8080");
        assert!(is_same_origin(b"http://localhost:8080", &host));
        assert!(is_same_origin(b"https://LOCALHOST:8080", &host));
        assert!(is_same_origin(b"https://nerve.example", &authority("nerve.example")));
        for foreign in [
            &b"http://localhost:3000"[..],
            b"http://localhost",
            b"http://evil.example:8080",
            b"null",
            b"",
            b"file://localhost:8080",
            b"\xff\xfe",
        ] {
            assert!(!is_same_origin(foreign, &host), "{}", String::from_utf8_lossy(foreign));
        }
    }
}
