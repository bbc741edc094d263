//! Spans of API calls that a proxy has forwarded.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use nerve_proxy::{CallOutcome, CallReport};
use nerve_types::TsNs;

use super::context::TraceContext;
use super::span::{Attributes, Span, SpanKind};
use super::tracer::Telemetry;
use super::turn::set_node;
use crate::command::NodeRef;

/// Records a finished call, inside the client's span if the request names one, otherwise inside the current turn of `node`.
pub fn record_call(telemetry: &Telemetry, report: &CallReport, node: Option<&NodeRef>) {
    if !telemetry.is_on() {
        return;
    }
    let reported = report.traceparent.as_deref().and_then(|parent| TraceContext::parse(parent, None).ok());
    let parent = reported.map(Arc::new).or_else(|| telemetry.turn_of(node?));
    let requested_model = report.asked_model.as_deref().or(report.model.as_deref());
    let name = || match requested_model.filter(|_| report.spends) {
        Some(model) => Cow::Owned(format!("chat {model}")),
        None => Cow::Borrowed("proxy.call"),
    };
    let start = time(report.started);
    let end = start + report.took;
    telemetry.record(SpanKind::Client, parent.as_ref(), (start, end), name, |span| {
        if let Some(node) = node {
            set_node(&mut span.attributes, node);
        }
        describe(span, report);
    });
}

fn describe(span: &mut Span, report: &CallReport) {
    let attributes = &mut span.attributes;
    if report.spends {
        attributes.set("gen_ai.operation.name", "chat");
        attributes.set_some("gen_ai.request.model", report.asked_model.clone());
        attributes.set_some("gen_ai.response.model", report.model.clone());
        attributes.set_some("gen_ai.conversation.id", report.session.clone());
    }
    attributes.set("gen_ai.provider.name", report.provider);
    if let Some(usage) = &report.usage {
        // By convention, input tokens include cached ones.
        let input = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
        attributes.set("gen_ai.usage.input_tokens", input);
        attributes.set("gen_ai.usage.output_tokens", usage.output);
        attributes.set("gen_ai.usage.cache_read.input_tokens", usage.cache_read);
        attributes.set("gen_ai.usage.cache_creation.input_tokens", usage.cache_write);
    }
    attributes.set_some("nerve.cost_usd", report.cost_usd);
    attributes.set_some("nerve.turn", report.turn);
    attributes.set("nerve.proxy.request", report.id.clone());
    attributes.set("nerve.proxy.outcome", report.outcome.as_str());
    attributes.set_some(
        "nerve.first_byte_ms",
        report.first.map(|first| u64::try_from(first.as_millis()).unwrap_or(u64::MAX)),
    );
    attributes.set("http.request.method", report.method.clone());
    attributes.set("url.path", report.path.split('?').next().unwrap_or_default().to_string());
    attributes.set_some("http.response.status_code", report.status.map(u32::from));
    set_server(attributes, &report.upstream);
    let failed = report.status.is_none_or(|status| status >= 400);
    match (report.outcome, report.status) {
        (CallOutcome::Whole, Some(status)) if failed => {
            span.fail(status.to_string(), format!("HTTP status {status}"))
        }
        (CallOutcome::Whole, _) => {}
        (outcome, _) => span.fail(outcome.as_str(), outcome.as_str()),
    }
}

/// Sets host and port of the server, from `host:port`.
fn set_server(attributes: &mut Attributes, upstream: &str) {
    let (host, port) = match upstream.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => (host, port.parse::<u32>().ok()),
        _ => (upstream, None),
    };
    attributes.set("server.address", host.trim_matches(['[', ']']).to_string());
    attributes.set_some("server.port", port);
}

fn time(at: SystemTime) -> TsNs {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    TsNs(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nerve_proxy::Usage;

    use super::*;
    use crate::telemetry::{Attribute, RootSampler, Sampler, Status, TelemetrySetup};

    fn report() -> CallReport {
        CallReport {
            id: "q-1".into(),
            node: Some("c".into()),
            turn: Some(3),
            provider: "anthropic",
            upstream: "api.anthropic.com".into(),
            session: None,
            method: "POST".into(),
            path: "/v1/messages?beta=true".into(),
            spends: true,
            stream: true,
            asked_model: Some("m".into()),
            model: Some("m-1".into()),
            status: Some(200),
            outcome: CallOutcome::Whole,
            error: None,
            usage: Some(Usage { input: 1, output: 2, cache_read: 10, cache_write: 100 }),
            cost_usd: Some(0.5),
            started: UNIX_EPOCH + Duration::from_secs(7),
            took: Duration::from_secs(2),
            first: Some(Duration::from_millis(30)),
            bytes: 9,
            traceparent: None,
        }
    }

    fn record(change: impl FnOnce(&mut CallReport)) -> (Span, Arc<TraceContext>) {
        let (telemetry, mut spans) = Telemetry::new(TelemetrySetup::default());
        let node = NodeRef { session: None, node: "c".into() };
        let mut turn = telemetry.begin(SpanKind::Internal, None, || "turn".into());
        turn.register_turn(&telemetry, &node);
        let mut report = report();
        change(&mut report);
        record_call(&telemetry, &report, Some(&node));
        let context = Arc::clone(turn.context().unwrap());
        turn.end(|_| {});
        spans.close();
        let mut all = Vec::new();
        while let Some(span) = futures_util::FutureExt::now_or_never(spans.next()).flatten() {
            all.push(span);
        }
        (all.swap_remove(0), context)
    }

    #[test]
    fn call_is_inside_the_turn_of_its_node() {
        let (span, turn) = record(|_| {});
        assert_eq!((span.name.as_ref(), span.parent), ("chat m", Some(turn.span_id())));
        assert_eq!((span.start, span.end), (TsNs(7_000_000_000), TsNs(9_000_000_000)));
        assert_eq!(span.attributes.get("gen_ai.usage.input_tokens"), Some(&Attribute::Int(111)));
        assert_eq!(span.attributes.get("url.path"), Some(&Attribute::Text("/v1/messages".into())));
        assert_eq!(span.status, Status::Unset);
    }

    /// Unsampled spans have no sampled children.
    #[test]
    fn call_of_unsampled_turn_is_not_recorded() {
        let sampler = Sampler::ParentBased(RootSampler::On);
        let (telemetry, mut spans) = Telemetry::new(TelemetrySetup { sampler, ..TelemetrySetup::default() });
        let node = NodeRef { session: None, node: "c".into() };
        let caller = TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", None);
        let mut turn =
            telemetry.begin(SpanKind::Internal, Some(&Arc::new(caller.unwrap())), || "turn".into());
        turn.register_turn(&telemetry, &node);
        record_call(&telemetry, &report(), Some(&node));
        turn.end(|_| {});
        assert_eq!(telemetry.turn_of(&node), None);
        spans.close();
        assert_eq!(futures_util::FutureExt::now_or_never(spans.next()), Some(None));
    }

    #[test]
    fn span_of_client_takes_precedence() {
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let (span, turn) = record(|report| report.traceparent = Some(header.into()));
        assert_ne!(span.context.trace_id(), turn.trace_id());
        assert_eq!(span.context.trace_id().to_string(), header[3..35]);
        let (span, turn) = record(|report| report.traceparent = Some("nonsense".into()));
        assert_eq!(span.parent, Some(turn.span_id()));
    }

    #[test]
    fn failed_call_has_error_type() {
        let kind = |change: fn(&mut CallReport)| {
            let (span, _) = record(change);
            match span.attributes.get("error.type") {
                Some(Attribute::Text(kind)) => kind.to_string(),
                _ => String::new(),
            }
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
