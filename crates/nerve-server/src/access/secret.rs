//! Random secrets, and the digests that are stored instead of them.

use nerve_types::text::hex;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

/// Returns `N` bytes from the system's random source as hexadecimal digits.
///
/// # Errors
/// Returns an error if the system provides no random bytes.
pub(crate) fn random_hex<const N: usize>() -> std::io::Result<String> {
    let mut bytes = [0; N];
    let no_random = |_| std::io::Error::other("no random bytes are available");
    SystemRandom::new().fill(&mut bytes).map_err(no_random)?;
    Ok(hex(&bytes))
}

/// Returns the SHA-256 of a secret as hexadecimal digits. Only for secrets with at least 128 random bits.
pub(crate) fn sha256_hex(secret: &[u8]) -> String {
    hex(digest(&SHA256, secret).as_ref())
}
