//! Runs the scripted model on a free loopback port, or on the given one: prints its URL, then a line for each request.

#![expect(clippy::print_stdout, reason = "its output is for the person who runs it")]

use std::io;
use std::time::Duration;

use nerve_testkit::mock_model::{Script, serve};

#[tokio::main]
async fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok()).unwrap_or(0);
    let model = serve(([127, 0, 0, 1], port).into(), Script::default()).await?;
    println!("{}", model.url());
    let mut printed = 0;
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            _ = tokio::signal::ctrl_c() => return model.shutdown().await,
        }
        for request in model.requests().iter().skip(printed) {
            println!("{} {} {}", request.method, request.path, request.body);
            printed += 1;
        }
    }
}
