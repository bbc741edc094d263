//! Receives the spans that this thread ends.

use opentelemetry::Value;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanData, SpanExporter};
use tokio::sync::mpsc;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::SubscriberExt;

/// A subscriber for this thread, and the spans it has recorded.
pub(crate) struct SpanReceiver {
    spans: mpsc::UnboundedReceiver<SpanData>,
    _subscriber: DefaultGuard,
}

#[derive(Debug)]
struct Exporter(mpsc::UnboundedSender<SpanData>);

impl SpanExporter for Exporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        for span in batch {
            // A test that has ended receives nothing.
            let _ = self.0.send(span);
        }
        Ok(())
    }
}

impl SpanReceiver {
    pub(crate) fn new(sampler: Sampler) -> SpanReceiver {
        let (sender, spans) = mpsc::unbounded_channel();
        let provider =
            SdkTracerProvider::builder().with_sampler(sampler).with_simple_exporter(Exporter(sender)).build();
        let tracer = provider.tracer("test");
        let layer = tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false);
        let subscriber = tracing_subscriber::registry().with(layer);
        SpanReceiver { spans, _subscriber: tracing::subscriber::set_default(subscriber) }
    }

    /// Waits for a span to end.
    pub(crate) async fn next(&mut self) -> SpanData {
        self.spans.recv().await.expect("this value owns the sender's subscriber")
    }

    /// Returns the spans that have ended since the last call.
    pub(crate) fn received(&mut self) -> Vec<SpanData> {
        std::iter::from_fn(|| self.spans.try_recv().ok()).collect()
    }
}

/// Returns the value of an attribute.
pub(crate) fn attribute<'s>(span: &'s SpanData, name: &str) -> Option<&'s Value> {
    span.attributes.iter().find(|attribute| attribute.key.as_str() == name).map(|attribute| &attribute.value)
}
