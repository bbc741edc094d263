//! Decides which addresses a server may listen on without TLS.

use std::net::SocketAddr;

use crate::error::ServerError;

/// Checks that `address` may be listened on. Only loopback addresses may do without TLS, unless `insecure` is set.
///
/// # Errors
/// Returns [`ServerError::NeedsTls`] if the address is not loopback and neither `tls` nor `insecure` is set.
pub fn check(address: SocketAddr, tls: bool, insecure: bool) -> Result<(), ServerError> {
    match tls || insecure || address.ip().to_canonical().is_loopback() {
        true => Ok(()),
        false => Err(ServerError::NeedsTls { address }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_works_without_tls() {
        for address in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(check(address.parse().unwrap(), false, false).is_ok(), "{address}");
        }
        for address in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[2001:db8::1]:1"] {
            let address = address.parse().unwrap();
            assert!(matches!(check(address, false, false), Err(ServerError::NeedsTls { .. })), "{address}");
            assert!(check(address, true, false).is_ok() && check(address, false, true).is_ok());
        }
    }
}
