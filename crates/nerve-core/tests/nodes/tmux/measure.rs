//! Numbers, on demand: `cargo nextest run -p nerve-core --test nodes --run-ignored only -E 'test(tmux::measure)' --no-capture`.

use std::time::{Duration, Instant};

use nerve_core::command::StateName;

use super::{BASH, Tmux};
use crate::stage::Stage;

fn told(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let (median, late) = (times[times.len() / 2], times[times.len() * 95 / 100]);
    eprintln!("{what}: median {median:?}, 95 % {late:?}, most {:?}", times.last());
}

async fn turns(stage: &Stage) -> Vec<Duration> {
    let mut times = Vec::new();
    for n in 0..200 {
        let since = Instant::now();
        assert_eq!(stage.ask("sh", &format!("echo {n}")).await.text, n.to_string());
        times.push(since.elapsed());
    }
    times
}

/// Clock ticks (10 ms) that a process has used.
fn used(pid: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, not a test"]
async fn turns_beside_our_own_terminals() {
    let Some(tmux) = Tmux::new("measure") else { return };
    tmux.start("sh", &BASH).await;
    let own = Stage::new();
    own.start("sh", &BASH).await;
    tmux.stage.ask("sh", "true").await;
    own.ask("sh", "true").await;
    told("own terminal", turns(&own).await);
    told("tmux", turns(&tmux.stage).await);
    tmux.stop("sh").await;
    own.stop("sh").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, not a test"]
async fn twenty_idle_panes() {
    let Some(tmux) = Tmux::new("measure") else { return };
    for n in 0..20 {
        let since = Instant::now();
        tmux.start(&format!("n{n}"), &BASH).await;
        eprint!("{:?} ", since.elapsed());
        tmux.stage.wait(&format!("n{n}"), StateName::Ready).await.unwrap();
    }
    let server = tmux.tmux(&["display-message", "-p", "#{pid}"]).unwrap();
    let clients = tmux.tmux(&["list-clients", "-F", "#{client_pid}"]).unwrap();
    let clients: Vec<&str> = clients.lines().collect();
    assert_eq!(clients.len(), 20);
    let all = || (used("self"), used(&server), clients.iter().map(|pid| used(pid)).sum::<u64>());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = all();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let after = all();
    let percent = |from: u64, to: u64| (to - from) as f64 / 10.0;
    eprintln!(
        "\n20 idle panes, % of a core: engine {}, tmux {}, its clients {}",
        percent(before.0, after.0),
        percent(before.1, after.1),
        percent(before.2, after.2)
    );
}
