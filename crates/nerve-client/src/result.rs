//! Executions that nobody waits for, seen from a client.

use std::time::Duration;

use nerve_api::reply::ResultInfo;
use nerve_api::request::{CancelResult, GetResult, ListResults, Seconds};

use crate::client::NerveClient;
use crate::error::ClientError;

impl NerveClient {
    /// What is known of an execution that [`crate::RemoteNode::execute_async`] began. An execution that failed is no error here: see its
    /// `status`.
    ///
    /// # Errors
    /// As [`NerveClient::request`]; a [`crate::ServerError`] of type `not_found_error` when there is no such one.
    pub async fn result(&self, result_id: &str) -> Result<ResultInfo, ClientError> {
        let params = GetResult { result_id: result_id.to_string(), wait: false, timeout: None };
        self.request(&params).await
    }

    /// The same when it has ended.
    ///
    /// # Errors
    /// As [`NerveClient::result`]; a [`crate::ServerError`] of type `timeout` when it has not in that time.
    pub async fn wait_for_result(
        &self,
        result_id: &str,
        timeout: Option<Duration>,
    ) -> Result<ResultInfo, ClientError> {
        let (result_id, timeout) = (result_id.to_string(), timeout.map(Seconds::from));
        let params = GetResult { result_id, wait: true, timeout };
        self.request(&params).await
    }

    /// Results, newest first, without their responses.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn results(&self, filter: &ListResults) -> Result<Vec<ResultInfo>, ClientError> {
        Ok(self.request(filter).await?.results)
    }

    /// Takes a prompt back, or interrupts its turn; gives the result as it is then.
    ///
    /// # Errors
    /// As [`NerveClient::request`].
    pub async fn cancel_result(&self, result_id: &str) -> Result<ResultInfo, ClientError> {
        let params = CancelResult { result_id: result_id.to_string() };
        self.request(&params).await
    }
}
