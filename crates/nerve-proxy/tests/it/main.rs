//! Tests of proxies on loopback, with an HTTP client and a scripted upstream.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

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
