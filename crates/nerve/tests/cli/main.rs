//! The binary as people and scripts meet it: help, exit codes, messages, servers and nodes, in a home of its own.
#![expect(clippy::unwrap_used, reason = "what cannot be had in a test fails it")]

mod harness;
mod recording;
mod seat;

mod agents;
mod attach;
mod branch;
mod chat;
mod doctor;
mod executions;
mod extract;
mod forks;
mod given_back;
mod graphs;
mod help;
mod hosts;
mod jobs;
mod listing;
mod mcp;
mod messages;
mod mock_agent;
mod multiplexed;
mod network;
mod node_proxy;
mod nodes;
mod panes;
mod patterns;
mod proxy;
mod record;
mod recordings;
mod repl;
mod replaying;
mod results;
mod said;
mod sdk;
mod servers;
mod settings;
mod snapshots;
mod taking;
mod tools;
mod viewed;
mod viewing;
