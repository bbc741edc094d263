//! TLS of a client: which servers it believes.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::ClientError;

/// How a client over TCP knows that it talks to its server, and that nobody else listens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Tls {
    /// Not at all: token, prompts and answers go over the network as they are. For loopback, and networks that are your own.
    #[default]
    Off,
    /// By TLS, with a certificate of one of the usual authorities (those of Mozilla, built in).
    Public,
    /// By TLS, with a certificate of these authorities alone: certificates in PEM. A server's own certificate will do, if it is not
    /// marked as one of an authority.
    Authorities(Vec<u8>),
}

impl Tls {
    /// Speaks TLS to the server that is called `host`: a name, or an IP address.
    pub(crate) async fn connect(
        &self,
        stream: TcpStream,
        host: &str,
    ) -> Result<TlsStream<TcpStream>, ClientError> {
        let name = ServerName::try_from(host.to_string()).map_err(|error| {
            ClientError::Protocol(format!("{host:?} cannot be in a certificate: {error}"))
        })?;
        let connector = TlsConnector::from(Arc::new(self.config()?));
        connector
            .connect(name, stream)
            .await
            .map_err(|source| ClientError::Io { action: format!("no TLS with {host}"), source })
    }

    fn config(&self) -> Result<ClientConfig, ClientError> {
        let invalid = |error: &dyn std::fmt::Display| {
            ClientError::Protocol(format!("the authorities' certificates: {error}"))
        };
        let mut roots = RootCertStore::empty();
        match self {
            Tls::Off => {}
            Tls::Public => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Tls::Authorities(pem) => {
                for cert in CertificateDer::pem_slice_iter(pem) {
                    roots.add(cert.map_err(|error| invalid(&error))?).map_err(|error| invalid(&error))?;
                }
                if roots.is_empty() {
                    return Err(invalid(&"there is none"));
                }
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        Ok(builder.map_err(|error| invalid(&error))?.with_root_certificates(roots).with_no_client_auth())
    }
}

/// Host and port of `host:port` or `[ipv6]:port`.
pub(crate) fn split_host_port(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    (!host.is_empty()).then_some((host, port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        assert_eq!(split_host_port("localhost:4000"), Some(("localhost", 4000)));
        assert_eq!(split_host_port("[::1]:4000"), Some(("::1", 4000)));
        for wrong in ["", "localhost", ":4000", "::1:4000", "[::1:4000", "a:b", "a:70000", "http://a:1/"] {
            assert_eq!(split_host_port(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_no_certificate_is_refused_before_anybody_is_asked() {
        for pem in ["", "hello", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(Tls::Authorities(pem.into()).config().is_err(), "{pem:?}");
        }
        assert!(Tls::Public.config().is_ok());
    }
}
