//! Root certificates that replace the built-in ones.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::error::ProxyError;

/// Maximum size of the file, in bytes: four times the size of Mozilla's root certificates.
const LIMIT: u64 = 1 << 20;

/// Root certificates. An upstream is trusted if one of them signed its certificate; the built-in ones are not used.
#[derive(Clone)]
pub struct RootCerts {
    path: PathBuf,
    roots: Arc<RootCertStore>,
}

impl RootCerts {
    /// Reads one or more PEM certificates from a file of at most 1 MiB. Ignores other contents, for example keys.
    ///
    /// # Errors
    /// [`ProxyError::RootCerts`] for a missing or too large file, or one without valid CA certificates.
    pub fn read(path: impl Into<PathBuf>) -> Result<RootCerts, ProxyError> {
        let path = path.into();
        match roots(&path) {
            Ok(roots) => Ok(RootCerts { path, roots: Arc::new(roots) }),
            Err(reason) => Err(ProxyError::RootCerts { path, reason }),
        }
    }

    /// Returns the file they were read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn roots(&self) -> Arc<RootCertStore> {
        self.roots.clone()
    }
}

impl fmt::Debug for RootCerts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RootCerts").field("path", &self.path).field("count", &self.roots.len()).finish()
    }
}

fn roots(path: &Path) -> Result<RootCertStore, String> {
    let unread = |error: std::io::Error| format!("cannot be read: {error}");
    let mut pem = Vec::new();
    File::open(path).and_then(|file| file.take(LIMIT + 1).read_to_end(&mut pem)).map_err(unread)?;
    if pem.len() as u64 > LIMIT {
        return Err(format!("is larger than {} KiB: give a file of CA certificates", LIMIT >> 10));
    }
    let mut roots = RootCertStore::empty();
    for (number, cert) in (1..).zip(CertificateDer::pem_slice_iter(&pem)) {
        let cert = cert.map_err(|error| format!("is invalid PEM at certificate {number}: {error}"))?;
        roots.add(cert).map_err(|error| format!("has an invalid certificate at number {number}: {error}"))?;
    }
    match roots.is_empty() {
        true => Err("contains no certificate: PEM begins with -----BEGIN CERTIFICATE-----".to_string()),
        false => Ok(roots),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_file_is_named_in_the_error() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |name: &str, content: Option<&[u8]>| {
            let path = folder.path().join(name);
            if let Some(content) = content {
                std::fs::write(&path, content).unwrap();
            }
            let error = RootCerts::read(&path).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
            error
        };
        assert!(refused("missing", None).contains("cannot be read"));
        assert!(refused("empty", Some(b"")).contains("BEGIN CERTIFICATE"));
        assert!(refused("text", Some(b"hello\n")).contains("BEGIN CERTIFICATE"));
        let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
        assert!(refused("key", Some(key.as_bytes())).contains("BEGIN CERTIFICATE"));
        let begin = "-----BEGIN CERTIFICATE-----\n";
        assert!(refused("half", Some(format!("{begin}MIIB").as_bytes())).contains("certificate"));
        let other = format!("{begin}aGVsbG8=\n-----END CERTIFICATE-----\n");
        assert!(refused("other", Some(other.as_bytes())).contains("number 1"));
        let large = vec![b' '; LIMIT as usize + 1];
        assert!(refused("large", Some(&large)).contains("1024 KiB"));
        assert!(RootCerts::read(folder.path()).is_err(), "a folder");
    }

    #[test]
    fn file_may_hold_several_certificates() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("two.pem");
        let one = || rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap().cert.pem();
        std::fs::write(&path, format!("# ours\n{}\n{}", one(), one())).unwrap();
        let read = RootCerts::read(&path).unwrap();
        assert_eq!(read.roots().len(), 2);
        assert!(format!("{read:?}").contains("two.pem"));
    }
}
