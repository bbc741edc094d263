//! Metric families that are collected when they are scraped.

use std::collections::BTreeMap;
use std::time::SystemTime;

use nerve_api::reply::NodeInfo;
use nerve_node::metrics::{DURATION_BUCKETS, TurnCounts, TurnDurations};
use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};

/// Returns the version of nerve as labels.
pub(super) fn build() -> MetricFamily {
    let labels = [("version", env!("CARGO_PKG_VERSION"))];
    family(
        "nerve_build_info",
        "Always 1; which nerve it is, in labels.",
        MetricType::GAUGE,
        vec![gauge(&labels, 1.0)],
    )
}

/// Returns the server's uptime.
pub(super) fn uptime(started: SystemTime) -> MetricFamily {
    let seconds = started.elapsed().unwrap_or_default().as_secs_f64();
    family("nerve_uptime_seconds", "How long the server runs.", MetricType::GAUGE, vec![gauge(&[], seconds)])
}

/// Counts nodes by backend and state.
pub(super) fn nodes(nodes: &[NodeInfo]) -> MetricFamily {
    let mut counts: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for node in nodes {
        *counts.entry((node.kind.as_str(), node.state.as_str())).or_default() += 1;
    }
    let gauges = counts.into_iter();
    let gauges =
        gauges.map(|((kind, state), count)| gauge(&[("backend", kind), ("state", state)], f64::from(count)));
    family("nerve_nodes", "Nodes that there are, by backend and state.", MetricType::GAUGE, gauges.collect())
}

/// Returns counters of started turns and histograms of ended ones.
pub(super) fn turns(turns: &BTreeMap<&'static str, TurnCounts>) -> [MetricFamily; 2] {
    let started = turns.iter().map(|(kind, turns)| counter(&[("backend", *kind)], turns.started as f64));
    let ended = turns.iter().flat_map(|(kind, turns)| {
        turns.ended.iter().map(|(how, times)| histogram(&[("backend", *kind), ("outcome", *how)], times))
    });
    [
        family(
            "nerve_turns_started_total",
            "Turns that began, by backend.",
            MetricType::COUNTER,
            started.collect(),
        ),
        family(
            "nerve_turn_duration_seconds",
            "How long turns took, by backend and by how they ended: completed, interrupted, dropped or the type of the error.",
            MetricType::HISTOGRAM,
            ended.collect(),
        ),
    ]
}

/// Returns the number of bytes that nodes' programs have written.
pub(super) fn output(bytes: u64) -> MetricFamily {
    let about = "Bytes that programs of nodes have written since this server drives them.";
    family("nerve_node_output_bytes_total", about, MetricType::COUNTER, vec![counter(&[], bytes as f64)])
}

pub(super) fn family(name: &str, about: &str, kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_string());
    family.set_help(about.to_string());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}

pub(super) fn gauge(labels: &[(&str, &str)], value: f64) -> Metric {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    let mut metric = Metric::from_label(pairs(labels));
    metric.set_gauge(gauge);
    metric
}

fn counter(labels: &[(&str, &str)], value: f64) -> Metric {
    let mut counter = Counter::default();
    counter.set_value(value);
    let mut metric = Metric::from_label(pairs(labels));
    metric.set_counter(counter);
    metric
}

fn histogram(labels: &[(&str, &str)], times: &TurnDurations) -> Metric {
    let mut below = 0;
    let classes = DURATION_BUCKETS.iter().zip(times.buckets).map(|(bound, count)| {
        below += count;
        let mut class = Bucket::default();
        class.set_upper_bound(*bound);
        class.set_cumulative_count(below);
        class
    });
    let mut histogram = Histogram::default();
    histogram.set_bucket(classes.collect());
    histogram.set_sample_count(times.count);
    histogram.set_sample_sum(times.total.as_secs_f64());
    let mut metric = Metric::from_label(pairs(labels));
    metric.set_histogram(histogram);
    metric
}

fn pairs(labels: &[(&str, &str)]) -> Vec<LabelPair> {
    let pair = |(name, value): &(&str, &str)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_string());
        pair.set_value((*value).to_string());
        pair
    };
    labels.iter().map(pair).collect()
}
