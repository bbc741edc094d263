//! The standard process metrics of Prometheus.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::proto::{MetricFamily, MetricType};

use super::families::{family, gauge};

/// Collects the process metrics that the system provides.
pub(super) fn families(started: SystemTime) -> Vec<MetricFamily> {
    let began = started.duration_since(UNIX_EPOCH).map(|since| since.as_secs_f64()).ok();
    let all = [
        ("process_start_time_seconds", "When the server began, in seconds since 1970.", began),
        ("process_resident_memory_bytes", "Memory that is in use, in bytes.", resident()),
        ("process_open_fds", "Files and sockets that are open.", open_files()),
        ("process_max_fds", "How many may be.", max_open_files()),
    ];
    let known = all.into_iter().filter_map(|(name, about, value)| Some((name, about, value?)));
    known
        .map(|(name, about, value)| family(name, about, MetricType::GAUGE, vec![gauge(&[], value)]))
        .collect()
}

/// Reads the resident set size from `/proc/self/status`, where it is in kibibytes (proc(5)).
fn resident() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

fn open_files() -> Option<f64> {
    // The directory itself is open while it is read.
    Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as f64)
}

fn max_open_files() -> Option<f64> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    Some(limit.current? as f64)
}
