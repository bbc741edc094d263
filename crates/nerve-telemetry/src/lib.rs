//! Logging, and the export of spans to an OpenTelemetry collector if the feature `otel` is built in and the environment configures
//! one.
#![warn(missing_docs)]

#[cfg(feature = "otel")]
mod exporter;
#[cfg(feature = "otel")]
mod loss_reporter;
mod settings;
#[cfg(feature = "otel")]
mod transport;

use nerve_node::telemetry::Telemetry;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

use self::settings::EnvReader;

/// A part of this process's subscriber.
pub type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Reports problems to the user.
type Report = fn(&str);

/// Export of this process's spans.
#[derive(Debug)]
#[must_use = "`finish` sends the queued spans"]
pub struct TraceExport {
    /// Settings for the engine.
    pub telemetry: Telemetry,
    #[cfg(feature = "otel")]
    exporter: Option<exporter::Exporter>,
}

impl TraceExport {
    /// Starts the log and the export configured by the environment: no export without a collector. Calls `report` for unsupported
    /// settings. Must be called once, within a runtime.
    pub fn from_env(server: &str, log: Option<BoxedLayer>, report: Report) -> TraceExport {
        let mut layers: Vec<BoxedLayer> = log.into_iter().collect();
        let mut reader = EnvReader::new(|name| std::env::var(name).ok());
        let export = TraceExport::start(server, &mut reader, &mut layers, report);
        if !layers.is_empty() {
            // Fails only if a test has set a subscriber.
            let _ = tracing_subscriber::registry().with(layers).try_init();
        }
        reader.problems.iter().for_each(|problem| report(problem));
        export
    }

    #[cfg(feature = "otel")]
    fn start(
        server: &str,
        reader: &mut EnvReader<impl Fn(&str) -> Option<String>>,
        layers: &mut Vec<BoxedLayer>,
        report: Report,
    ) -> TraceExport {
        let Some(settings) = reader.settings() else {
            return TraceExport { telemetry: Telemetry::default(), exporter: None };
        };
        let telemetry = Telemetry { captures_content: settings.captures_content };
        match exporter::start(server, settings, report) {
            Ok((layer, exporter)) => {
                layers.push(layer);
                TraceExport { telemetry, exporter: Some(exporter) }
            }
            Err(problem) => {
                reader.problems.push(format!("no traces are exported: {problem}"));
                TraceExport { telemetry, exporter: None }
            }
        }
    }

    #[cfg(not(feature = "otel"))]
    fn start(
        _server: &str,
        reader: &mut EnvReader<impl Fn(&str) -> Option<String>>,
        _layers: &mut Vec<BoxedLayer>,
        _report: Report,
    ) -> TraceExport {
        if reader.has_collector() {
            let problem = "OTEL_EXPORTER_OTLP_ENDPOINT is set, but no traces are exported: nerve was built without the feature 'otel'";
            reader.problems.push(problem.to_string());
        }
        TraceExport { telemetry: Telemetry::default() }
    }

    /// Sends the queued spans, for a few seconds at most.
    pub async fn finish(self) {
        #[cfg(feature = "otel")]
        if let Some(exporter) = self.exporter {
            exporter.finish().await;
        }
    }
}
