//! Network listeners of a server and their access options.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args};

#[derive(Debug, Clone, Default, Args)]
#[command(group = ArgGroup::new("network").multiple(true).args(["tcp", "http", "port"]))]
pub struct ListenArgs {
    /// Also listen for the line protocol over TCP: PORT or IP:PORT; port 0 picks a free one
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub tcp: Option<SocketAddr>,
    /// Also listen for HTTP and WebSocket: PORT or IP:PORT; port 0 picks a free one
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub http: Option<SocketAddr>,
    #[command(flatten)]
    pub access: AccessArgs,
    /// Let clients over HTTP use the nodes of all machines in 'nerve machine list'
    #[arg(long, requires = "http")]
    pub machines: bool,
    /// IP address of --port (older form of --tcp)
    #[arg(long, hide = true, value_name = "IP", requires = "port")]
    pub host: Option<String>,
    /// TCP port (older form of --tcp)
    #[arg(long, hide = true, value_name = "PORT", conflicts_with = "tcp")]
    pub port: Option<u16>,
}

/// Access options of network listeners. The command must have an option `http`, and a group `network` of its address options.
#[derive(Debug, Clone, Default, Args)]
pub struct AccessArgs {
    /// Host name accepted over HTTP, in addition to localhost and addresses; repeatable
    #[arg(long, value_name = "NAME", requires = "http")]
    pub http_name: Vec<String>,
    /// TLS certificate chain (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key", requires = "network")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM, not encrypted)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// File with the access token; created if missing
    #[arg(long, value_name = "FILE", requires = "network")]
    pub token_file: Option<PathBuf>,
    /// Allow a non-loopback address without TLS: others on the network can read the token
    #[arg(long, requires = "network")]
    pub insecure: bool,
}

/// Parses `PORT`, `:PORT`, `localhost:PORT`, `IP:PORT` or `[IPv6]:PORT`. The default IP is loopback.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost:").or_else(|| text.strip_prefix(':')).unwrap_or(text);
    match port.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::from(([127, 0, 0, 1], port))),
        Err(_) => {
            text.parse().map_err(|_| "expected PORT or IP:PORT, such as 7070 or 127.0.0.1:7070".to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_without_ip_is_loopback() {
        for text in ["7070", ":7070", "localhost:7070", "127.0.0.1:7070"] {
            assert_eq!(address(text).unwrap().to_string(), "127.0.0.1:7070", "{text}");
        }
        assert_eq!(address("[::]:0").unwrap().to_string(), "[::]:0");
        for text in ["", "70700", "example.com:1", "127.0.0.1", "::1", "127.0.0.1:x", "-1"] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
