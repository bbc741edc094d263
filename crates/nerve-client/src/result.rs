//! Results of asynchronous executions.

use std::time::Duration;

use nerve_api::reply::ResultInfo;
use nerve_api::request::{CancelResult, GetResult, ListResults, Seconds};

use crate::client::NerveClient;
use crate::error::ClientError;

impl NerveClient {
    /// Returns the current state of an execution started with [`crate::RemoteNode::execute_async`]. A failed execution is not an error
    /// here: see its `status`.
    ///
    /// # Errors
    /// See [`NerveClient::request`]; a [`crate::ServerError`] of type `not_found_error` if it does not exist.
    pub async fn result(&self, result_id: &str) -> Result<ResultInfo, ClientError> {
        let params = GetResult { result_id: result_id.to_string(), wait: false, timeout: None };
        self.request(&params).await
    }

    /// Waits for the end of an execution and returns its result.
    ///
    /// # Errors
    /// See [`NerveClient::result`]; a [`crate::ServerError`] of type `timeout` if it does not end in time.
    pub async fn wait_for_result(
        &self,
        result_id: &str,
        timeout: Option<Duration>,
    ) -> Result<ResultInfo, ClientError> {
        let (result_id, timeout) = (result_id.to_string(), timeout.map(Seconds::from));
        let params = GetResult { result_id, wait: true, timeout };
        self.request(&params).await
    }

    /// Lists results, newest first, without their responses.
    pub async fn results(&self, filter: &ListResults) -> Result<Vec<ResultInfo>, ClientError> {
        Ok(self.request(filter).await?.results)
    }

    /// Removes a prompt from the queue, or interrupts its turn. Returns the result.
    pub async fn cancel_result(&self, result_id: &str) -> Result<ResultInfo, ClientError> {
        let params = CancelResult { result_id: result_id.to_string() };
        self.request(&params).await
    }
}
