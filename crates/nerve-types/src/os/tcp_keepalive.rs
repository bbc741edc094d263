//! Detection of TCP peers that vanished without closing.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt;

use super::implementation::set_tcp_user_timeout;

/// Silence after which keepalive probes begin.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// Interval between keepalive probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Unanswered probes after which a connection is closed.
const KEEPALIVE_PROBES: u32 = 3;
/// Milliseconds after which unacknowledged data end a connection. Keepalive alone is not enough: no probes are sent while data are in
/// flight.
const USER_TIMEOUT_MS: u32 = 60_000;

/// Makes the kernel end a connection whose peer has not acknowledged anything for a minute (tcp(7), `SO_KEEPALIVE`,
/// `TCP_USER_TIMEOUT`).
///
/// # Errors
/// The descriptor is no TCP socket.
pub fn set_tcp_keepalive(socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES)?;
    set_tcp_user_timeout(socket, USER_TIMEOUT_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_timeouts_amount_to_a_minute() {
        // TCP_USER_TIMEOUT overrides the keepalive schedule (tcp(7)).
        let probed = KEEPALIVE_IDLE + KEEPALIVE_INTERVAL * KEEPALIVE_PROBES;
        assert_eq!(probed.as_millis(), u128::from(USER_TIMEOUT_MS));
    }
}
