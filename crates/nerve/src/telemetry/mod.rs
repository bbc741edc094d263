//! Spans sent to an OpenTelemetry collector, where this program is built with the feature `otel` and its environment says where to.

#[cfg(feature = "otel")]
mod exporter;
mod settings;
#[cfg(feature = "otel")]
mod span_data;
#[cfg(feature = "otel")]
mod transport;

use nerve_core::telemetry::Telemetry;

/// Says what cannot be done, to people.
type Report = fn(&str);

/// Spans on their way out of this process.
#[must_use = "spans that wait are sent when it is finished"]
pub(crate) struct TraceExport {
    /// What an engine is given.
    pub(crate) telemetry: Telemetry,
    #[cfg(feature = "otel")]
    exporter: Option<exporter::Exporter>,
}

impl TraceExport {
    /// As the environment says: off unless it names a collector. `report` is told what of it cannot be done. Must be called on a runtime.
    pub(crate) fn from_env(server: &str, report: Report) -> TraceExport {
        let (settings, problems) = settings::read(|name| std::env::var(name).ok());
        problems.iter().for_each(|problem| report(problem.as_str()));
        match settings {
            Some(settings) => TraceExport::start(server, settings, report),
            None => TraceExport::off(),
        }
    }

    #[cfg(feature = "otel")]
    fn off() -> TraceExport {
        TraceExport { telemetry: Telemetry::off(), exporter: None }
    }

    #[cfg(not(feature = "otel"))]
    fn off() -> TraceExport {
        TraceExport { telemetry: Telemetry::off() }
    }

    #[cfg(feature = "otel")]
    fn start(server: &str, settings: settings::Settings, report: Report) -> TraceExport {
        match exporter::Exporter::start(server, settings, report) {
            Ok((telemetry, exporter)) => TraceExport { telemetry, exporter: Some(exporter) },
            Err(problem) => {
                report(&format!("no traces are sent: {problem}"));
                TraceExport::off()
            }
        }
    }

    #[cfg(not(feature = "otel"))]
    fn start(_server: &str, _settings: settings::Settings, report: Report) -> TraceExport {
        report(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, and this nerve cannot send traces: it was built without the feature 'otel'",
        );
        TraceExport::off()
    }

    /// Sends what waits, for a few seconds at most.
    pub(crate) async fn finish(self) {
        #[cfg(feature = "otel")]
        if let Some(exporter) = self.exporter {
            exporter.finish().await;
        }
    }
}
