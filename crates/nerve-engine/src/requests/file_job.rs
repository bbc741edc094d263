//! Work on files for requests: its thread, its directories, and the check of its paths.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nerve_node::error::EngineError;

use crate::data_dirs::DataDirs;
use crate::engine::Engine;

impl Engine {
    /// Runs `work`, which reads and writes files, on a thread for blocking work. It ends even if the future is dropped.
    pub(super) async fn file_job<T: Send + 'static>(
        &self,
        work: impl FnOnce(&DataDirs) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let dirs = self.data_dirs()?;
        let jobs = self.inner.file_jobs.clone();
        let work = self.inner.detached_tasks.spawn(async move {
            // The semaphore is never closed.
            let _permit = jobs.acquire_owned().await;
            tokio::task::spawn_blocking(move || work(&dirs)).await?
        });
        work.await?
    }

    /// Returns the directories of recordings and the data that belongs to them.
    ///
    /// # Errors
    /// InvalidRequest: this engine has none.
    pub(super) fn data_dirs(&self) -> Result<Arc<DataDirs>, EngineError> {
        self.inner.data_dirs.clone().ok_or_else(|| {
            EngineError::invalid_request("this engine keeps no recordings")
                .hint("send the request to a server: nerve server start")
        })
    }
}

/// Checks the path of a parameter: the server's current directory means nothing to its clients.
pub(super) fn absolute_path(parameter: &str, path: &str) -> Result<PathBuf, EngineError> {
    if Path::new(path).is_absolute() && !path.contains('\0') {
        return Ok(PathBuf::from(path));
    }
    let shown: String = path.chars().take(80).collect();
    Err(EngineError::invalid_request(format!("params.{parameter}: {shown:?} is not an absolute path")))
}
