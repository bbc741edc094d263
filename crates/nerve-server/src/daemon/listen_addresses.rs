//! The network addresses of a server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::lock::read_held;
use crate::error::ServerError;
use crate::paths::ServerPaths;

/// Network addresses that a server listens on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Address of the line protocol.
    pub tcp: Option<SocketAddr>,
    /// Address of HTTP.
    pub http: Option<SocketAddr>,
    /// True if both use TLS.
    pub tls: bool,
    /// True if clients over HTTP may use the nodes of other machines.
    pub machines: bool,
}

impl Addresses {
    /// Returns the addresses as `tcp://…` and `http://…`, or with TLS as `tls://…` and `https://…`.
    pub fn urls(&self) -> Vec<String> {
        let (tcp, http) = if self.tls { ("tls", "https") } else { ("tcp", "http") };
        let url = |scheme: &str, address: &SocketAddr| format!("{scheme}://{address}");
        let tcp = self.tcp.iter().map(|address| url(tcp, address));
        tcp.chain(self.http.iter().map(|address| url(http, address))).collect()
    }

    /// Returns the URL of HTTP for clients on this machine, without a path. If the server listens on all addresses, the
    /// URL is that of loopback.
    pub fn local_http_url(&self) -> Option<String> {
        let mut address = self.http?;
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        let scheme = if self.tls { "https" } else { "http" };
        Some(format!("{scheme}://{address}"))
    }
}

/// Returns the network addresses of the server that owns a name, as written in its lock file.
///
/// # Errors
/// See [`super::holder`].
pub fn addresses(paths: &ServerPaths, name: &str) -> Result<Addresses, ServerError> {
    let mut addresses = Addresses::default();
    let text = read_held(&paths.lock(name)?)?.unwrap_or_default();
    for line in text.lines().skip(1) {
        match line.split_once(' ') {
            Some(("tcp", address)) => addresses.tcp = address.parse().ok(),
            Some(("http", address)) => addresses.http = address.parse().ok(),
            _ => {
                addresses.tls |= line == "tls";
                addresses.machines |= line == "machines";
            }
        }
    }
    Ok(addresses)
}
