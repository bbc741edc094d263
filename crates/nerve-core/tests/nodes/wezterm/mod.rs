//! Nodes in panes of WezTerm, over a stand-in for it (`nerve_testkit::fake_wezterm`): WezTerm itself cannot be had here. The stand-in
//! keeps the contract that was observed on the real one, the calls that take it down included.

mod claude;
mod cli;
mod faults;
pub(crate) mod mux;
mod operations;
mod polling;
mod restart;
