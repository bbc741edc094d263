//! Certificate and private key of a server.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::ServerError;

/// Paths of a certificate and its key, both in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain, the server's own certificate first.
    pub cert: PathBuf,
    /// The private key: PKCS #8, PKCS #1 or SEC 1, not encrypted.
    pub key: PathBuf,
}

impl TlsFiles {
    /// Loads both files into a configuration for TLS 1.2 and 1.3. `alpn`: the offered protocols.
    ///
    /// # Errors
    /// Returns [`ServerError::BadTls`] if a file cannot be read or parsed, the key is readable by every user,
    /// or key and certificate do not match.
    pub fn load(&self, alpn: &[&[u8]]) -> Result<Arc<rustls::ServerConfig>, ServerError> {
        let certs = self.certs()?;
        if fs::metadata(&self.key).is_ok_and(|meta| meta.mode() & 0o007 != 0) {
            return Err(bad(&self.key, "private key", &"it is readable by every user"));
        }
        let key =
            PrivateKeyDer::from_pem_file(&self.key).map_err(|error| bad(&self.key, "private key", &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions =
            rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = versions.and_then(|builder| builder.with_no_client_auth().with_single_cert(certs, key));
        let mut config = config.map_err(|error| bad(&self.cert, "certificate that fits the key", &error))?;
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Arc::new(config))
    }

    fn certs(&self) -> Result<Vec<CertificateDer<'static>>, ServerError> {
        let read = CertificateDer::pem_file_iter(&self.cert).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let certs = read.map_err(|error| bad(&self.cert, "certificate", &error))?;
        match certs.is_empty() {
            true => Err(bad(&self.cert, "certificate", &"the file contains none")),
            false => Ok(certs),
        }
    }
}

fn bad(path: &Path, expected: &'static str, problem: &dyn std::fmt::Display) -> ServerError {
    ServerError::BadTls { path: path.to_path_buf(), expected, problem: problem.to_string() }
}
