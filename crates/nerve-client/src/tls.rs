//! Client-side TLS.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::ClientError;

/// TLS mode of a client, and the certificate authorities it trusts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Tls {
    /// No TLS: token, prompts and answers are sent in plain text. For loopback and trusted networks.
    #[default]
    Off,
    /// TLS with the public certificate authorities of Mozilla, which are built in.
    Public,
    /// TLS with these certificate authorities only, in PEM. A server's self-signed certificate works unless
    /// it is marked as a CA.
    Authorities(Vec<u8>),
}

impl Tls {
    /// Performs the TLS handshake with the server `host`, a name or an IP address.
    pub(crate) async fn connect(
        &self,
        stream: TcpStream,
        host: &str,
    ) -> Result<TlsStream<TcpStream>, ClientError> {
        let name = ServerName::try_from(host.to_string()).map_err(|error| {
            ClientError::Protocol(format!("{host:?} is not a valid server name: {error}"))
        })?;
        let connector = TlsConnector::from(Arc::new(self.config()?));
        connector
            .connect(name, stream)
            .await
            .map_err(|source| ClientError::Io { action: format!("TLS handshake with {host} failed"), source })
    }

    fn config(&self) -> Result<ClientConfig, ClientError> {
        let invalid = |error: &dyn std::fmt::Display| {
            ClientError::Protocol(format!("invalid CA certificates: {error}"))
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
                    return Err(invalid(&"no certificates found"));
                }
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        Ok(builder.map_err(|error| invalid(&error))?.with_root_certificates(roots).with_no_client_auth())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_certificates_are_rejected_before_connecting() {
        for pem in ["", "hello", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(Tls::Authorities(pem.into()).config().is_err(), "{pem:?}");
        }
        assert!(Tls::Public.config().is_ok());
    }
}
