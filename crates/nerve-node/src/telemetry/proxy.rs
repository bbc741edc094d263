//! Spans of API calls that a proxy has forwarded.

use std::sync::Arc;

use nerve_api::request::NodeRef;
use nerve_proxy::{CallOutcome, CallReport};
use nerve_types::network_address::split_host_port;

use super::context::TraceContext;
use super::span::{ActiveSpan, count};
use super::turn::set_node;

/// Describes the span of a finished call. It is inside the client's span if the request names one, otherwise inside `turn`, the
/// turn of `node` that made it.
pub fn record_call(report: &CallReport, node: Option<&NodeRef>, turn: Option<Arc<TraceContext>>) {
    if report.span.is_disabled() {
        return;
    }
    let reported = report.traceparent.as_deref().and_then(|parent| TraceContext::parse(parent, None).ok());
    let parent = reported.map(Arc::new).or(turn);
    let requested_model = report.requested_model.as_deref().or(report.model.as_deref());
    let name = || match requested_model.filter(|_| report.spends) {
        Some(model) => format!("chat {model}"),
        None => "proxy.call".to_string(),
    };
    ActiveSpan::begin(report.span.clone(), parent.as_ref(), name).end(|span| {
        if let Some(node) = node {
            set_node(span, node);
        }
        describe(span, report);
    });
}

fn describe(span: &ActiveSpan, report: &CallReport) {
    if report.spends {
        span.set("gen_ai.operation.name", "chat");
        span.set_some("gen_ai.request.model", report.requested_model.clone());
        span.set_some("gen_ai.response.model", report.model.clone());
        span.set_some("gen_ai.conversation.id", report.session.clone());
    }
    span.set("gen_ai.provider.name", report.provider);
    if let Some(usage) = &report.usage {
        // By convention, input tokens include cached ones.
        span.set("gen_ai.usage.input_tokens", count(usage.whole_input()));
        span.set("gen_ai.usage.output_tokens", count(usage.output));
        span.set("gen_ai.usage.cache_read.input_tokens", count(usage.cache_read));
        span.set("gen_ai.usage.cache_creation.input_tokens", count(usage.cache_write));
    }
    span.set_some("nerve.cost_usd", report.cost_usd);
    span.set_some("nerve.turn", report.turn.map(count));
    span.set("nerve.proxy.request", report.id.clone());
    span.set("nerve.proxy.outcome", report.outcome.as_str());
    span.set_some(
        "nerve.first_byte_ms",
        report.first.map(|first| i64::try_from(first.as_millis()).unwrap_or(i64::MAX)),
    );
    span.set("http.request.method", report.method.clone());
    span.set("url.path", report.path.split('?').next().unwrap_or_default().to_string());
    span.set_some("http.response.status_code", report.status.map(i64::from));
    set_server(span, &report.upstream);
    let failed = report.status.is_none_or(|status| status >= 400);
    match (report.outcome, report.status) {
        (CallOutcome::Whole, Some(status)) if failed => {
            span.fail(status.to_string(), &format!("HTTP status {status}"))
        }
        (CallOutcome::Whole, _) => {}
        (outcome, _) => span.fail(outcome.as_str(), outcome.as_str()),
    }
}

/// Sets host and port of the server, from `host:port`.
fn set_server(span: &ActiveSpan, upstream: &str) {
    let (host, port) = split_host_port(upstream).unzip();
    let host = host.unwrap_or(upstream.trim_matches(['[', ']']));
    span.set("server.address", host.to_string());
    span.set_some("server.port", port.map(i64::from));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nerve_types::token_usage::TokenUsage;

    use opentelemetry::Value;
    use opentelemetry::trace::Status;
    use opentelemetry_sdk::trace::{Sampler, SpanData};

    use super::super::span::new_span;
    use super::super::span_receiver::{SpanReceiver, attribute};
    use super::*;
    use crate::proxy::answered_call;

    fn report() -> CallReport {
        CallReport {
            path: "/v1/messages?beta=true".into(),
            requested_model: Some("m".into()),
            model: Some("m-1".into()),
            usage: Some(TokenUsage { input: 1, output: 2, cache_read: 10, cache_write: 100 }),
            cost_usd: Some(0.5),
            first: Some(Duration::from_millis(30)),
            span: new_span!("proxy.call", otel.kind = "client"),
            ..answered_call(3)
        }
    }

    fn record(change: impl FnOnce(&mut CallReport)) -> (SpanData, Arc<TraceContext>) {
        let mut spans = SpanReceiver::new(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)));
        let node = NodeRef { session: None, node: "c".into() };
        let turn = ActiveSpan::begin(new_span!("turn"), None, || "turn".into());
        let mut report = report();
        change(&mut report);
        let context = Arc::clone(turn.context().unwrap());
        record_call(&report, Some(&node), Some(Arc::clone(&context)));
        assert!(spans.received().is_empty(), "the caller owns the span");
        drop(report);
        (spans.received().swap_remove(0), context)
    }

    #[test]
    fn call_is_inside_the_turn_of_its_node() {
        let (span, turn) = record(|_| {});
        assert_eq!((span.name.as_ref(), span.parent_span_id), ("chat m", turn.span_context().span_id()));
        assert_eq!(attribute(&span, "gen_ai.usage.input_tokens"), Some(&Value::I64(111)));
        assert_eq!(attribute(&span, "url.path"), Some(&"/v1/messages".into()));
        assert_eq!(span.status, Status::Unset);
    }

    /// Unsampled spans have no sampled children.
    #[test]
    fn call_of_unsampled_turn_is_not_recorded() {
        let mut spans = SpanReceiver::new(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)));
        let caller = TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", None);
        let caller = Arc::new(caller.unwrap());
        let turn = ActiveSpan::begin(new_span!("turn"), Some(&caller), || "turn".into());
        record_call(&report(), None, turn.context().cloned());
        drop(turn);
        assert!(spans.received().is_empty());
    }

    #[test]
    fn span_of_client_takes_precedence() {
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let (span, turn) = record(|report| report.traceparent = Some(header.into()));
        assert_ne!(span.span_context.trace_id(), turn.span_context().trace_id());
        assert_eq!(span.span_context.trace_id().to_string(), header[3..35]);
        let (span, turn) = record(|report| report.traceparent = Some("nonsense".into()));
        assert_eq!(span.parent_span_id, turn.span_context().span_id());
    }

    #[test]
    fn failed_call_has_error_type() {
        let kind = |change: fn(&mut CallReport)| {
            let (span, _) = record(change);
            attribute(&span, "error.type").unwrap().to_string()
        };
        assert_eq!(kind(|report| report.status = Some(529)), "529");
        assert_eq!(kind(|report| report.outcome = CallOutcome::Broken), "broken");
        assert_eq!(
            kind(|report| (report.status, report.outcome) = (Some(402), CallOutcome::Refused)),
            "refused"
        );
        assert_eq!(record(|report| report.spends = false).0.name, "proxy.call");
    }
}
