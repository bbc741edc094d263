//! Threads for work for which the runtime does not wait.

use nerve_node::error::EngineError;
use tokio::sync::oneshot;

/// Runs work on a dedicated thread. Unlike a blocking task, it does not delay the shutdown of the runtime. Dropping the future does
/// not end the work.
///
/// # Errors
/// Process: no thread could be started. Internal: the work panicked. Also the errors of `work`.
pub(crate) async fn run_in_thread<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
) -> Result<T, EngineError> {
    let (sender, receiver) = oneshot::channel();
    std::thread::Builder::new()
        .name(name.to_string())
        .spawn(move || drop(sender.send(work())))
        .map_err(|error| EngineError::process(format!("cannot start the thread '{name}': {error}")))?;
    receiver.await.unwrap_or_else(|_| Err(EngineError::internal(format!("the thread '{name}' panicked"))))
}
