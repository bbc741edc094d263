//! The HTTP client, server-sent events, and the formats of model APIs: requests, answers as they arrive, errors, and the retry policy.
//! Nothing here knows a node or a proxy.
#![warn(missing_docs)]

pub mod answer;
pub mod anthropic;
pub mod error;
pub mod http_client;
pub mod message;
pub mod openai;
pub mod request;
pub mod retry;
pub mod sse;
