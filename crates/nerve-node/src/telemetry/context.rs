//! Trace contexts that are passed between processes (W3C Trace Context, level 2).

use std::fmt;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

use super::{TRACEPARENT, TRACESTATE};

/// Maximum length of a `tracestate` in bytes: what every participant must be able to propagate (§3.3.1.5). Longer ones are dropped.
pub(crate) const MAX_TRACESTATE: usize = 512;
/// Length of a `traceparent` of this version, in bytes.
const LENGTH: usize = 55;
/// Maximum length of a `traceparent` of a later version.
const MAX_LENGTH: usize = 512;
/// Maximum number of entries of a `tracestate` (§3.3.1.1).
const MAX_ENTRIES: usize = 32;
/// The known flags: the caller records the trace; the last seven bytes of the trace id are random (level 2).
const KNOWN_FLAGS: u8 = 0x01 | 0x02;

/// The identity of a span, from which child spans are created: OpenTelemetry's type, with its forms for headers and environment
/// variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext(SpanContext);

/// Defect of an invalid `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadTraceparent(&'static str);

impl fmt::Display for BadTraceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for BadTraceparent {}

impl TraceContext {
    pub(super) fn new(span: SpanContext) -> TraceContext {
        TraceContext(span)
    }

    /// Parses the two headers. For a later version, only the known fields are used. An invalid or overlong `tracestate` is dropped,
    /// as the recommendation demands. OpenTelemetry's own propagator accepts more than the recommendation and names no defect.
    ///
    /// # Errors
    /// A defect of `traceparent`: the trace cannot be continued.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Result<TraceContext, BadTraceparent> {
        let text = traceparent.trim_matches([' ', '\t']);
        let bytes = text.as_bytes();
        if !(LENGTH..=MAX_LENGTH).contains(&bytes.len()) || !text.is_ascii() {
            return Err(BadTraceparent("it must be 55 characters long"));
        }
        match hex(&text[..2]).ok_or(BadTraceparent("its version is not hexadecimal"))? {
            "ff" => return Err(BadTraceparent("version ff is invalid")),
            "00" if bytes.len() > LENGTH => return Err(BadTraceparent("it must be 55 characters long")),
            _ if bytes.len() > LENGTH && bytes[LENGTH] != b'-' => {
                return Err(BadTraceparent("its separators are misplaced"));
            }
            _ => {}
        }
        if [2, 35, 52].iter().any(|at| bytes[*at] != b'-') {
            return Err(BadTraceparent("its separators are misplaced"));
        }
        let trace = hex(&text[3..35]).and_then(|id| TraceId::from_hex(id).ok());
        let trace = trace
            .filter(|id| *id != TraceId::INVALID)
            .ok_or(BadTraceparent("its trace id must be 32 lower case hexadecimal digits, not all zero"))?;
        let span = hex(&text[36..52]).and_then(|id| SpanId::from_hex(id).ok());
        let span = span
            .filter(|id| *id != SpanId::INVALID)
            .ok_or(BadTraceparent("its parent id must be 16 lower case hexadecimal digits, not all zero"))?;
        let flags = hex(&text[53..LENGTH]).and_then(|flags| u8::from_str_radix(flags, 16).ok());
        let flags = flags.ok_or(BadTraceparent("its flags must be 2 lower case hexadecimal digits"))?;
        let state = tracestate.and_then(parse_tracestate).unwrap_or_default();
        Ok(TraceContext(SpanContext::new(trace, span, TraceFlags::new(flags & KNOWN_FLAGS), true, state)))
    }

    /// Returns OpenTelemetry's form.
    pub fn span_context(&self) -> &SpanContext {
        &self.0
    }

    /// Returns true if this process records the span.
    pub fn is_recorded(&self) -> bool {
        self.0.is_sampled() && !self.0.is_remote()
    }

    /// Formats the header `traceparent`, also the value of the variable `TRACEPARENT`.
    ///
    /// ```
    /// use nerve_node::telemetry::TraceContext;
    /// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// assert_eq!(TraceContext::parse(header, None).unwrap().traceparent(), header);
    /// ```
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-{:02x}", self.0.trace_id(), self.0.span_id(), self.0.trace_flags())
    }

    /// Sets the two headers of a request.
    pub fn put_into(&self, headers: &mut HeaderMap) {
        if let Ok(parent) = HeaderValue::from_str(&self.traceparent()) {
            headers.insert(HeaderName::from_static("traceparent"), parent);
        }
        if let Some(Ok(state)) = self.tracestate().map(HeaderValue::try_from) {
            headers.insert(HeaderName::from_static("tracestate"), state);
        }
    }

    /// Returns the environment variables that pass the context to a child process.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, String)> {
        [(TRACEPARENT, self.traceparent()), (TRACESTATE, self.tracestate().unwrap_or_default())].into_iter()
    }

    /// Returns the header `tracestate`: vendor data, passed on.
    pub fn tracestate(&self) -> Option<String> {
        Some(self.0.trace_state().header()).filter(|state| !state.is_empty())
    }
}

/// Returns the text if it consists of lower case hexadecimal digits.
fn hex(text: &str) -> Option<&str> {
    text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')).then_some(text)
}

/// Parses a `tracestate`. Empty entries are allowed. OpenTelemetry's parser checks neither the limits nor the characters of values,
/// and accepts empty keys.
fn parse_tracestate(text: &str) -> Option<TraceState> {
    let is_valid = text.len() <= MAX_TRACESTATE
        && text.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte))
        && text.split(',').count() <= MAX_ENTRIES
        && !text.split(',').any(|entry| entry.trim().starts_with('='));
    text.parse().ok().filter(|_| is_valid)
}
