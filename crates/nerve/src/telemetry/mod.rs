//! Exports spans to an OpenTelemetry collector if the feature `otel` is built in and the environment configures one.

#[cfg(feature = "otel")]
mod exporter;
mod settings;
#[cfg(feature = "otel")]
mod span_data;
#[cfg(feature = "otel")]
mod transport;

use nerve_core::telemetry::Telemetry;

/// Reports problems to the user.
type Report = fn(&str);

/// Export of this process's spans.
#[must_use = "`finish` sends the queued spans"]
pub(crate) struct TraceExport {
    /// Telemetry handle for the engine.
    pub(crate) telemetry: Telemetry,
    #[cfg(feature = "otel")]
    exporter: Option<exporter::Exporter>,
}

impl TraceExport {
    /// Starts the export configured by the environment: none without a collector. Calls `report` for unsupported settings. Must
    /// be called within a runtime.
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
                report(&format!("no traces are exported: {problem}"));
                TraceExport::off()
            }
        }
    }

    #[cfg(not(feature = "otel"))]
    fn start(_server: &str, _settings: settings::Settings, report: Report) -> TraceExport {
        report(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but no traces are exported: nerve was built without the feature 'otel'",
        );
        TraceExport::off()
    }

    /// Sends the queued spans, for a few seconds at most.
    pub(crate) async fn finish(self) {
        #[cfg(feature = "otel")]
        if let Some(exporter) = self.exporter {
            exporter.finish().await;
        }
    }
}
