//! What a server listens on beside its Unix socket, and who may come in there.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args};

#[derive(Debug, Clone, Default, Args)]
#[command(group = ArgGroup::new("network").multiple(true).args(["tcp", "http", "port"]))]
pub(crate) struct ListenArgs {
    /// Listen for the wire's lines over TCP too: PORT, IP:PORT; port 0 is any
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(crate) tcp: Option<SocketAddr>,
    /// Listen for HTTP and WebSocket too: PORT, IP:PORT; port 0 is any
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(crate) http: Option<SocketAddr>,
    /// Name by which clients may call it over HTTP, beside localhost and addresses; may be given again
    #[arg(long, value_name = "NAME", requires = "http")]
    pub(crate) http_name: Vec<String>,
    /// Certificate for TLS, with those that lead to an authority (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key", requires = "network")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM, not encrypted)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// File with the token that clients must know; made if it is not there
    #[arg(long, value_name = "FILE", requires = "network")]
    pub(crate) token_file: Option<PathBuf>,
    /// Allow an address that is not loopback without TLS: others on the network can read the token
    #[arg(long, requires = "network")]
    pub(crate) insecure: bool,
    /// IP of --port (older name: now --tcp)
    #[arg(long, hide = true, value_name = "IP", requires = "port")]
    pub(crate) host: Option<String>,
    /// TCP port (older name: now --tcp)
    #[arg(long, hide = true, value_name = "PORT", conflicts_with = "tcp")]
    pub(crate) port: Option<u16>,
}

/// `PORT`, `:PORT`, `localhost:PORT`, `IP:PORT`, `[IPv6]:PORT`. Without an IP, loopback is meant.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost:").or_else(|| text.strip_prefix(':')).unwrap_or(text);
    match port.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::from(([127, 0, 0, 1], port))),
        Err(_) => {
            text.parse().map_err(|_| "it must be PORT or IP:PORT, such as 7070 or 127.0.0.1:7070".to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_an_ip_is_loopback() {
        for text in ["7070", ":7070", "localhost:7070", "127.0.0.1:7070"] {
            assert_eq!(address(text).unwrap().to_string(), "127.0.0.1:7070", "{text}");
        }
        assert_eq!(address("[::]:0").unwrap().to_string(), "[::]:0");
        for text in ["", "70700", "example.com:1", "127.0.0.1", "::1", "127.0.0.1:x", "-1"] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
