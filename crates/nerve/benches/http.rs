//! HTTP requests per second and latency, measured with `wrk`.
#![expect(clippy::print_stdout, reason = "the report goes to stdout")]

#[path = "support/server_process.rs"]
mod server_process;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use server_process::LiveServer;
use support::{Figure, Report};

/// Duration of a measurement in seconds.
const SECONDS: u32 = 5;
/// Numbers of concurrent connections.
const CONNECTIONS: [u32; 3] = [1, 10, 50];
/// Measured requests: name, method, path, body.
const REQUESTS: [(&str, &str, &str, &str); 3] = [
    ("GET /health, without a token", "GET", "/health", ""),
    ("GET /nodes, ten nodes", "GET", "/nodes", ""),
    ("POST /api/command with PING", "POST", "/api/command", r#"{"command_type":"PING","request_id":"1"}"#),
];

fn main() -> Result<()> {
    if support::is_debug_build() {
        return Ok(());
    }
    let mut report = Report::new(
        "HTTP, measured with wrk",
        "Debian's `wrk` with one thread against a server on loopback, HTTP/1.1 without TLS, persistent connections. Each measurement takes 5 s after 1 s of warm-up.",
    );
    match Command::new("wrk").arg("--version").output() {
        Ok(_) => measure(&mut report)?,
        Err(error) => {
            report.note(&format!("Not measured: `wrk` is not installed ({error}); `apt-get install wrk`."))
        }
    }
    report.print();
    Ok(())
}

fn measure(report: &mut Report) -> Result<()> {
    let server = LiveServer::start_listening(&["--http", "127.0.0.1:0"])?;
    let status: Value = serde_json::from_slice(&server.run(&["server", "status", "--json"])?.stdout)?;
    let address = status["http"].as_str().context("no address")?.to_string();
    let token = String::from_utf8(server.run(&["token", "show"])?.stdout)?.trim().to_string();
    for n in 0..10 {
        server.run(&["server", "node", "create", &format!("node-{n}"), "--backend", "bash"])?;
    }
    let script = server.home.nerve_home().join("wrk.lua");
    for (name, method, path, body) in REQUESTS {
        fs::write(&script, lua(method, body, &token))?;
        for connections in CONNECTIONS {
            eprintln!("http: {name}, {connections}");
            let measured = Measurement::wrk(&format!("http://{address}{path}"), connections, &script)?;
            let of = |what: &str| match connections {
                1 => format!("{name}: {what}, 1 connection"),
                _ => format!("{name}: {what}, {connections} connections"),
            };
            report.row(&of("requests"), &Figure::one(measured.rate, "/s"));
            report.row(&of("median"), &Figure::one(measured.median, "µs"));
            report.row(&of("99 of 100 within"), &Figure::one(measured.p99, "µs"));
        }
    }
    Ok(())
}

/// Returns the script for `wrk`: the request, and one line of numbers at the end. It contains the token, so it is stored in the server's home.
fn lua(method: &str, body: &str, token: &str) -> String {
    format!(
        r#"wrk.method = "{method}"
wrk.body = [[{body}]]
wrk.headers["Authorization"] = "Bearer {token}"
wrk.headers["Content-Type"] = "application/json"
done = function(summary, latency, requests)
  local errors = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.status + summary.errors.timeout
  io.write(string.format("RESULT %d %d %d %f %f\n", summary.requests, summary.duration, errors, latency:percentile(50), latency:percentile(99)))
end
"#
    )
}

struct Measurement {
    /// Requests per second.
    rate: f64,
    /// Microseconds.
    median: f64,
    p99: f64,
}

impl Measurement {
    /// Measures after a warm-up of one second.
    fn wrk(url: &str, connections: u32, script: &Path) -> Result<Measurement> {
        Measurement::once(url, connections, 1, script)?;
        Measurement::once(url, connections, SECONDS, script)
    }

    fn once(url: &str, connections: u32, seconds: u32, script: &Path) -> Result<Measurement> {
        let mut wrk = Command::new("wrk");
        wrk.args(["-t1", &format!("-c{connections}"), &format!("-d{seconds}s"), "-s"]).arg(script).arg(url);
        let output = wrk.output()?;
        let report = String::from_utf8_lossy(&output.stdout);
        let line = report
            .lines()
            .find_map(|line| line.strip_prefix("RESULT "))
            .with_context(|| format!("wrk: {report}"))?;
        let numbers: Vec<f64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let [requests, micros, errors, median, p99] = numbers[..] else { anyhow::bail!("wrk: {line}") };
        ensure!(errors == 0.0, "wrk: {errors} of {requests} requests failed");
        Ok(Measurement { rate: requests / (micros / 1e6), median, p99 })
    }
}
