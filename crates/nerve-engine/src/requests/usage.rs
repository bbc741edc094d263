//! GET_USAGE: sums up the tokens and costs of nodes and recordings.

use nerve_api::reply::UsageReport;
use nerve_api::request::GetUsage;
use nerve_node::error::EngineError;
use nerve_proxy::PriceTable;

use super::context::RequestContext;
use crate::engine::Engine;
use crate::usage;

impl Engine {
    /// Sums up the usage of all nodes and recordings of this user.
    ///
    /// # Errors
    /// InvalidRequest, NotFound (nothing is known of a node), Process (the user's prices cannot be read, or are invalid).
    pub async fn get_usage(&self, request: GetUsage, _: RequestContext) -> Result<UsageReport, EngineError> {
        self.file_job(move |dirs| {
            let prices = PriceTable::load(&dirs.prices).map_err(|error| {
                EngineError::process(error.to_string())
                    .hint("correct the file, or move it away to use the built-in prices")
            })?;
            usage::report(dirs, &prices, &request)
        })
        .await
    }
}
