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
type Tell = fn(&str);

/// Spans on their way out of this process.
#[must_use = "spans that wait are sent when it is finished"]
pub(crate) struct Exporting {
    /// What an engine is given.
    pub(crate) telemetry: Telemetry,
    #[cfg(feature = "otel")]
    exporter: Option<exporter::Exporter>,
}

impl Exporting {
    /// As the environment says: off unless it names a collector. `tell` is told what of it cannot be done. Must be called on a runtime.
    pub(crate) fn from_env(server: &str, tell: Tell) -> Exporting {
        let (settings, problems) = settings::read(|name| std::env::var(name).ok());
        problems.iter().for_each(|problem| tell(problem.as_str()));
        match settings {
            Some(settings) => Exporting::start(server, settings, tell),
            None => Exporting::off(),
        }
    }

    #[cfg(feature = "otel")]
    fn off() -> Exporting {
        Exporting { telemetry: Telemetry::off(), exporter: None }
    }

    #[cfg(not(feature = "otel"))]
    fn off() -> Exporting {
        Exporting { telemetry: Telemetry::off() }
    }

    #[cfg(feature = "otel")]
    fn start(server: &str, settings: settings::Settings, tell: Tell) -> Exporting {
        match exporter::Exporter::start(server, settings, tell) {
            Ok((telemetry, exporter)) => Exporting { telemetry, exporter: Some(exporter) },
            Err(problem) => {
                tell(&format!("no traces are sent: {problem}"));
                Exporting::off()
            }
        }
    }

    #[cfg(not(feature = "otel"))]
    fn start(_server: &str, _settings: settings::Settings, tell: Tell) -> Exporting {
        tell(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, and this nerve cannot send traces: it was built without the feature 'otel'",
        );
        Exporting::off()
    }

    /// Sends what waits, for a few seconds at most.
    pub(crate) async fn finish(self) {
        #[cfg(feature = "otel")]
        if let Some(exporter) = self.exporter {
            exporter.finish().await;
        }
    }
}
