//! Sockets that only the current user can use.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_types::files::private_folder;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

/// Pause after the system had no descriptor left for a connection.
pub(super) const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Creates a private directory and its parents. An existing one is accepted if only the current user can use it.
pub(super) fn make_private_directory(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        private_folder(parent)?;
    }
    match fs::DirBuilder::new().mode(0o700).create(path) {
        // The directory may already contain the program's hooks.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let meta = fs::symlink_metadata(path)?;
            let is_own = meta.is_dir() && meta.uid() == rustix::process::getuid().as_raw();
            if is_own && meta.mode() & 0o077 == 0 { Ok(()) } else { Err(error) }
        }
        result => result,
    }
}

/// A listening socket with mode 0600.
#[derive(Debug)]
pub(super) struct PrivateListener {
    path: PathBuf,
    listener: UnixListener,
    repairs: watch::Receiver<()>,
}

impl PrivateListener {
    /// Creates the socket. A message on `repairs` creates it again if it was deleted.
    pub(super) fn bind(path: &Path, repairs: &watch::Sender<()>) -> io::Result<PrivateListener> {
        let repairs = repairs.subscribe();
        Ok(PrivateListener { path: path.to_path_buf(), listener: private_socket(path)?, repairs })
    }

    /// Returns the next connection of the current user.
    pub(super) async fn accept(&mut self) -> UnixStream {
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) if is_same_user(&stream) => return stream,
                    Ok(_) => {}
                    // Out of descriptors: clients wait.
                    Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
                },
                Ok(()) = self.repairs.changed() => self.repair(),
            }
        }
    }

    fn repair(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok() {
            return;
        }
        let folder = self.path.parent().map_or(Ok(()), make_private_directory);
        // After a failure, the caller still finds no socket.
        if let Ok(listener) = folder.and_then(|()| private_socket(&self.path)) {
            self.listener = listener;
        }
    }
}

fn private_socket(path: &Path) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Returns true if the peer belongs to the current user (unix(7), `SO_PEERCRED`).
fn is_same_user(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == rustix::process::getuid().as_raw())
}
