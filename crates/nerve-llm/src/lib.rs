//! The formats of model APIs: requests, answers as they arrive, errors, and the retry policy. Nothing here sends a request or knows a
//! node.

pub mod answer;
pub mod anthropic;
pub mod error;
pub mod message;
pub mod openai;
pub mod request;
pub mod retry;
