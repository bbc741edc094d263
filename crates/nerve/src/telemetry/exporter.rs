//! Exports queued spans in batches. If the collector is unreachable or slow, spans are lost with a warning.

use std::time::Duration;

use nerve_core::telemetry::{Span, Spans, Telemetry};
use opentelemetry::{InstrumentationScope, Key, KeyValue};
use opentelemetry_otlp::{Protocol, SpanExporter as Otlp, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanExporter;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::settings::Settings;
use super::transport::Transport;
use super::{Report, span_data};

/// Time limit for sending the last spans.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);
/// Minimum interval between reports of lost spans.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Exports spans to a collector in a background task.
#[derive(Debug)]
pub(super) struct Exporter {
    task: JoinHandle<()>,
    stop: CancellationToken,
    report: Report,
}

impl Exporter {
    /// Starts the export.
    ///
    /// # Errors
    /// The exporter cannot be configured from the environment.
    pub(super) fn start(
        server: &str,
        settings: Settings,
        report: Report,
    ) -> Result<(Telemetry, Exporter), String> {
        let transport = Transport { limit: settings.timeout };
        let built = Otlp::builder()
            .with_http()
            .with_http_client(transport)
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(settings.timeout)
            .build();
        let mut otlp = built.map_err(|error| error.to_string())?;
        otlp.set_resource(&resource(server));
        let (telemetry, spans) = Telemetry::new(settings.setup.clone());
        let stop = CancellationToken::new();
        let scope = InstrumentationScope::builder("nerve").with_version(env!("CARGO_PKG_VERSION")).build();
        let work = ExportTask { otlp, scope, settings, spans, losses: LossReporter::new(report) };
        let task = tokio::spawn(work.run(stop.clone()));
        Ok((telemetry, Exporter { task, stop, report }))
    }

    /// Exports the queued spans and stops.
    pub(super) async fn finish(mut self) {
        self.stop.cancel();
        if timeout(FLUSH_TIMEOUT, &mut self.task).await.is_err() {
            self.task.abort();
            (self.report)(&format!(
                "the last traces were lost: not sent within {} s",
                FLUSH_TIMEOUT.as_secs()
            ));
        }
    }
}

/// Returns the resource attributes. `service.name` is `nerve` unless the environment sets it.
fn resource(server: &str) -> Resource {
    const SERVICE: Key = Key::from_static_str("service.name");
    let named = Resource::builder().build();
    let is_named = named.get(&SERVICE).is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    let builder = Resource::builder().with_attributes([
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("nerve.server", server.to_string()),
        KeyValue::new("process.pid", i64::from(std::process::id())),
    ]);
    if is_named { builder } else { builder.with_service_name("nerve") }.build()
}

struct ExportTask {
    otlp: Otlp,
    scope: InstrumentationScope,
    settings: Settings,
    spans: Spans,
    losses: LossReporter,
}

impl ExportTask {
    async fn run(mut self, stop: CancellationToken) {
        while let Some(batch) = self.batch(&stop).await {
            self.send(batch).await;
        }
        self.losses.flush();
    }

    /// Collects a batch: until it is full or the delay is over. Returns `None` after the last span.
    async fn batch(&mut self, stop: &CancellationToken) -> Option<Vec<Span>> {
        let mut batch = vec![self.next(stop).await?];
        let until = Instant::now() + self.settings.delay;
        while batch.len() < self.settings.batch {
            match timeout_at(until, self.next(stop)).await {
                Ok(Some(span)) => batch.push(span),
                Ok(None) | Err(_) => break,
            }
        }
        Some(batch)
    }

    /// Returns the next span. After `stop` returns the queued spans, then `None`.
    async fn next(&mut self, stop: &CancellationToken) -> Option<Span> {
        tokio::select! {
            // Checks for a stop before any queued span.
            biased;
            () = stop.cancelled() => self.spans.close(),
            span = self.spans.next() => return span,
        }
        self.spans.next().await
    }

    async fn send(&mut self, batch: Vec<Span>) {
        let count = batch.len() as u64;
        let batch = batch.into_iter().map(|span| span_data::span(span, &self.scope)).collect();
        // The exporter limits its retries and requests; this limit is a safeguard.
        let sent = timeout(2 * self.settings.timeout, self.otlp.export(batch)).await;
        let problem = match sent {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("the collector timed out".to_string()),
        };
        self.losses.record(self.spans.take_lost(), problem.map(|problem| (count, problem)));
    }
}

/// Counts lost spans and reports them at intervals.
#[derive(Debug)]
struct LossReporter {
    report: Report,
    lost: u64,
    why: Option<String>,
    reported_at: Option<Instant>,
}

impl LossReporter {
    fn new(report: Report) -> LossReporter {
        LossReporter { report, lost: 0, why: None, reported_at: None }
    }

    fn record(&mut self, lost: u64, failed: Option<(u64, String)>) {
        self.lost += lost;
        if let Some((count, why)) = failed {
            self.lost += count;
            self.why = Some(why);
        }
        if self.reported_at.is_none_or(|at| at.elapsed() >= REPORT_INTERVAL) {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.lost == 0 {
            return;
        }
        let why = self.why.take().unwrap_or_else(|| "the queue was full".to_string());
        (self.report)(&format!("{} spans were lost: {why}", self.lost));
        self.lost = 0;
        self.reported_at = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use nerve_core::telemetry::{SpanKind, TelemetrySetup};

    use super::*;

    /// A stop during an export is noticed before queued spans, which are then sent without delay.
    #[tokio::test(start_paused = true)]
    async fn stop_ends_the_batch_delay() {
        let settings = Settings {
            setup: TelemetrySetup::default(),
            batch: 512,
            delay: Duration::from_secs(5),
            timeout: Duration::from_secs(10),
        };
        // Without `biased`, select! chooses randomly.
        for _ in 0..20 {
            let transport = Transport { limit: settings.timeout };
            let otlp = Otlp::builder().with_http().with_http_client(transport).build().unwrap();
            let (telemetry, spans) = Telemetry::new(settings.setup.clone());
            let scope = InstrumentationScope::builder("nerve").build();
            let losses = LossReporter::new(|_| {});
            let mut task = ExportTask { otlp, scope, settings: settings.clone(), spans, losses };
            for _ in 0..3 {
                telemetry.begin(SpanKind::Internal, None, || "x".into()).end(|_| {});
            }
            let (stop, began) = (CancellationToken::new(), Instant::now());
            stop.cancel();
            assert_eq!(task.batch(&stop).await.map(|batch| batch.len()), Some(3));
            assert!(task.batch(&stop).await.is_none());
            assert_eq!(began.elapsed(), Duration::ZERO);
        }
    }
}
