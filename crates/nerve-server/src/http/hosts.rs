//! Under which names this server may be called, and from which pages.
//!
//! A page somewhere can make the name of its own server mean 127.0.0.1 (DNS rebinding), and then its scripts count as ours for the
//! browser. But the browser sends that name as `Host`. So only names are taken that nobody else can give out.

use std::net::IpAddr;

use http::uri::{Authority, Scheme, Uri};

/// The names that are taken.
#[derive(Debug, Clone)]
pub(crate) struct AllowedHosts {
    /// In lower case.
    names: Vec<String>,
    /// It listens on loopback only: other addresses are not its own.
    loopback: bool,
}

impl AllowedHosts {
    /// `names`: those beside loopback's own.
    pub(crate) fn new(names: &[String], address: IpAddr) -> AllowedHosts {
        AllowedHosts {
            names: names.iter().map(|name| name.to_ascii_lowercase()).collect(),
            loopback: address.to_canonical().is_loopback(),
        }
    }

    /// Whether a request may name its host so. The port does not count: it may have been forwarded.
    pub(crate) fn allows(&self, host: &Authority) -> bool {
        if host.as_str().contains('@') {
            return false;
        }
        match ip(host.host()) {
            // No name: there is nothing to rebind.
            Some(address) => !self.loopback || address.to_canonical().is_loopback(),
            None => {
                let name = host.host().to_ascii_lowercase();
                let name = name.strip_suffix('.').unwrap_or(&name);
                name == "localhost"
                    || name.ends_with(".localhost")
                    || self.names.iter().any(|known| known == name)
            }
        }
    }
}

/// An address where a name might stand.
fn ip(host: &str) -> Option<IpAddr> {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    inner.unwrap_or(host).parse().ok()
}

/// Whether a page of this origin is one of the server that is called `host`.
pub(crate) fn is_same_origin(origin: &[u8], host: &Authority) -> bool {
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
    fn loopback_and_the_names_given_are_taken_and_nothing_else() {
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
            "2130706433",
        ] {
            assert!(!hosts.allows(&authority(bad)), "{bad}");
        }
        let open = AllowedHosts::new(&[], "0.0.0.0".parse().unwrap());
        assert!(open.allows(&authority("10.0.0.1:7")) && !open.allows(&authority("evil.example")));
    }

    #[test]
    fn only_pages_of_the_same_host_and_port_are_its_own() {
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
