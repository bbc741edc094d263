//! Proxies on loopback: an HTTP client in front, the scripted model API or a few bytes of a test's own behind.
#![expect(clippy::unwrap_used, reason = "what cannot be had in a test fails it")]

mod stage;

mod budget;
mod crowds;
mod door;
mod faults;
mod logging;
mod official;
mod openai;
mod passing;
