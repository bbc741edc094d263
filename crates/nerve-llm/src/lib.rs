//! The HTTP client, server-sent events, and the formats of model APIs: requests, answers as they arrive, errors, and the retry
//! policy. Also the check of the host that a request to an HTTP server names.
//! Nothing here knows a node or a proxy.
#![warn(missing_docs)]

pub mod answer;
pub mod anthropic;
pub mod error;
pub mod http_client;
pub mod message;
pub mod openai;
pub mod request;
pub mod request_host;
pub mod retry;
pub mod sse;
