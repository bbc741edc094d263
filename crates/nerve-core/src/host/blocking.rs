//! Work on a disk that may hang: on a thread of its own, and waited for so long and no longer.

use std::time::Duration;

use tokio::sync::oneshot;

/// What `work` gives back; `None` if that takes longer than `patience`: it goes on then, as long as this process does. Not a task of the
/// runtime, which would not end before it.
pub(super) async fn within<T: Send + 'static>(
    patience: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, result) = oneshot::channel();
    let working = std::thread::Builder::new().name("disk".into()).spawn(move || {
        // Nobody may wait any longer.
        let _ = done.send(work());
    });
    working.ok()?;
    tokio::time::timeout(patience, result).await.ok()?.ok()
}
