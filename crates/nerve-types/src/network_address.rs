//! Hosts and ports of network addresses.

use std::net::IpAddr;

/// Splits `HOST:PORT` or `[IPV6]:PORT`. Returns the host without brackets; `None` if it is empty, or the port is invalid.
pub fn split_host_port(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    (!host.is_empty()).then_some((host, port.parse().ok()?))
}

/// Returns true if a host is this machine: `localhost`, or a loopback address, with or without brackets.
pub fn is_loopback(host: &str) -> bool {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_address = |host: &str| host.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback());
    host.eq_ignore_ascii_case("localhost") || is_address(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_split_into_host_and_port() {
        assert_eq!(split_host_port("localhost:4000"), Some(("localhost", 4000)));
        assert_eq!(split_host_port("[::1]:4000"), Some(("::1", 4000)));
        for wrong in ["", "localhost", ":4000", "::1:4000", "[::1:4000", "a:b", "a:70000", "http://a:1/"] {
            assert_eq!(split_host_port(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn loopback_is_a_name_or_an_address() {
        for local in ["localhost", "LocalHost", "127.0.0.1", "127.9.9.9", "::1", "[::1]", "::ffff:127.0.0.1"]
        {
            assert!(is_loopback(local), "{local}");
        }
        for remote in
            ["", "localhost.example.com", "10.0.0.1", "::2", "[::ffff:10.0.0.1]", "127.0.0.1.example"]
        {
            assert!(!is_loopback(remote), "{remote}");
        }
    }
}
