//! Watches folders for changes with inotify. Nothing is polled.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

use crate::backend;

/// Size of the buffer for events in bytes. Their contents are not used: waiters look at the files.
const EVENT_BUFFER: usize = 16 << 10;

/// Watches folders.
#[derive(Debug)]
pub struct FolderWatcher {
    inotify: AsyncFd<OwnedFd>,
}

impl FolderWatcher {
    /// Creates a watcher without folders. Must be called on a runtime.
    ///
    /// # Errors
    /// The system allows no more watchers (`fs.inotify.max_user_instances`).
    pub fn new() -> io::Result<FolderWatcher> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        Ok(FolderWatcher { inotify: backend::watch(inotify)? })
    }

    /// Watches the files of a folder. If it does not exist, watches for its creation; then call this again. Watching a folder again
    /// costs nothing.
    ///
    /// # Errors
    /// The path is not a folder, or the system allows no more watches.
    pub fn watch_folder(&self, folder: &Path) -> io::Result<()> {
        // Added to existing watches, because the parent of one folder may be watched as another.
        let folders = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR | WatchFlags::MASK_ADD;
        let files = folders | WatchFlags::MODIFY;
        'again: loop {
            if self.add(folder, files)? {
                return Ok(());
            }
            let mut missing = folder;
            while let Some(parent) = missing.parent() {
                if self.add(parent, folders)? {
                    // Created before its parent was watched, so there will be no event.
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

    /// Adds a watch. Returns false if the folder does not exist.
    fn add(&self, folder: &Path, what: WatchFlags) -> io::Result<bool> {
        match inotify::add_watch(self.inotify.get_ref(), folder, what) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for a change since the last call. Cancel safe.
    ///
    /// # Errors
    /// The I/O error.
    pub async fn changed(&self) -> io::Result<()> {
        loop {
            let mut ready = self.inotify.readable().await?;
            let result = ready.try_io(|inotify| {
                let mut events = [0; EVENT_BUFFER];
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
            match result {
                Ok(done) => return done,
                Err(_would_block) => {}
            }
        }
    }
}
