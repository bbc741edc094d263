//! The signals that end a server.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Completes when the process receives SIGTERM, SIGINT, SIGHUP or SIGQUIT. The handlers are installed by the call, not by
/// the first poll: call it before starting anything that a signal must not leave behind.
pub fn stop_signal() -> impl Future<Output = ()> + Send + 'static {
    let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()];
    let mut signals = kinds.map(|kind| signal(kind).ok());
    async move {
        let [term, interrupt, hangup, quit] = &mut signals;
        tokio::select! {
            () = wait_for_signal(term) => {}
            () = wait_for_signal(interrupt) => {}
            () = wait_for_signal(hangup) => {}
            () = wait_for_signal(quit) => {}
        }
    }
}

/// Waits for a signal; forever if its handler could not be installed.
pub(crate) async fn wait_for_signal(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        // Other ways to stop remain.
        None => std::future::pending().await,
    }
}
