//! Runs blocking disk work on its own thread, with a deadline.

use std::time::Duration;

use tokio::sync::oneshot;

/// Returns the result of `work`, or `None` after `timeout`; the thread then continues on its own. It is not a runtime task,
/// because the runtime would wait for it at shutdown.
pub(super) async fn run_with_timeout<T: Send + 'static>(
    timeout: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, result) = oneshot::channel();
    let thread = std::thread::Builder::new().name("disk".into()).spawn(move || {
        // The receiver may have timed out.
        let _ = sender.send(work());
    });
    thread.ok()?;
    tokio::time::timeout(timeout, result).await.ok()?.ok()
}
