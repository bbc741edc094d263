//! Proxies on loopback: an HTTP client in front, the scripted model API or a few bytes of a test's own behind.
#![expect(clippy::unwrap_used, reason = "what cannot be had in a test fails it")]

mod harness;
mod tls_upstream;

mod auth;
mod budget;
mod connection_limit;
mod http2_clients;
mod http2_upstream;
mod official_sdks;
mod openai;
mod passthrough;
mod reports;
mod request_log;
mod upstream_errors;
