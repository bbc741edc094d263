//! Tells that something has changed in folders, by inotify. Nothing is polled.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

use crate::backend;

/// Bytes of events taken at once. They are not looked at: whoever waits looks at the files.
const EVENTS: usize = 16 << 10;

/// Watches folders.
#[derive(Debug)]
pub(crate) struct Watcher {
    inotify: AsyncFd<OwnedFd>,
}

impl Watcher {
    /// Watches nothing yet. Must be called on a runtime.
    ///
    /// # Errors
    /// The system allows no more watchers (`fs.inotify.max_user_instances`).
    pub(crate) fn new() -> io::Result<Watcher> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        Ok(Watcher { inotify: backend::watch(inotify)? })
    }

    /// Watches the files of a folder. If there is no such folder, watches for it to be made: then call this again. A folder
    /// that is watched already costs nothing more.
    ///
    /// # Errors
    /// It is none, or the system allows no more watches.
    pub(crate) fn folder(&self, folder: &Path) -> io::Result<()> {
        // Added to what is watched there already: the parent of one folder may be another.
        let made = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR | WatchFlags::MASK_ADD;
        let files = made | WatchFlags::MODIFY;
        'again: loop {
            if self.add(folder, files)? {
                return Ok(());
            }
            let mut missing = folder;
            while let Some(parent) = missing.parent() {
                if self.add(parent, made)? {
                    // Made before its parent was watched: nobody will tell.
                    if missing.exists() {
                        continue 'again;
                    }
                    return Ok(());
                }
                missing = parent;
            }
            return Err(io::ErrorKind::NotFound.into());
        }
    }

    /// `false` if there is no such folder.
    fn add(&self, folder: &Path, what: WatchFlags) -> io::Result<bool> {
        match inotify::add_watch(self.inotify.get_ref(), folder, what) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until something has changed since the last time. May be dropped and called again: nothing is lost.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) async fn changed(&self) -> io::Result<()> {
        loop {
            let mut ready = self.inotify.readable().await?;
            let taken = ready.try_io(|inotify| {
                let mut events = [0; EVENTS];
                let mut any = false;
                loop {
                    match rustix::io::read(inotify.get_ref(), &mut events) {
                        Ok(_) => any = true,
                        Err(Errno::INTR) => {}
                        Err(Errno::AGAIN) if any => return Ok(()),
                        Err(error) => return Err(error.into()),
                    }
                }
            });
            match taken {
                Ok(done) => return done,
                Err(_would_block) => {}
            }
        }
    }
}
