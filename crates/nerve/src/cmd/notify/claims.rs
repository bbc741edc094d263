//! Claims of notifications: of several `nerve notify`, only one sends a notification on a channel.

use std::ffi::OsString;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use nerve_server::paths::{ServerPaths, private_directory};

use super::channels::{Channel, Message};

/// Time after which a claim is removed. All commands receive an event at nearly the same time.
const LIFETIME: Duration = Duration::from_secs(3600);

/// Variables that select a desktop.
const DESKTOP: [&str; 3] = ["DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"];

/// The claims of a user, each an empty file.
#[derive(Debug, Clone)]
pub(super) struct Claims {
    folder: PathBuf,
}

/// Returns the parts of this process's environment that decide where a notification on this channel appears.
fn environment_of(channel: &Channel) -> Vec<Option<OsString>> {
    match channel {
        Channel::Command(_) => vec![std::env::current_dir().ok().map(Into::into)],
        Channel::Desktop => DESKTOP.into_iter().map(std::env::var_os).collect(),
        _ => Vec::new(),
    }
}

impl Claims {
    pub(super) fn new(paths: &ServerPaths) -> Claims {
        Claims { folder: paths.notification_claims() }
    }

    /// Claims a message on a channel. Returns false if another process has claimed it. Returns true if the claim cannot
    /// be recorded: two notifications are better than none.
    pub(super) fn claim(&self, channel: &Channel, message: &Message) -> bool {
        if private_directory(&self.folder).is_err() {
            return true;
        }
        self.remove_old();
        let event = &message.event;
        let mut hasher = DefaultHasher::new();
        (channel, &event.event_type, &event.session_id, &event.node_id).hash(&mut hasher);
        (event.seq, event.emitted_at.0).hash(&mut hasher);
        environment_of(channel).hash(&mut hasher);
        let file = File::create_new(self.folder.join(format!("{:016x}", hasher.finish())));
        !matches!(file, Err(error) if error.kind() == ErrorKind::AlreadyExists)
    }

    fn remove_old(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            if modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > LIFETIME)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}
