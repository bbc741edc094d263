//! The runtime of the terminal nodes' actors.

use std::sync::LazyLock;

use tokio::runtime::{Builder, Handle, Runtime};

/// One worker thread per core, started with the first node. `None` if the system refused the threads.
static RUNTIME: LazyLock<Option<Runtime>> =
    LazyLock::new(|| Builder::new_multi_thread().thread_name("nerve-terminal").enable_all().build().ok());

/// Returns the runtime on which actors run. A terminal model works in proportion to its program's output; on threads of its own it
/// cannot delay the tasks that serve callers.
///
/// # Panics
/// Without a current runtime if the system refused threads.
pub(super) fn actor_runtime() -> Handle {
    RUNTIME.as_ref().map_or_else(Handle::current, |runtime| runtime.handle().clone())
}
