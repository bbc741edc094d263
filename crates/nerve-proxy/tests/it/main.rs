//! Proxies on loopback: an HTTP client in front, the scripted model API or a few bytes of a test's own behind.
#![expect(clippy::unwrap_used, reason = "what cannot be had in a test fails it")]

mod stage;
mod tls;

mod budget;
mod crowds;
mod door;
mod faults;
mod http2_behind;
mod http2_front;
mod logging;
mod official;
mod openai;
mod passing;
mod reports;
