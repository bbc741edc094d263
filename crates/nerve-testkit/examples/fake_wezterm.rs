//! A stand-in for `wezterm` in tests: see `nerve_testkit::fake_wezterm`. It is not WezTerm.

use std::process::ExitCode;

fn main() -> ExitCode {
    nerve_testkit::fake_wezterm::run(std::env::args().skip(1).collect())
}
