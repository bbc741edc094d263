//! Reads OpenTelemetry's environment variables (specification: SDK environment variables, OTLP exporter).

use std::time::Duration;

use nerve_core::telemetry::{RootSampler, Sampler, TelemetrySetup};

/// Variables that enable the export. Without one of them no spans are collected.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
const TIMEOUTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
/// The only supported protocol.
const PROTOCOL: &str = "http/protobuf";

/// Settings for sending spans.
#[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "nothing is sent without the feature"))]
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// Sampling and queue.
    pub(super) setup: TelemetrySetup,
    /// Maximum number of spans per request.
    pub(super) batch: usize,
    /// Maximum delay of a span before it is sent.
    pub(super) delay: Duration,
    /// Time limit of an export, retries included.
    pub(super) timeout: Duration,
}

/// Reads the settings; `None` if the export is disabled. Also returns messages about invalid values, which are ignored.
pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> (Option<Settings>, Vec<String>) {
    let mut reader = EnvReader {
        variable: |name: &str| variable(name).filter(|value| !value.trim().is_empty()),
        problems: Vec::new(),
    };
    let settings = reader.settings();
    (settings, reader.problems)
}

struct EnvReader<F> {
    variable: F,
    problems: Vec<String>,
}

impl<F: Fn(&str) -> Option<String>> EnvReader<F> {
    fn settings(&mut self) -> Option<Settings> {
        let is_true = |text: String| text.trim().eq_ignore_ascii_case("true");
        self.first(&ENDPOINTS)?;
        if (self.variable)("OTEL_SDK_DISABLED").is_some_and(is_true) {
            return None;
        }
        if let Some(exporter) =
            (self.variable)("OTEL_TRACES_EXPORTER").filter(|exporter| exporter.trim() != "otlp")
        {
            if exporter.trim() != "none" {
                self.problems.push(format!(
                    "OTEL_TRACES_EXPORTER={exporter}: only otlp and none are supported; no traces are exported"
                ));
            }
            return None;
        }
        if let Some((name, protocol)) =
            self.first(&PROTOCOLS).filter(|(_, protocol)| protocol.trim() != PROTOCOL)
        {
            let message = format!(
                "{name}={protocol}: only {PROTOCOL} is supported (port 4318 of a collector); no traces are exported"
            );
            self.problems.push(message);
            return None;
        }
        let queue = self.number("OTEL_BSP_MAX_QUEUE_SIZE", 2048, 1..=65_536);
        let batch = self.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512, 1..=65_536).min(queue);
        let delay = self.number("OTEL_BSP_SCHEDULE_DELAY", 5000, 0..=600_000);
        let timeout = self.first(&TIMEOUTS).map_or("OTEL_EXPORTER_OTLP_TIMEOUT", |(name, _)| name);
        let timeout = self.number(timeout, 10_000, 1..=600_000);
        let captures_content =
            (self.variable)("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT").is_some_and(is_true);
        Some(Settings {
            setup: TelemetrySetup { sampler: self.sampler(), queue: queue as usize, captures_content },
            batch: batch as usize,
            delay: Duration::from_millis(delay),
            timeout: Duration::from_millis(timeout),
        })
    }

    /// Returns the first variable that is set, with its value.
    fn first(&self, names: &[&'static str]) -> Option<(&'static str, String)> {
        names.iter().find_map(|name| Some((*name, (self.variable)(name)?)))
    }

    fn number(&mut self, name: &str, default: u64, range: std::ops::RangeInclusive<u64>) -> u64 {
        let Some(text) = (self.variable)(name) else { return default };
        match text.trim().parse() {
            Ok(number) if range.contains(&number) => number,
            _ => {
                let message = format!(
                    "{name}={text}: must be a whole number from {} to {}; using {default}",
                    range.start(),
                    range.end()
                );
                self.problems.push(message);
                default
            }
        }
    }

    fn sampler(&mut self) -> Sampler {
        let Some(name) = (self.variable)("OTEL_TRACES_SAMPLER") else { return Sampler::default() };
        match name.trim() {
            "always_on" => Sampler::Always(RootSampler::On),
            "always_off" => Sampler::Always(RootSampler::Off),
            "traceidratio" => Sampler::Always(self.ratio()),
            "parentbased_always_on" => Sampler::ParentBased(RootSampler::On),
            "parentbased_always_off" => Sampler::ParentBased(RootSampler::Off),
            "parentbased_traceidratio" => Sampler::ParentBased(self.ratio()),
            _ => {
                self.problems
                    .push(format!("OTEL_TRACES_SAMPLER={name} is unknown; using parentbased_always_on"));
                Sampler::default()
            }
        }
    }

    fn ratio(&mut self) -> RootSampler {
        let Some(text) = (self.variable)("OTEL_TRACES_SAMPLER_ARG") else { return RootSampler::Ratio(1.0) };
        match text.trim().parse() {
            Ok(ratio) if (0.0..=1.0).contains(&ratio) => RootSampler::Ratio(ratio),
            _ => {
                self.problems
                    .push(format!("OTEL_TRACES_SAMPLER_ARG={text}: must be a number from 0 to 1; using 1"));
                RootSampler::Ratio(1.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_from(set: &[(&str, &str)]) -> (Option<Settings>, Vec<String>) {
        read(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string()))
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");

    #[test]
    fn export_requires_an_endpoint() {
        let disabled: [&[(&str, &str)]; 6] = [
            &[],
            &[
                ("OTEL_SERVICE_NAME", "x"),
                ("OTEL_TRACES_EXPORTER", "otlp"),
                ("OTEL_TRACES_SAMPLER", "always_on"),
            ],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")],
            &[("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://x")],
            &[ENDPOINT, ("OTEL_SDK_DISABLED", "True")],
            &[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")],
        ];
        for set in disabled {
            let (settings, problems) = read_from(set);
            assert!(settings.is_none() && problems.is_empty(), "{set:?}: {problems:?}");
        }
        assert!(read_from(&[ENDPOINT]).0.is_some());
        assert!(read_from(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://x/traces")]).0.is_some());
    }

    #[test]
    fn reports_unsupported_values() {
        for invalid in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
            ("OTEL_TRACES_EXPORTER", "zipkin"),
        ] {
            let (settings, problems) = read_from(&[ENDPOINT, invalid]);
            assert!(settings.is_none() && problems[0].contains(invalid.1), "{problems:?}");
        }
        for invalid in [
            ("OTEL_TRACES_SAMPLER", "sometimes"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
            ("OTEL_BSP_SCHEDULE_DELAY", "-1"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
        ] {
            let (settings, problems) = read_from(&[ENDPOINT, invalid]);
            assert!(settings.is_some() && problems[0].contains(invalid.0), "{problems:?}");
        }
    }

    #[test]
    fn parses_samplers() {
        let sampler = |name, arg| {
            let set = [ENDPOINT, ("OTEL_TRACES_SAMPLER", name), ("OTEL_TRACES_SAMPLER_ARG", arg)];
            let (settings, problems) = read_from(&set);
            (settings.unwrap().setup.sampler, problems.len())
        };
        assert_eq!(sampler("always_off", ""), (Sampler::Always(RootSampler::Off), 0));
        assert_eq!(
            sampler("parentbased_traceidratio", "0.25"),
            (Sampler::ParentBased(RootSampler::Ratio(0.25)), 0)
        );
        assert_eq!(sampler("traceidratio", "2"), (Sampler::Always(RootSampler::Ratio(1.0)), 1));
        assert_eq!(read_from(&[ENDPOINT]).0.unwrap().setup.sampler, Sampler::default());
    }

    #[test]
    fn parses_limits_and_content_capture() {
        let set = [
            ENDPOINT,
            ("OTEL_BSP_MAX_QUEUE_SIZE", "10"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
            ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true"),
        ];
        let settings = read_from(&set).0.unwrap();
        assert_eq!((settings.setup.queue, settings.batch, settings.timeout.as_millis()), (10, 10, 250));
        assert!(settings.setup.captures_content);
        assert!(!read_from(&[ENDPOINT]).0.unwrap().setup.captures_content);
    }
}
