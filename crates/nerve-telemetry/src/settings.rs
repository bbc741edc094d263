//! Reads OpenTelemetry's environment variables (specification: SDK environment variables, OTLP exporter).

#[cfg(feature = "otel")]
use std::time::Duration;

#[cfg(feature = "otel")]
use opentelemetry_sdk::trace::Sampler;

/// Variables that enable the export. Without one of them no spans are collected.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
#[cfg(feature = "otel")]
const TIMEOUTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
/// The only supported protocol.
const PROTOCOL: &str = "http/protobuf";

/// Minimum delay: the batch processor polls its queue in this interval.
#[cfg(feature = "otel")]
const MIN_DELAY: Duration = Duration::from_millis(10);

/// Settings for recording and sending spans.
#[cfg(feature = "otel")]
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// Decides which traces are recorded.
    pub(super) sampler: Sampler,
    /// Includes prompts and answers in spans.
    pub(super) captures_content: bool,
    /// Capacity of the queue of finished spans. On overflow spans are lost.
    pub(super) queue: usize,
    /// Maximum number of spans per request.
    pub(super) batch: usize,
    /// Maximum delay of a span before it is sent.
    pub(super) delay: Duration,
    /// Time limit of an export, retries included.
    pub(super) timeout: Duration,
}

/// Reads the settings from variables. Invalid values are ignored and reported as problems.
pub(super) struct EnvReader<F> {
    variable: F,
    pub(super) problems: Vec<String>,
}

impl<F: Fn(&str) -> Option<String>> EnvReader<F> {
    pub(super) fn new(variable: F) -> EnvReader<F> {
        EnvReader { variable, problems: Vec::new() }
    }

    /// Returns true if the export is enabled.
    pub(super) fn has_collector(&mut self) -> bool {
        if self.first(&ENDPOINTS).is_none() || self.is_true("OTEL_SDK_DISABLED") {
            return false;
        }
        if let Some(exporter) = self.get("OTEL_TRACES_EXPORTER").filter(|exporter| exporter.trim() != "otlp")
        {
            if exporter.trim() != "none" {
                self.problems.push(format!(
                    "OTEL_TRACES_EXPORTER={exporter}: only otlp and none are supported; no traces are exported"
                ));
            }
            return false;
        }
        if let Some((name, protocol)) =
            self.first(&PROTOCOLS).filter(|(_, protocol)| protocol.trim() != PROTOCOL)
        {
            let message = format!(
                "{name}={protocol}: only {PROTOCOL} is supported (port 4318 of a collector); no traces are exported"
            );
            self.problems.push(message);
            return false;
        }
        true
    }

    fn get(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.trim().is_empty())
    }

    fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|text| text.trim().eq_ignore_ascii_case("true"))
    }

    /// Returns the first variable that is set, with its value.
    fn first(&self, names: &[&'static str]) -> Option<(&'static str, String)> {
        names.iter().find_map(|name| Some((*name, self.get(name)?)))
    }
}

#[cfg(feature = "otel")]
impl<F: Fn(&str) -> Option<String>> EnvReader<F> {
    /// Reads the settings; `None` if the export is disabled.
    pub(super) fn settings(&mut self) -> Option<Settings> {
        if !self.has_collector() {
            return None;
        }
        let queue = self.number("OTEL_BSP_MAX_QUEUE_SIZE", 2048, 1..=65_536);
        let batch = self.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512, 1..=65_536).min(queue);
        let delay = self.number("OTEL_BSP_SCHEDULE_DELAY", 5000, 0..=600_000);
        let timeout = self.first(&TIMEOUTS).map_or("OTEL_EXPORTER_OTLP_TIMEOUT", |(name, _)| name);
        let timeout = self.number(timeout, 10_000, 1..=600_000);
        Some(Settings {
            sampler: self.sampler(),
            captures_content: self.is_true("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"),
            queue: queue as usize,
            batch: batch as usize,
            delay: Duration::from_millis(delay).max(MIN_DELAY),
            timeout: Duration::from_millis(timeout),
        })
    }

    fn number(&mut self, name: &str, default: u64, range: std::ops::RangeInclusive<u64>) -> u64 {
        let Some(text) = self.get(name) else { return default };
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
        let parent_based = |root| Sampler::ParentBased(Box::new(root));
        let Some(name) = self.get("OTEL_TRACES_SAMPLER") else { return parent_based(Sampler::AlwaysOn) };
        match name.trim() {
            "always_on" => Sampler::AlwaysOn,
            "always_off" => Sampler::AlwaysOff,
            "traceidratio" => self.ratio(),
            "parentbased_always_on" => parent_based(Sampler::AlwaysOn),
            "parentbased_always_off" => parent_based(Sampler::AlwaysOff),
            "parentbased_traceidratio" => parent_based(self.ratio()),
            _ => {
                self.problems
                    .push(format!("OTEL_TRACES_SAMPLER={name} is unknown; using parentbased_always_on"));
                parent_based(Sampler::AlwaysOn)
            }
        }
    }

    fn ratio(&mut self) -> Sampler {
        let Some(text) = self.get("OTEL_TRACES_SAMPLER_ARG") else { return Sampler::TraceIdRatioBased(1.0) };
        match text.trim().parse() {
            Ok(ratio) if (0.0..=1.0).contains(&ratio) => Sampler::TraceIdRatioBased(ratio),
            _ => {
                self.problems
                    .push(format!("OTEL_TRACES_SAMPLER_ARG={text}: must be a number from 0 to 1; using 1"));
                Sampler::TraceIdRatioBased(1.0)
            }
        }
    }
}

#[cfg(all(test, feature = "otel"))]
mod tests {
    use super::*;

    fn read_from(set: &[(&str, &str)]) -> (Option<Settings>, Vec<String>) {
        let find = |name: &str| set.iter().find(|(known, _)| *known == name);
        let mut reader = EnvReader::new(|name: &str| find(name).map(|(_, value)| value.to_string()));
        (reader.settings(), reader.problems)
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
            (format!("{:?}", settings.unwrap().sampler), problems.len())
        };
        assert_eq!(sampler("always_off", ""), ("AlwaysOff".into(), 0));
        let ratio = "ParentBased(TraceIdRatioBased(0.25))";
        assert_eq!(sampler("parentbased_traceidratio", "0.25"), (ratio.into(), 0));
        assert_eq!(sampler("traceidratio", "2"), ("TraceIdRatioBased(1.0)".into(), 1));
        let default = read_from(&[ENDPOINT]).0.unwrap().sampler;
        assert_eq!(format!("{default:?}"), "ParentBased(AlwaysOn)");
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
        assert_eq!((settings.queue, settings.batch, settings.timeout.as_millis()), (10, 10, 250));
        assert!(settings.captures_content);
        assert!(!read_from(&[ENDPOINT]).0.unwrap().captures_content);
    }
}
