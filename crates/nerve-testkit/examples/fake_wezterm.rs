//! A stand-in for `wezterm` in tests, not WezTerm itself: see `nerve_testkit::fake_wezterm`.

use std::process::ExitCode;

fn main() -> ExitCode {
    nerve_testkit::fake_wezterm::run(std::env::args().skip(1).collect())
}
