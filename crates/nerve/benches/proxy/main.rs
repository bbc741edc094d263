//! Proxies: added latency to the first token, throughput, memory.
#![expect(clippy::print_stdout, reason = "the report goes to stdout")]

mod client;
#[path = "../support/server_process.rs"]
mod server_process;
#[allow(dead_code, reason = "shared by all benchmarks, none uses all of it")]
#[path = "../support/mod.rs"]
mod support;
mod upstream;

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nerve_testkit::Hermetic;
use serde_json::Value;

use client::Target;
use server_process::nerve;
use support::{Figure, Goal, Report, Samples, memory_of};

/// Pairs of requests whose first tokens are timed, and of warm-up requests.
const PAIRS: (usize, usize) = (3000, 200);
/// Bytes of a prompt: a short one, and a typical one of an agent.
const PROMPTS: [(usize, &str); 2] = [(1000, "1 KB"), (100_000, "100 KB")];
/// Duration and number of the counting rounds, direct and proxied in turn.
const COUNTED: (Duration, usize) = (Duration::from_secs(1), 4);
/// Streams that are open at once.
const OPEN: usize = 50;

fn main() -> Result<()> {
    if let Some(arguments) = support::fresh_process_arguments() {
        ensure!(arguments == ["upstream"], "unknown: {arguments:?}");
        return upstream::run();
    }
    if support::is_debug_build() {
        return Ok(());
    }
    let mut report = Report::new(
        "Proxy",
        "`nerve proxy` with its log on, a model API that answers at once and minimal clients, each in a process of \
         its own, on the same two cores, over HTTP/1.1. *First token*: from the request to the first words, over connections that are kept; \
         one request directly and one through the proxy, in turn, and the difference of each pair. *Answers*: of 50 events; *bytes*: in \
         answers of 1 MiB; a value is of 1 s, in turn too.",
    );
    let model = Running::upstream()?;
    let anthropic = Running::proxy("anthropic", &model)?;
    let openai = Running::proxy("openai", &model)?;
    let behind = [model.target("/v1/messages")?, model.target("/v1/chat/completions")?];
    let front = [anthropic.target("/v1/messages")?, openai.target("/v1/messages")?];
    let names = ["passed through", "translated from OpenAI's"];
    for ((direct, proxied), name) in behind.iter().zip(&front).zip(names) {
        for (bytes, prompt) in PROMPTS {
            eprintln!("proxy: first tokens, {name}, {prompt}");
            first_tokens(direct, proxied, (name, bytes, prompt), &mut report)?;
        }
    }
    for clients in [1, 10, 50] {
        eprintln!("proxy: throughput, {clients} clients");
        for (model, unit) in [("stream", "/s"), ("bulk", "MB/s")] {
            throughput(&behind[0], &front, (model, unit, clients), &mut report)?;
        }
    }
    drop((anthropic, openai));
    for kind in ["anthropic", "openai"] {
        memory(kind, &model, &mut report)?;
    }
    report.note("Median of the pairs; *p99* is of the differences: it includes other load of the machine.");
    report.print();
    Ok(())
}

/// A process that prints its address. Killed on drop.
struct Running {
    process: Child,
    url: String,
    _home: Hermetic,
}

impl Running {
    fn upstream() -> Result<Running> {
        let process = support::fresh_process(&["upstream"])?.stdout(Stdio::piped()).spawn()?;
        Running::listening(process, Hermetic::new()?, |line| Ok(line.to_string()))
    }

    fn proxy(kind: &str, upstream: &Running) -> Result<Running> {
        let home = Hermetic::new()?;
        let log = home.work().join("log.jsonl");
        let mut command = nerve(&home, &["proxy", kind, "--json", "--upstream", &upstream.url, "--log"]);
        let process = command.arg(log).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        Running::listening(process, home, |line| {
            let announcement: Value = serde_json::from_str(line)?;
            Ok(announcement["url"].as_str().context("no url")?.to_string())
        })
    }

    fn listening(
        mut process: Child,
        home: Hermetic,
        url: impl Fn(&str) -> Result<String>,
    ) -> Result<Running> {
        let mut line = String::new();
        BufReader::new(process.stdout.take().context("no output")?).read_line(&mut line)?;
        let url = url(line.trim());
        Ok(Running { process, url: url.with_context(|| format!("unexpected output {line:?}"))?, _home: home })
    }

    fn target(&self, path: &'static str) -> Result<Target> {
        Target::new(&self.url, path)
    }

    fn memory(&self) -> Result<f64> {
        memory_of(&self.process.id().to_string(), "VmRSS")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may already have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn first_tokens(
    direct: &Target,
    proxied: &Target,
    (name, bytes, prompt): (&str, usize, &str),
    report: &mut Report,
) -> Result<()> {
    let (mut direct, mut proxied) = (direct.connect("first", bytes)?, proxied.connect("first", bytes)?);
    let (mut without, mut with, mut added) = (Vec::new(), Vec::new(), Vec::new());
    let (timed, warm_up) = PAIRS;
    for number in 0..warm_up + timed {
        // The order alternates, so that warm caches favour neither.
        let (one, other) = if number % 2 == 0 {
            let one = direct.ask()?.0;
            (one, proxied.ask()?.0)
        } else {
            let other = proxied.ask()?.0;
            (direct.ask()?.0, other)
        };
        if number >= warm_up {
            let us = |time: Duration| time.as_secs_f64() * 1e6;
            without.push(us(one));
            with.push(us(other));
            added.push((us(other) - us(one)) / 1e3);
        }
    }
    let row = |way: &str| format!("first token, {name}, prompt of {prompt}{way}");
    report.row(&row(": directly"), &Samples::new(without).median("µs"));
    report.row(&row(": through the proxy"), &Samples::new(with).median("µs"));
    let added = Samples::new(added);
    report.goal(&row(": added"), &added.median("ms"), Goal::AtMost(1.0));
    report.row(&row(": added, p99"), &Figure::one(added.quantile(0.99), "ms"));
    Ok(())
}

fn throughput(
    direct: &Target,
    front: &[Target; 2],
    (model, unit, clients): (&str, &'static str, usize),
    report: &mut Report,
) -> Result<()> {
    let ways = [(direct, "directly"), (&front[0], "passed through"), (&front[1], "translated")];
    let mut rates = ways.map(|_| Vec::new());
    let (time, rounds) = COUNTED;
    for _ in 0..rounds {
        for ((target, _), rates) in ways.iter().zip(&mut rates) {
            let (answers, bytes) = count(target, model, clients, time)?;
            let counted = if unit == "/s" { answers } else { bytes / 1e6 };
            rates.push(counted);
        }
    }
    let what = if unit == "/s" { "answers" } else { "bytes" };
    for ((_, way), rates) in ways.iter().zip(rates) {
        report.row(&format!("{what}, {clients} clients, {way}"), &Samples::new(rates).median(unit));
    }
    Ok(())
}

/// Returns answers and bytes per second of all clients together.
fn count(target: &Target, model: &str, clients: usize, time: Duration) -> Result<(f64, f64)> {
    let mut ready = Vec::new();
    for _ in 0..clients {
        let mut client = target.connect(model, PROMPTS[0].0)?;
        client.ask()?;
        ready.push(client);
    }
    let start = Instant::now();
    let counted = thread::scope(|scope| {
        let run = |mut client: client::Client| {
            let (mut answers, mut bytes) = (0, 0);
            while start.elapsed() < time {
                bytes += client.ask()?.1;
                answers += 1;
            }
            anyhow::Ok((answers, bytes))
        };
        let threads: Vec<_> = ready.into_iter().map(|client| scope.spawn(move || run(client))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow::anyhow!("a client panicked"))?)
            .collect::<Result<Vec<_>>>()
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let (answers, bytes) =
        counted.iter().fold((0, 0), |(answers, bytes), one| (answers + one.0, bytes + one.1));
    Ok((f64::from(answers) / seconds, bytes as f64 / seconds))
}

/// Measures the memory of a proxy, idle and with open streams.
fn memory(kind: &str, model: &Running, report: &mut Report) -> Result<()> {
    eprintln!("proxy: memory, {kind}");
    let proxy = Running::proxy(kind, model)?;
    let target = proxy.target("/v1/messages")?;
    let mut open = Vec::new();
    let idle = proxy.memory()?;
    for _ in 0..OPEN {
        let mut client = target.connect("hold", PROMPTS[1].0)?;
        client.begin()?;
        open.push(client);
    }
    let busy = proxy.memory()?;
    drop(open);
    report.row(&format!("memory of `nerve proxy {kind}`, idle"), &Figure::one(idle, "MiB"));
    let what = format!("memory of `nerve proxy {kind}`, {OPEN} streams open with prompts of 100 KB");
    report.row(&what, &Figure::one(busy, "MiB"));
    Ok(())
}
