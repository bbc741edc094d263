//! Transport for the exporter over nerve's own HTTP client.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};

/// Maximum size of a collector's response, in bytes.
const MAX_RESPONSE: usize = 64 << 10;

/// Sends requests with a time limit.
#[derive(Debug)]
pub(super) struct Transport {
    pub(super) limit: Duration,
}

type SendFuture<'a> = Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'a>>;

impl HttpClient for Transport {
    // The expansion of async_trait, to avoid the dependency.
    fn send_bytes<'life0, 'async_trait>(&'life0 self, request: Request<Bytes>) -> SendFuture<'async_trait>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        let limit = self.limit;
        Box::pin(async move {
            match tokio::time::timeout(limit, nerve_llm::http_client::send(request, MAX_RESPONSE)).await {
                Ok(response) => Ok(response?),
                Err(_) => Err(format!("no response within {limit:?}").into()),
            }
        })
    }
}
