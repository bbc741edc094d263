//! Sockets that only the current user can use.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

/// Pause after the system had no descriptor left for a connection.
pub(super) const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Creates a listening socket with mode 0600.
pub(super) fn private_socket(path: &Path) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Accepts connections of the current user as external clients.
pub(super) async fn accept(control: UnixListener, connections: mpsc::Sender<(UnixStream, bool)>) {
    loop {
        match control.accept().await {
            Ok((stream, _)) if is_same_user(&stream) => {
                if connections.send((stream, false)).await.is_err() {
                    return;
                }
            }
            Ok(_) => {}
            // Out of descriptors: clients wait.
            Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
        }
    }
}

/// Returns true if the peer belongs to the current user (unix(7), `SO_PEERCRED`).
pub(super) fn is_same_user(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == rustix::process::getuid().as_raw())
}
