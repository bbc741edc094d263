//! What a server has done and does, in numbers for Prometheus.
//!
//! Events are counted where they are handed on, requests where they are answered, turns by the engine; what is there at a moment (nodes,
//! memory) is looked at when somebody asks. Names of nodes, sessions and graphs are in no label: labels have few values, known before.

mod families;
mod process;

use std::time::SystemTime;

use nerve_api::RequestName;
use nerve_core::command::{EventKind, GraphEventKind, NodeInfo};
use nerve_core::engine::Engine;
use nerve_core::error::ErrorKind;
use prometheus::core::Collector;
use prometheus::{
    Encoder, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

/// What the page is, as Prometheus knows it.
pub(crate) const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;
/// Bounds of the classes that runs are counted in, in seconds.
const RUN_SECONDS: &[f64] = &[1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 4.0 * 3600.0];

/// How a client is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Unix,
    Tcp,
    Http,
    WebSocket,
}

impl Transport {
    const ALL: [Transport; 4] = [Transport::Unix, Transport::Tcp, Transport::Http, Transport::WebSocket];

    fn as_str(self) -> &'static str {
        match self {
            Transport::Unix => "unix",
            Transport::Tcp => "tcp",
            Transport::Http => "http",
            Transport::WebSocket => "websocket",
        }
    }
}

/// The numbers of one server.
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

/// A client that is connected until this is dropped.
#[derive(Debug)]
pub(crate) struct Connected(IntGauge);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let counters = |name: &str, about: &str, labels: &[&str]| {
            made(IntCounterVec::new(Opts::new(name, about), labels))
        };
        let counter = |name: &str, about: &str| made(IntCounter::new(name, about));
        let runs = HistogramOpts::new(
            "nerve_graph_run_duration_seconds",
            "How long runs of graphs took, by how they ended.",
        );
        let lost = Opts::new(
            "nerve_events_dropped_total",
            "Events that somebody did not get because it was too slow.",
        );
        let metrics = Metrics {
            registry: Registry::new(),
            started: SystemTime::now(),
            events: counters("nerve_events_published_total", "Events of the engine, by type.", &["type"]),
            lost: made(IntCounter::with_opts(lost.clone().const_label("by", "server"))),
            dropped: made(IntCounter::with_opts(lost.const_label("by", "subscriber"))),
            runs_started: counter(
                "nerve_graph_runs_started_total",
                "Runs of graphs that began; resumed ones count again.",
            ),
            runs: made(HistogramVec::new(runs.buckets(RUN_SECONDS.to_vec()), &["status"])),
            steps_started: counter(
                "nerve_graph_steps_started_total",
                "Attempts at steps of graphs that began.",
            ),
            steps: counters(
                "nerve_graph_steps_total",
                "Attempts at steps of graphs that ended, by how.",
                &["status"],
            ),
            connections: made(IntGaugeVec::new(
                Opts::new("nerve_connections", "Clients that are connected now, those without a token too."),
                &["transport"],
            )),
            connected: counters("nerve_connections_total", "Clients that have connected.", &["transport"]),
            requests: counters(
                "nerve_requests_total",
                "Commands that were answered, by command and by what came of them: ok, or the type of the error.",
                &["command", "outcome"],
            ),
        };
        metrics.register();
        metrics
    }

    fn register(&self) {
        let all: [Box<dyn Collector>; 10] = [
            Box::new(self.events.clone()),
            Box::new(self.lost.clone()),
            Box::new(self.dropped.clone()),
            Box::new(self.runs_started.clone()),
            Box::new(self.runs.clone()),
            Box::new(self.steps_started.clone()),
            Box::new(self.steps.clone()),
            Box::new(self.connections.clone()),
            Box::new(self.connected.clone()),
            Box::new(self.requests.clone()),
        ];
        for one in all {
            made(self.registry.register(one));
        }
        // What has not happened yet is nought, and not unknown.
        for transport in Transport::ALL {
            let _ = (
                self.connections.with_label_values(&[transport.as_str()]),
                self.connected.with_label_values(&[transport.as_str()]),
            );
        }
    }

    /// An event is handed on, under its name on the wire.
    pub(crate) fn published(&self, event_type: &str) {
        self.events.with_label_values(&[event_type]).inc();
    }

    /// Something happened in the engine.
    pub(crate) fn happened(&self, kind: &EventKind) {
        let EventKind::Graph(graph) = kind else { return };
        match &graph.kind {
            GraphEventKind::Started { .. } => self.runs_started.inc(),
            GraphEventKind::StepStarted { .. } => self.steps_started.inc(),
            GraphEventKind::StepCompleted { how, .. } => self.steps.with_label_values(&[*how]).inc(),
            GraphEventKind::StepFailed { retry_in, .. } => {
                let how = if retry_in.is_some() { "retried" } else { "failed" };
                self.steps.with_label_values(&[how]).inc();
            }
            GraphEventKind::Ended { status, ms, .. } => {
                self.runs.with_label_values(&[status.as_str()]).observe(*ms as f64 / 1e3);
            }
            GraphEventKind::GateAsked(_) | GraphEventKind::GateAnswered { .. } => {}
        }
    }

    /// Events did not come from the engine to the server.
    pub(crate) fn events_lost(&self, count: u64) {
        self.lost.inc_by(count);
    }

    /// Events did not fit into queues of subscribers.
    pub(crate) fn events_dropped(&self, count: u64) {
        self.dropped.inc_by(count);
    }

    /// A client has connected.
    pub(crate) fn connected(&self, transport: Transport) -> Connected {
        self.connected.with_label_values(&[transport.as_str()]).inc();
        let gauge = self.connections.with_label_values(&[transport.as_str()]);
        gauge.inc();
        Connected(gauge)
    }

    /// Counts a request that was answered, `error` if it failed.
    pub(crate) fn answered(&self, request: RequestName, error: Option<ErrorKind>) {
        let outcome = error.map_or("ok", ErrorKind::as_str);
        self.requests.with_label_values(&[request.as_str(), outcome]).inc();
    }

    /// Something was answered that is no command, or whose params are wrong.
    pub(crate) fn refused(&self) {
        self.requests.with_label_values(&["unknown", "invalid_request_error"]).inc();
    }

    /// The page: all numbers as they are now. `nodes`: those that there are.
    pub(crate) fn page(&self, engine: &Engine, nodes: &[NodeInfo]) -> Vec<u8> {
        let mut all = self.registry.gather();
        all.push(families::build());
        all.push(families::uptime(self.started));
        all.push(families::nodes(nodes));
        all.extend(families::turns(&engine.meter().turns()));
        all.push(families::output(engine.meter().output()));
        all.extend(process::families(self.started));
        all.sort_by(|one, other| one.name().cmp(other.name()));
        // One without a single number is not written: the format has no place for it.
        all.retain(|family| !family.get_metric().is_empty());
        let mut page = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&all, &mut page) {
            tracing::error!(%error, "the numbers cannot be written");
        }
        page
    }
}

/// Names and labels are the constants above, and each is registered once: it fails only where they are wrong, in the first test.
fn made<T>(result: prometheus::Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("a number that cannot be: {error}"))
}
