//! Claims of notifications: of several `nerve notify`, only one sends a notification on a channel.

use std::ffi::OsString;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

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

    /// Removes claims that are old by the clock, and older than the newest one: the clock may have been set meanwhile.
    fn remove_old(&self) {
        let claims: Vec<(PathBuf, SystemTime)> = fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?.modified().ok()?)))
            .collect();
        let Some(newest) = claims.iter().map(|(_, claimed)| *claimed).max() else { return };
        let is_old = |now: SystemTime, claimed: &SystemTime| {
            now.duration_since(*claimed).is_ok_and(|age| age > LIFETIME)
        };
        let now = SystemTime::now();
        for (path, claimed) in claims {
            if is_old(now, &claimed) && is_old(newest, &claimed) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nerve_api::value::Occasion;
    use nerve_types::activity::TsMs;
    use serde_json::json;

    use super::*;

    fn message(seq: u64) -> Message {
        let event = json!({ "type": "event", "event_type": "NODE_BLOCKED", "data": {}, "emitted_at": TsMs(1), "seq": seq });
        let event = serde_json::from_value(event).unwrap();
        Message { occasion: Occasion::Blocked, text: String::new(), event }
    }

    /// Makes all claims as old as if the clock had been set forward, or back.
    fn shift(folder: &PathBuf, shift: impl Fn(SystemTime) -> SystemTime) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let modified = entry.metadata().unwrap().modified().unwrap();
            File::options().write(true).open(entry.path()).unwrap().set_modified(shift(modified)).unwrap();
        }
    }

    #[test]
    fn set_clock_neither_repeats_nor_drops_notifications() {
        let home = tempfile::tempdir().unwrap();
        let claims = Claims { folder: home.path().join("claims") };
        let channel = Channel::Command("x".to_string());
        let claim = |seq| claims.claim(&channel, &message(seq));
        let count = || fs::read_dir(&claims.folder).unwrap().count();
        assert_eq!([claim(1), claim(1)], [true, false]);
        shift(&claims.folder, |time| time - 2 * LIFETIME);
        assert!(!claim(1), "forward");
        shift(&claims.folder, |time| time + 4 * LIFETIME);
        assert_eq!([claim(1), claim(2), claim(2)], [false, true, false], "back");
        // Old ones leave with the next.
        shift(&claims.folder, |time| time - 6 * LIFETIME);
        assert_eq!((claim(3), claim(4), count()), (true, true, 2));
    }
}
