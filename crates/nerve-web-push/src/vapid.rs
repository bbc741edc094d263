//! The key with which a server identifies itself to push services: VAPID (RFC 8292).

use std::path::Path;
use std::{fs, io};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Uri;
use nerve_types::activity::TsMs;
use nerve_types::files;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::json;

/// Time for which a push service accepts a signature, in seconds. The standard allows 24 hours.
const LIFETIME: u64 = 12 * 60 * 60;
/// Host in the claim `sub` of a server without a name. Apple's push service rejects it, but an iPhone needs HTTPS, and
/// therefore a name, anyway.
const UNKNOWN_HOST: &str = "localhost";

/// A server's key.
#[derive(Debug)]
pub struct VapidKey {
    pair: EcdsaKeyPair,
    /// URL of the server, the claim `sub`.
    subject: String,
}

impl VapidKey {
    /// Reads a server's key, or creates it: subscriptions are bound to it. `host`: the name by which browsers know the server.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written, or is damaged.
    pub fn obtain(path: &Path, host: Option<&str>) -> io::Result<VapidKey> {
        let failed = |what: &str| io::Error::other(format!("{}: {what}", path.display()));
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let key = match fs::read(path) {
            Ok(key) => key,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random)
                    .map_err(|_| failed("no key could be generated"))?;
                files::replace(path, key.as_ref())?;
                key.as_ref().to_vec()
            }
            Err(error) => return Err(error),
        };
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, &key, &random)
            .map_err(|_| failed("the key is damaged: remove the file, and browsers subscribe again"))?;
        Ok(VapidKey { pair, subject: format!("https://{}/", host.unwrap_or(UNKNOWN_HOST)) })
    }

    /// Returns the public key as an uncompressed point in base64url: the `applicationServerKey` of a subscription.
    pub fn public_key(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.pair.public_key())
    }

    /// Returns the value of the `Authorization` header for an endpoint. `None` if the endpoint is no absolute URL, or the
    /// system gives no random bytes.
    pub fn authorize(&self, endpoint: &Uri, now: TsMs) -> Option<String> {
        let audience = format!("{}://{}", endpoint.scheme_str()?, endpoint.authority()?);
        let claims = json!({ "aud": audience, "exp": now.0 / 1000 + LIFETIME, "sub": self.subject });
        let head = json!({ "typ": "JWT", "alg": "ES256" });
        let encode = |part: &serde_json::Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", encode(&head), encode(&claims));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).ok()?;
        let signature = URL_SAFE_NO_PAD.encode(signature);
        Some(format!("vapid t={signed}.{signature}, k={}", self.public_key()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    #[test]
    fn key_is_kept_in_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vapid");
        let key = VapidKey::obtain(&path, None).unwrap();
        assert_eq!(VapidKey::obtain(&path, None).unwrap().public_key(), key.public_key());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "damaged").unwrap();
        assert!(VapidKey::obtain(&path, None).unwrap_err().to_string().contains("damaged"));
    }

    #[test]
    fn signature_names_the_push_service() {
        let folder = tempfile::tempdir().unwrap();
        let key = VapidKey::obtain(&folder.path().join("vapid"), Some("host.example")).unwrap();
        let endpoint = Uri::from_static("https://push.example:8443/send/abc");
        let header = key.authorize(&endpoint, TsMs(5_000)).unwrap();
        let (token, public) =
            header.strip_prefix("vapid t=").and_then(|rest| rest.split_once(", k=")).unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, decode(public))
            .verify(signed.as_bytes(), &decode(signature))
            .unwrap();
        let claims: serde_json::Value =
            serde_json::from_slice(&decode(signed.split_once('.').unwrap().1)).unwrap();
        assert_eq!(claims["aud"], "https://push.example:8443");
        assert_eq!(claims["exp"], 5 + LIFETIME);
        assert_eq!(claims["sub"], "https://host.example/");
    }
}
