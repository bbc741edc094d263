//! Encrypts messages for browsers: `aes128gcm` with keys of Web Push (RFC 8291, RFC 8188).

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::error::Unspecified;
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use ring::rand::{SecureRandom, SystemRandom};

use crate::subscription::{POINT_BYTES, PushSubscription};

/// Size of a record, which a message never fills, in bytes.
const RECORD_SIZE: u32 = 4096;
/// Maximum size of a message in bytes: the rest of the record is the header, the tag and the delimiter.
const MAX_MESSAGE: usize = 3993;
/// Delimiter of the last record.
const LAST_RECORD: u8 = 2;
const SALT_BYTES: usize = 16;
const KEY_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;
const SECRET_BYTES: usize = 32;

/// Encrypts a message for a browser with a new key.
///
/// # Errors
/// Returns an error if the message is longer than 3993 bytes, a key is invalid, or the system gives no random bytes.
pub fn encrypt(subscription: &PushSubscription, message: &[u8]) -> Result<Vec<u8>, Unspecified> {
    let (browser, auth) = (subscription.public_key(), subscription.auth_secret());
    let (browser, auth) = (browser.ok_or(Unspecified)?, auth.ok_or(Unspecified)?);
    let random = SystemRandom::new();
    let mut salt = [0; SALT_BYTES];
    random.fill(&mut salt)?;
    let private = EphemeralPrivateKey::generate(&ECDH_P256, &random)?;
    let public = private.compute_public_key()?;
    let public: [u8; POINT_BYTES] = public.as_ref().try_into().map_err(|_| Unspecified)?;
    agree_ephemeral(private, &UnparsedPublicKey::new(&ECDH_P256, browser), |shared| {
        KeyMaterial { shared, auth: &auth, browser: &browser, server: &public, salt }.seal(message)
    })?
}

/// Decrypts a message as its browser does, for tests.
///
/// # Panics
/// The message is invalid.
#[cfg(feature = "browser")]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "for tests")]
pub fn decrypt(private: EphemeralPrivateKey, auth: &[u8], sealed: &[u8]) -> Vec<u8> {
    let browser: [u8; POINT_BYTES] = private.compute_public_key().unwrap().as_ref().try_into().unwrap();
    let salt = sealed[..SALT_BYTES].try_into().unwrap();
    let header = SALT_BYTES + 4 + 1;
    let server: [u8; POINT_BYTES] = sealed[header..header + POINT_BYTES].try_into().unwrap();
    let mut record = sealed[header + POINT_BYTES..].to_vec();
    let (key, nonce) = agree_ephemeral(private, &UnparsedPublicKey::new(&ECDH_P256, server), |shared| {
        KeyMaterial { shared, auth, browser: &browser, server: &server, salt }.derive().unwrap()
    })
    .unwrap();
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).unwrap());
    let nonce = Nonce::assume_unique_for_key(nonce);
    let message = key.open_in_place(nonce, Aad::empty(), &mut record).unwrap();
    message.strip_suffix(&[LAST_RECORD]).unwrap().to_vec()
}

/// Inputs of the key derivation (RFC 8291, section 3.4).
struct KeyMaterial<'a> {
    /// The secret that both sides have agreed on.
    shared: &'a [u8],
    /// The browser's own secret.
    auth: &'a [u8],
    /// Public key of the browser.
    browser: &'a [u8; POINT_BYTES],
    /// Public key of the server, for this message only.
    server: &'a [u8; POINT_BYTES],
    salt: [u8; SALT_BYTES],
}

impl KeyMaterial<'_> {
    /// Encrypts a message as one record with its header.
    fn seal(&self, message: &[u8]) -> Result<Vec<u8>, Unspecified> {
        if message.len() > MAX_MESSAGE {
            return Err(Unspecified);
        }
        let (key, nonce) = self.derive()?;
        let mut record = [message, &[LAST_RECORD]].concat();
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key)?);
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut record)?;
        let key_length = [u8::try_from(POINT_BYTES).unwrap_or_default()];
        Ok([&self.salt[..], &RECORD_SIZE.to_be_bytes(), &key_length, self.server, &record].concat())
    }

    /// Derives key and nonce (RFC 8291, section 3.4).
    fn derive(&self) -> Result<([u8; KEY_BYTES], [u8; NONCE_BYTES]), Unspecified> {
        let agreed = Salt::new(HKDF_SHA256, self.auth).extract(self.shared);
        let secret: [u8; SECRET_BYTES] = expand(&agreed, &[b"WebPush: info\0", self.browser, self.server])?;
        let key = Salt::new(HKDF_SHA256, &self.salt).extract(&secret);
        Ok((
            expand(&key, &[b"Content-Encoding: aes128gcm\0"])?,
            expand(&key, &[b"Content-Encoding: nonce\0"])?,
        ))
    }
}

/// Number of bytes to derive.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn expand<const N: usize>(key: &Prk, info: &[&[u8]]) -> Result<[u8; N], Unspecified> {
    let mut bytes = [0; N];
    key.expand(info, Length(N))?.fill(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    fn bytes<const N: usize>(text: &str) -> [u8; N] {
        URL_SAFE_NO_PAD.decode(text).unwrap().try_into().unwrap()
    }

    /// The example of RFC 8291, appendix A.
    #[test]
    fn message_is_encrypted_as_in_the_standard() {
        let shared: [u8; 32] = bytes("kyrL1jIIOHEzg3sM2ZWRHDRB62YACZhhSlknJ672kSs");
        let auth: [u8; 16] = bytes("BTBZMqHH6r4Tts7J_aSIgg");
        let browser =
            bytes("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4");
        let server =
            bytes("BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8");
        let salt = bytes("DGv6ra1nlYgDCS1FRnbzlw");
        let keys = KeyMaterial { shared: &shared, auth: &auth, browser: &browser, server: &server, salt };
        let sealed = keys.seal(b"When I grow up, I want to be a watermelon").unwrap();
        assert_eq!(
            URL_SAFE_NO_PAD.encode(sealed),
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBr\
             u3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
        );
        assert!(keys.seal(&[0; MAX_MESSAGE + 1]).is_err());
    }
}
