//! Metrics of the server for Prometheus.
//!
//! Events are counted when they are forwarded, requests when they are answered, turns by the engine.
//! Momentary values (nodes, memory) are read on each scrape. Names of nodes, sessions and graphs never become
//! labels: labels have few values, all known in advance.

mod families;
mod process;

use std::time::SystemTime;

use nerve_api::RequestName;
use nerve_api::reply::NodeInfo;
use nerve_api::{EventKind, EventType};
use nerve_engine::Engine;
use nerve_node::error::ErrorKind;
use prometheus::core::Collector;
use prometheus::{
    Encoder, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};
use strum::{IntoStaticStr, VariantArray};

/// Content type of the metrics page.
pub(crate) const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;
/// Upper bounds of the histogram buckets for graph runs, in seconds.
const RUN_SECONDS: &[f64] = &[1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 4.0 * 3600.0];

/// Transport of a client's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Transport {
    Unix,
    Tcp,
    Http,
    WebSocket,
}

impl Transport {
    fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The metrics of one server.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    started: SystemTime,
    events: IntCounterVec,
    lost: IntCounter,
    dropped: IntCounter,
    runs_started: IntCounter,
    runs: HistogramVec,
    steps_started: IntCounter,
    steps: IntCounterVec,
    connections: IntGaugeVec,
    connected: IntCounterVec,
    requests: IntCounterVec,
}

/// Counts a client as connected until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionGuard(IntGauge);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let registry = Registry::new();
        let counters = |name: &str, about: &str, label: &[&str]| {
            register(&registry, IntCounterVec::new(Opts::new(name, about), label))
        };
        let counter = |name: &str, about: &str| register(&registry, IntCounter::new(name, about));
        let runs =
            HistogramOpts::new("nerve_graph_run_duration_seconds", "Duration of graph runs, by outcome.");
        let lost = Opts::new(
            "nerve_events_dropped_total",
            "Events that were dropped because a receiver was too slow.",
        );
        let lost = |by: &str| register(&registry, IntCounter::with_opts(lost.clone().const_label("by", by)));
        let connections =
            Opts::new("nerve_connections", "Currently connected clients, including unauthenticated ones.");
        let metrics = Metrics {
            started: SystemTime::now(),
            events: counters("nerve_events_published_total", "Events of the engine, by type.", &["type"]),
            lost: lost("server"),
            dropped: lost("subscriber"),
            runs_started: counter(
                "nerve_graph_runs_started_total",
                "Graph runs that were started; resumed runs count again.",
            ),
            runs: register(&registry, HistogramVec::new(runs.buckets(RUN_SECONDS.to_vec()), &["status"])),
            steps_started: counter(
                "nerve_graph_steps_started_total",
                "Attempts of graph steps that were started.",
            ),
            steps: counters(
                "nerve_graph_steps_total",
                "Attempts of graph steps that ended, by outcome.",
                &["status"],
            ),
            connections: register(&registry, IntGaugeVec::new(connections, &["transport"])),
            connected: counters(
                "nerve_connections_total",
                "Clients that have connected so far.",
                &["transport"],
            ),
            requests: counters(
                "nerve_requests_total",
                "Answered commands, by command and outcome: ok, or the kind of error.",
                &["command", "outcome"],
            ),
            registry,
        };
        // A series that has not counted anything yet is zero, not missing.
        for transport in Transport::VARIANTS {
            let _ = (
                metrics.connections.with_label_values(&[transport.as_str()]),
                metrics.connected.with_label_values(&[transport.as_str()]),
            );
        }
        metrics
    }

    /// Counts a published event by its name in the protocol.
    pub(crate) fn count_event(&self, event_type: EventType) {
        self.events.with_label_values(&[event_type.as_str()]).inc();
    }

    /// Counts a graph event of the engine.
    pub(crate) fn count_graph_event(&self, kind: &EventKind) {
        match kind {
            EventKind::GraphStarted { .. } => self.runs_started.inc(),
            EventKind::StepStarted { .. } => self.steps_started.inc(),
            EventKind::StepCompleted { state, .. } => self.steps.with_label_values(&[state.as_str()]).inc(),
            EventKind::StepFailed { retry_in_ms, .. } => {
                let how = if retry_in_ms.is_some() { "retried" } else { "failed" };
                self.steps.with_label_values(&[how]).inc();
            }
            EventKind::GraphCompleted { status, duration_ms, .. } => {
                self.runs.with_label_values(&[status.as_str()]).observe(*duration_ms as f64 / 1e3);
            }
            _ => {}
        }
    }

    /// Counts events that the server lost because it lagged behind the engine.
    pub(crate) fn count_lost_events(&self, count: u64) {
        self.lost.inc_by(count);
    }

    /// Counts events that were dropped from subscribers' queues.
    pub(crate) fn count_dropped_events(&self, count: u64) {
        self.dropped.inc_by(count);
    }

    /// Counts a new client.
    pub(crate) fn count_connection(&self, transport: Transport) -> ConnectionGuard {
        self.connected.with_label_values(&[transport.as_str()]).inc();
        let gauge = self.connections.with_label_values(&[transport.as_str()]);
        gauge.inc();
        ConnectionGuard(gauge)
    }

    /// Counts a request that was answered, `error` if it failed.
    pub(crate) fn count_request(&self, request: RequestName, error: Option<ErrorKind>) {
        let outcome = error.map_or("ok", ErrorKind::as_str);
        self.requests.with_label_values(&[request.as_str(), outcome]).inc();
    }

    /// Counts a request that was rejected before it became a command.
    pub(crate) fn count_refusal(&self) {
        self.requests.with_label_values(&["unknown", ErrorKind::InvalidRequest.as_str()]).inc();
    }

    /// Renders all metrics. `nodes`: the existing nodes.
    pub(crate) fn render(&self, engine: &Engine, nodes: &[NodeInfo]) -> Vec<u8> {
        let mut metric_families = self.registry.gather();
        metric_families.push(families::build());
        metric_families.push(families::uptime(self.started));
        metric_families.push(families::nodes(nodes));
        metric_families.extend(families::turns(&engine.metrics().turns()));
        metric_families.push(families::output(engine.metrics().output()));
        metric_families.extend(process::collect(self.started));
        metric_families.sort_by(|one, other| one.name().cmp(other.name()));
        // The text format cannot express a family without samples.
        metric_families.retain(|family| !family.get_metric().is_empty());
        let mut page = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&metric_families, &mut page) {
            tracing::error!(%error, "the numbers cannot be written");
        }
        page
    }
}

/// Registers a metric. Names and labels are constants, so it can fail only in development, in the first test.
fn register<C: Collector + Clone + 'static>(registry: &Registry, metric: prometheus::Result<C>) -> C {
    let registered = metric.and_then(|metric| registry.register(Box::new(metric.clone())).map(|()| metric));
    registered.unwrap_or_else(|error| panic!("invalid metric: {error}"))
}
