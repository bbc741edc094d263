//! The standard process metrics of Prometheus.

use std::time::{SystemTime, UNIX_EPOCH};

use nerve_types::os;
use prometheus::proto::{MetricFamily, MetricType};

use super::families::{family, gauge};

/// Collects the process metrics that the system provides.
pub(super) fn collect(started: SystemTime) -> Vec<MetricFamily> {
    let began = started.duration_since(UNIX_EPOCH).map(|since| since.as_secs_f64()).ok();
    let resident = os::resident_bytes().map(|bytes| bytes as f64);
    let open_files = os::open_descriptors().map(|count| count as f64);
    let metrics = [
        ("process_start_time_seconds", "When the server began, in seconds since 1970.", began),
        ("process_resident_memory_bytes", "Memory that is in use, in bytes.", resident),
        ("process_open_fds", "Files and sockets that are open.", open_files),
        ("process_max_fds", "How many may be.", max_open_files()),
    ];
    let available = metrics.into_iter().filter_map(|(name, about, value)| Some((name, about, value?)));
    available
        .map(|(name, about, value)| family(name, about, MetricType::GAUGE, vec![gauge(&[], value)]))
        .collect()
}

fn max_open_files() -> Option<f64> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    Some(limit.current? as f64)
}
