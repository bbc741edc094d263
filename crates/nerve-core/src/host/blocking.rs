//! Work on a disk that may hang: on a thread of its own, and waited for so long and no longer.

use std::time::Duration;

use tokio::sync::oneshot;

/// What `work` gives back; `None` if that takes longer than `timeout`: it goes on then, as long as this process does. Not a task of the
/// runtime, which would not end before it.
pub(super) async fn run_with_timeout<T: Send + 'static>(
    timeout: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, result) = oneshot::channel();
    let thread = std::thread::Builder::new().name("disk".into()).spawn(move || {
        // Nobody may wait any longer.
        let _ = done.send(work());
    });
    thread.ok()?;
    tokio::time::timeout(timeout, result).await.ok()?.ok()
}
