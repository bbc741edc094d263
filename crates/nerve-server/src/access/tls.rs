//! The certificate and the key with which a server shows who it is.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::ServerError;

/// Where the certificate and its key are, both in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and those that lead from it to an authority.
    pub cert: PathBuf,
    /// Its private key: PKCS #8, PKCS #1 or SEC 1, not encrypted.
    pub key: PathBuf,
}

impl TlsFiles {
    /// Reads both: what a server needs for TLS 1.2 and 1.3. `alpn`: the protocols it speaks inside.
    ///
    /// # Errors
    /// A file cannot be read or holds no such thing, everybody may read the key, or it is not the certificate's.
    pub fn load(&self, alpn: &[&[u8]]) -> Result<Arc<rustls::ServerConfig>, ServerError> {
        let certs = self.certs()?;
        if fs::metadata(&self.key).is_ok_and(|meta| meta.mode() & 0o007 != 0) {
            return Err(bad(&self.key, "private key", &"every user of this machine may read it"));
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
            true => Err(bad(&self.cert, "certificate", &"there is none in it")),
            false => Ok(certs),
        }
    }
}

fn bad(path: &Path, what: &'static str, problem: &dyn std::fmt::Display) -> ServerError {
    ServerError::BadTls { path: path.to_path_buf(), what, problem: problem.to_string() }
}
