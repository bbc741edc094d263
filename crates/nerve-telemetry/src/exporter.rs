//! Exports spans in batches. If the collector is unreachable or slow, spans are lost with a warning.

use std::sync::Arc;
use std::time::Duration;

use nerve_node::telemetry::TARGET;
use opentelemetry::trace::TracerProvider;
use opentelemetry::{InstrumentationScope, Key, KeyValue};
use opentelemetry_otlp::{Protocol, SpanExporter as Otlp, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider, SpanData, SpanExporter,
};
use tokio::runtime::Handle;
use tokio::time::timeout;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, filter_fn};

use super::loss_reporter::LossReporter;
use super::settings::Settings;
use super::transport::Transport;
use super::{BoxedLayer, Report};

/// Time limit for sending the last spans.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Exports spans to a collector in a background thread.
#[derive(Debug)]
pub(super) struct Exporter {
    provider: SdkTracerProvider,
    losses: Arc<LossReporter>,
    report: Report,
}

/// Starts the export. Returns the layer that records spans. Must be called within a runtime.
///
/// # Errors
/// The exporter cannot be configured from the environment.
pub(super) fn start(
    server: &str,
    settings: Settings,
    report: Report,
) -> Result<(BoxedLayer, Exporter), String> {
    let built = Otlp::builder()
        .with_http()
        .with_http_client(Transport { limit: settings.timeout })
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(settings.timeout)
        .build();
    let mut otlp = built.map_err(|error| error.to_string())?;
    otlp.set_resource(&resource(server));
    let losses = Arc::new(LossReporter::new(report));
    let exporter = RuntimeExporter {
        otlp: Arc::new(otlp),
        runtime: Handle::current(),
        // The exporter limits its retries and requests; this limit is a safeguard.
        limit: 2 * settings.timeout,
        losses: Arc::clone(&losses),
    };
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(settings.queue)
        .with_max_export_batch_size(settings.batch)
        .with_scheduled_delay(settings.delay)
        .build();
    let batches = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
    let provider =
        SdkTracerProvider::builder().with_sampler(settings.sampler).with_span_processor(batches).build();
    let scope = InstrumentationScope::builder("nerve").with_version(env!("CARGO_PKG_VERSION")).build();
    let is_ours = filter_fn(|metadata| metadata.is_span() && metadata.target() == TARGET);
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer_with_scope(scope))
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_filter(is_ours.with_max_level_hint(LevelFilter::TRACE));
    Ok((layer.boxed(), Exporter { provider, losses, report }))
}

impl Exporter {
    /// Exports the queued spans and stops.
    pub(super) async fn finish(self) {
        let Exporter { provider, losses, report } = self;
        // The processor's thread needs the runtime, so this waits in another thread.
        let ended = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(FLUSH_TIMEOUT)).await;
        losses.flush();
        if !matches!(ended, Ok(Ok(()))) {
            report(&format!("the last traces were lost: not sent within {} s", FLUSH_TIMEOUT.as_secs()));
        }
    }
}

/// Returns the resource attributes. `service.name` is `nerve` unless the environment sets it.
fn resource(server: &str) -> Resource {
    const SERVICE: Key = Key::from_static_str("service.name");
    let resource = Resource::builder().build();
    let is_named = resource.get(&SERVICE).is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    let builder = Resource::builder().with_attributes([
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("nerve.server", server.to_string()),
        KeyValue::new("process.pid", i64::from(std::process::id())),
    ]);
    if is_named { builder } else { builder.with_service_name("nerve") }.build()
}

/// Exports on a runtime, which nerve's HTTP client needs: the batch processor has a thread without one. Counts lost spans.
#[derive(Debug)]
struct RuntimeExporter {
    otlp: Arc<Otlp>,
    runtime: Handle,
    limit: Duration,
    losses: Arc<LossReporter>,
}

impl SpanExporter for RuntimeExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let (otlp, limit, count) = (Arc::clone(&self.otlp), self.limit, batch.len());
        let sent = self.runtime.spawn(async move { timeout(limit, otlp.export(batch)).await }).await;
        let problem = match sent {
            Ok(Ok(Ok(()))) => return Ok(()),
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(_)) => "the collector timed out".to_string(),
            Err(_) => "this process ended first".to_string(),
        };
        self.losses.record(count, problem);
        // Reported, so that the processor does not log each failure.
        Ok(())
    }
}
