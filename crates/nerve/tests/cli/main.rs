//! The binary as people and scripts meet it: help, exit codes, messages, servers and nodes, in a home of its own.
#![expect(clippy::unwrap_used, reason = "what cannot be had in a test fails it")]

mod harness;
mod recording;
mod tty;

mod agents;
mod attach;
mod branch;
mod chat;
mod doctor;
mod executions;
mod extract;
mod forks;
mod graphs;
mod help;
mod hosts;
mod jobs;
mod mcp;
mod messages;
mod mock_agent;
mod network;
mod node_proxy;
mod nodes;
mod osc_passthrough;
mod panes;
mod patterns;
mod proxy;
mod record;
mod record_viewer;
mod recordings;
mod repl;
mod replay;
mod results;
mod sdk;
mod servers;
mod settings;
mod short_commands;
mod snapshot_key;
mod snapshots;
mod terminal_restore;
mod tmux_viewer;
mod tool_list;
mod tools;
mod view;
mod windows;
