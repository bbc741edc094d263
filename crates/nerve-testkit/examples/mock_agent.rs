//! The mock agent on this terminal: `cargo run -p nerve-testkit --example mock_agent -- --onboarding`.

use std::process::ExitCode;

use nerve_testkit::mock_agent::{parse_args, run};

fn main() -> ExitCode {
    let outcome =
        parse_args(std::env::args().skip(1)).and_then(|options| run(options).map_err(|e| e.to_string()));
    match outcome {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Err(message) => {
            eprintln!("mock_agent: {message}");
            ExitCode::from(2)
        }
    }
}
