//! Nodes in panes of a fake WezTerm (the example `fake_wezterm` of the testkit), which reproduces the observed behaviour of the real one,
//! including the calls that crash it.

mod cli;
mod faults;
pub(crate) mod mux;
mod operations;
mod polling;
mod restart;
