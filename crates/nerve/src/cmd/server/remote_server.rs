//! Connects to servers over TCP: `--server tcp://HOST:PORT`, with TLS `tls://HOST:PORT`.

use std::io;
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_client::{ClientError, NerveClient, Reconnect, Tls};
use nerve_server::access::token::TokenFile;
use nerve_server::paths::ServerPaths;
use nerve_types::network_address::{is_loopback, split_host_port};

use crate::exit::{FAILED, Failure, NOT_FOUND, TIMED_OUT, USAGE};

/// Time limit for connecting, the TLS handshake and authentication. The server rejects a wrong token within five seconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Variable with the token. Without it, the user's token file applies, for servers on this machine.
const TOKEN: &str = "NERVE_TOKEN";
/// Variable that allows unencrypted connections.
const INSECURE: &str = "NERVE_INSECURE";
/// Variable with a PEM file of trusted certificates, which replace the public authorities.
const CA_FILE: &str = "NERVE_TLS_CA";

/// The address in a `tcp://` or `tls://` name of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NetworkAddress<'a> {
    /// `HOST:PORT`.
    address: &'a str,
    with_tls: bool,
}

impl<'a> NetworkAddress<'a> {
    /// Parses the name of a server; `None` if it is no such name.
    pub(super) fn parse(server: &'a str) -> Option<NetworkAddress<'a>> {
        let tcp = server.strip_prefix("tcp://").map(|address| NetworkAddress { address, with_tls: false });
        tcp.or_else(|| Some(NetworkAddress { address: server.strip_prefix("tls://")?, with_tls: true }))
    }
}

/// Connects and authenticates.
///
/// # Errors
/// Exit code 3 if the connection is refused; 2 if the token must not be sent to the address.
pub(super) async fn connect(server: NetworkAddress<'_>) -> Result<NerveClient> {
    let NetworkAddress { address, with_tls } = server;
    let Some((host, _)) = split_host_port(address) else {
        return Err(Failure::new(USAGE, format!("'{address}' is not HOST:PORT")).into());
    };
    let is_local = is_loopback(host);
    if !with_tls && !is_local && std::env::var_os(INSECURE).is_none_or(|value| value != "1") {
        let message = format!(
            "the connection to {address} is not encrypted: it would expose the token, prompts and answers"
        );
        return Err(Failure::new(USAGE, message)
            .hint(format!("use tls://, or set {INSECURE}=1 on a trusted network"))
            .into());
    }
    let (token, tls) = (token(address, is_local)?, if with_tls { tls()? } else { Tls::Off });
    let attempt = NerveClient::connect_tcp(address, &token, &tls);
    let Ok(result) = tokio::time::timeout(CONNECT_TIMEOUT, attempt).await else {
        let message = format!("no connection to {address} within {} s", CONNECT_TIMEOUT.as_secs());
        return Err(Failure::new(TIMED_OUT, message).into());
    };
    result.map(|client| client.reconnect(Reconnect::Never)).map_err(|error| match error {
        ClientError::Protocol(problem) => Failure::new(USAGE, problem).into(),
        // A rejected token is no error of a model's API.
        ClientError::Server(error) => Failure::from(&*error).without_model().into(),
        ClientError::Io { source, .. } if source.kind() == io::ErrorKind::ConnectionRefused => {
            Failure::new(NOT_FOUND, format!("connection to {address} refused"))
                .hint("start a server there with 'nerve server start --tcp …'")
                .into()
        }
        ClientError::Io { .. } if with_tls => Failure::new(FAILED, error.to_string())
            .hint(format!("for your own certificates, set {CA_FILE} to a PEM file"))
            .into(),
        error => error.into(),
    })
}

/// Returns the token for a server. The local token file is never used for other machines, which could misuse it.
fn token(address: &str, is_local: bool) -> Result<String> {
    if let Some(token) = std::env::var(TOKEN).ok().filter(|token| !token.is_empty()) {
        return Ok(token);
    }
    if !is_local {
        return Err(Failure::new(USAGE, format!("no token for {address}"))
            .hint(format!("set {TOKEN} to the server's token: 'nerve token show' prints it there"))
            .into());
    }
    match TokenFile::new(ServerPaths::from_env().token()).read() {
        Ok(token) => Ok(token.reveal().to_string()),
        Err(error) => Err(Failure::new(FAILED, error.to_string())
            .hint(format!("set {TOKEN} to the server's token: 'nerve token show' prints it there"))
            .into()),
    }
}

fn tls() -> Result<Tls> {
    let Some(file) = std::env::var_os(CA_FILE).filter(|file| !file.is_empty()) else {
        return Ok(Tls::Public);
    };
    let pem = std::fs::read(&file).with_context(|| format!("cannot read {} ({CA_FILE})", file.display()))?;
    Ok(Tls::Authorities(pem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_addresses() {
        let tcp = NetworkAddress { address: "localhost:1", with_tls: false };
        let tls = NetworkAddress { address: "[::1]:1", with_tls: true };
        assert_eq!(NetworkAddress::parse("default"), None);
        assert_eq!(NetworkAddress::parse("tcp://localhost:1"), Some(tcp));
        assert_eq!(NetworkAddress::parse("tls://[::1]:1"), Some(tls));
    }
}
