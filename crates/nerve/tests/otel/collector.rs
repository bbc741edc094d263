//! An OTLP collector on loopback that receives spans and answers as configured.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::post;
use nerve_testkit::{DEADLINE, wait_for};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

/// Pseudo status: never answer.
pub(crate) const SILENT: u16 = 0;

/// Everything received so far.
#[derive(Debug, Default)]
struct Received {
    spans: Vec<Span>,
    resource: Vec<KeyValue>,
    headers: Vec<HeaderMap>,
}

/// A collector, which ends with the test's process.
pub(crate) struct Collector {
    addr: SocketAddr,
    taken: Arc<Mutex<Received>>,
    status: Arc<AtomicU16>,
    _runtime: tokio::runtime::Runtime,
}

impl Collector {
    /// Starts a collector that answers with `status`.
    pub(crate) fn new(status: u16) -> Collector {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let addr = listener.local_addr().unwrap();
        let (taken, status) = (Arc::new(Mutex::new(Received::default())), Arc::new(AtomicU16::new(status)));
        let (notes, answer) = (Arc::clone(&taken), Arc::clone(&status));
        let take = move |headers: HeaderMap, body: Bytes| {
            let (notes, answer) = (Arc::clone(&notes), Arc::clone(&answer));
            async move {
                let answer = answer.load(Ordering::SeqCst);
                let sent = ExportTraceServiceRequest::decode(body).unwrap();
                {
                    let mut notes = notes.lock().unwrap();
                    notes.headers.push(headers);
                    if answer == 200 {
                        for group in sent.resource_spans {
                            notes.resource = group.resource.unwrap().attributes;
                            notes.spans.extend(group.scope_spans.into_iter().flat_map(|scope| scope.spans));
                        }
                    }
                }
                if answer == SILENT {
                    std::future::pending::<()>().await;
                }
                let kind = [(header::CONTENT_TYPE, "application/x-protobuf")];
                let body = ExportTraceServiceResponse::default().encode_to_vec();
                (StatusCode::from_u16(answer).unwrap(), kind, body)
            }
        };
        let app = Router::new().route("/v1/traces", post(take));
        runtime.spawn(async move { axum::serve(listener, app).await });
        Collector { addr, taken, status, _runtime: runtime }
    }

    /// Returns the value for `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub(crate) fn answer_with(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    /// Returns the number of calls.
    pub(crate) fn calls(&self) -> usize {
        self.taken.lock().unwrap().headers.len()
    }

    /// A header of the last call.
    pub(crate) fn header(&self, name: &str) -> String {
        let taken = self.taken.lock().unwrap();
        taken.headers.last().unwrap()[name].to_str().unwrap().to_string()
    }

    /// Returns an attribute of the sender's resource.
    pub(crate) fn resource(&self, name: &str) -> String {
        attribute(&self.taken.lock().unwrap().resource, name).unwrap_or_else(|| panic!("no {name}"))
    }

    /// Returns all received spans.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.taken.lock().unwrap().spans.clone()
    }

    /// Waits for a span of this name.
    pub(crate) fn wait_for_span(&self, name: &str) -> Span {
        let found = || self.spans().into_iter().find(|span| span.name == name);
        wait_for(DEADLINE, found).unwrap_or_else(|| {
            let names: Vec<String> = self.spans().into_iter().map(|span| span.name).collect();
            panic!("no span {name} came: {names:?}")
        })
    }
}

/// Returns an attribute of a span as text.
pub(crate) fn attribute_of(span: &Span, name: &str) -> Option<String> {
    attribute(&span.attributes, name)
}

fn attribute(attributes: &[KeyValue], name: &str) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key == name)?;
    Some(match &attribute.value {
        Some(AnyValue { value: Some(Value::StringValue(text)) }) => text.clone(),
        Some(AnyValue { value: Some(Value::IntValue(number)) }) => number.to_string(),
        other => format!("{other:?}"),
    })
}

/// `traceparent` of a span.
pub(crate) fn parent_of(span: &Span) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id))
}
