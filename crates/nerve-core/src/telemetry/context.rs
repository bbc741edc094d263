//! Trace contexts that are passed between processes (W3C Trace Context, level 2).

use std::fmt;
use std::sync::Arc;

use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::ids::{SpanId, TraceId, from_hex, write_byte};
use super::{TRACEPARENT, TRACESTATE};

/// Maximum length of a `tracestate` in bytes: what every participant must be able to propagate (§3.3.1.5). Longer ones are dropped.
pub const MAX_TRACESTATE: usize = 512;
/// Length of a `traceparent` of this version, in bytes.
const LENGTH: usize = 55;
/// Maximum length of a `traceparent` of a later version.
const MAX_LENGTH: usize = 512;
/// Maximum number of entries of a `tracestate` (§3.3.1.1).
const MAX_ENTRIES: usize = 32;
/// Flag: the caller records the trace.
const SAMPLED: u8 = 0x01;
/// Flag: the last seven bytes of the trace id are random (level 2).
const RANDOM: u8 = 0x02;

/// The identity of a span, from which child spans are created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    trace: TraceId,
    span: SpanId,
    flags: u8,
    state: Option<Arc<str>>,
    /// True if the span belongs to another process.
    remote: bool,
}

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
    /// Creates the context of a local span.
    pub(super) fn new(trace: TraceId, span: SpanId, sampled: bool, state: Option<Arc<str>>) -> TraceContext {
        TraceContext { trace, span, flags: if sampled { SAMPLED } else { 0 }, state, remote: false }
    }

    /// Returns the context of another span of the same trace.
    pub(super) fn child(&self, span: SpanId) -> TraceContext {
        TraceContext { span, remote: false, ..self.clone() }
    }

    /// Parses the two headers. Of a later version the known fields are used. An invalid or overlong `tracestate` is dropped, as the
    /// recommendation demands.
    ///
    /// # Errors
    /// A defect of `traceparent`: the trace cannot be continued.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Result<TraceContext, BadTraceparent> {
        let text = traceparent.trim_matches([' ', '\t']);
        let bytes = text.as_bytes();
        if bytes.len() < LENGTH || bytes.len() > MAX_LENGTH || !text.is_ascii() {
            return Err(BadTraceparent("it must be 55 characters long"));
        }
        let version: [u8; 1] =
            from_hex(&text[..2]).ok_or(BadTraceparent("its version is not hexadecimal"))?;
        match version[0] {
            0xff => return Err(BadTraceparent("version ff is invalid")),
            0 if bytes.len() > LENGTH => return Err(BadTraceparent("it must be 55 characters long")),
            _ if bytes.len() > LENGTH && bytes[LENGTH] != b'-' => {
                return Err(BadTraceparent("its separators are misplaced"));
            }
            _ => {}
        }
        if [2, 35, 52].iter().any(|at| bytes[*at] != b'-') {
            return Err(BadTraceparent("its separators are misplaced"));
        }
        let trace = from_hex(&text[3..35]).and_then(TraceId::from_bytes);
        let span = from_hex(&text[36..52]).and_then(SpanId::from_bytes);
        let flags: Option<[u8; 1]> = from_hex(&text[53..LENGTH]);
        Ok(TraceContext {
            trace: trace.ok_or(BadTraceparent(
                "its trace id must be 32 lower case hexadecimal digits, not all zero",
            ))?,
            span: span.ok_or(BadTraceparent(
                "its parent id must be 16 lower case hexadecimal digits, not all zero",
            ))?,
            flags: flags.ok_or(BadTraceparent("its flags must be 2 lower case hexadecimal digits"))?[0]
                & (SAMPLED | RANDOM),
            state: tracestate.and_then(valid_tracestate),
            remote: true,
        })
    }

    /// Returns the trace id.
    pub fn trace_id(&self) -> TraceId {
        self.trace
    }

    /// Returns the span id.
    pub fn span_id(&self) -> SpanId {
        self.span
    }

    /// Returns true if the caller records the trace.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Returns true if the span belongs to another process.
    pub fn is_remote(&self) -> bool {
        self.remote
    }

    /// Returns the known flags as a byte.
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// Formats the header `traceparent`, also the value of the variable `TRACEPARENT`.
    ///
    /// ```
    /// use nerve_core::telemetry::TraceContext;
    /// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// assert_eq!(TraceContext::parse(header, None).unwrap().traceparent(), header);
    /// ```
    pub fn traceparent(&self) -> String {
        let mut text = format!("00-{}-{}-", self.trace, self.span);
        write_byte(&mut text, self.flags);
        text
    }

    /// Sets the two headers of a request.
    pub(crate) fn put_into(&self, headers: &mut HeaderMap) {
        if let Ok(parent) = HeaderValue::from_str(&self.traceparent()) {
            headers.insert(HeaderName::from_static("traceparent"), parent);
        }
        if let Some(Ok(state)) = self.tracestate().map(HeaderValue::from_str) {
            headers.insert(HeaderName::from_static("tracestate"), state);
        }
    }

    /// Returns the environment variables that pass the context to a child process.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, String)> {
        let state = (TRACESTATE, self.tracestate().unwrap_or_default().to_string());
        [(TRACEPARENT, self.traceparent()), state].into_iter()
    }

    /// Returns the header `tracestate`: vendor data, passed on unchanged.
    pub fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }
}

/// Validates a `tracestate`: entries of the form `key=value`, in characters that a header may contain. Empty entries are allowed.
fn valid_tracestate(text: &str) -> Option<Arc<str>> {
    let text = text.trim_matches([' ', '\t', ',']);
    let fits = |entry: &str| {
        entry.trim_matches([' ', '\t']).is_empty()
            || entry.split_once('=').is_some_and(|(key, _)| !key.trim().is_empty())
    };
    let is_valid = !text.is_empty()
        && text.len() <= MAX_TRACESTATE
        && text.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte))
        && text.split(',').count() <= MAX_ENTRIES
        && text.split(',').all(fits);
    is_valid.then(|| text.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    fn parse(text: &str) -> Result<TraceContext, BadTraceparent> {
        TraceContext::parse(text, None)
    }

    #[test]
    fn examples_of_the_recommendation_are_parsed() {
        let context = parse(&format!("00-{TRACE}-{SPAN}-01")).unwrap();
        assert_eq!(
            (context.trace_id().to_string(), context.span_id().to_string()),
            (TRACE.into(), SPAN.into())
        );
        assert!(context.is_sampled());
        assert!(!parse(&format!("00-{TRACE}-{SPAN}-00")).unwrap().is_sampled());
        // Whitespace around a header is ignored.
        assert!(parse(&format!(" 00-{TRACE}-{SPAN}-01\t")).is_ok());
    }

    // W3C Trace Context §3.2.
    #[test]
    fn invalid_traceparent_is_rejected() {
        for bad in [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-01-"),
            format!("00-{TRACE}-{SPAN}-01-what-the-future-will-be-like"),
            format!("00-{TRACE}-{SPAN}-01."),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("0-{TRACE}-{SPAN}-01"),
            format!(".0-{TRACE}-{SPAN}-01"),
            format!("0.-{TRACE}-{SPAN}-01"),
            format!("000-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-.{}-{SPAN}-01", &TRACE[1..]),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-{}-01", SPAN.to_uppercase()),
            format!("00-{TRACE}-.{}-01", &SPAN[1..]),
            format!("00-{TRACE}-{SPAN}-.0"),
            format!("00-{TRACE}-{SPAN}-0."),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00_{TRACE}_{SPAN}_01"),
            format!("cc-{TRACE}-{SPAN}-01.what"),
            format!("00-{TRACE}-{SPAN}-0é"),
            format!("cc-{TRACE}-{SPAN}-01-{}", "x".repeat(1000)),
        ] {
            assert!(parse(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn known_fields_of_later_versions_are_used() {
        for later in [format!("cc-{TRACE}-{SPAN}-01"), format!("cc-{TRACE}-{SPAN}-01-what-comes")] {
            assert_eq!(parse(&later).unwrap().traceparent(), format!("00-{TRACE}-{SPAN}-01"));
        }
        // Unknown flags are dropped; the random flag is known since level 2.
        assert_eq!(parse(&format!("00-{TRACE}-{SPAN}-ff")).unwrap().flags(), 0x03);
        assert_eq!(parse(&format!("00-{TRACE}-{SPAN}-0c")).unwrap().flags(), 0x00);
    }

    #[test]
    fn tracestate_is_passed_on_or_dropped() {
        let of = |state: &str| {
            let context = TraceContext::parse(&format!("00-{TRACE}-{SPAN}-01"), Some(state)).unwrap();
            context.tracestate().map(str::to_string)
        };
        assert_eq!(
            of("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
            Some("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE".into())
        );
        assert_eq!(of("a=1, ,b=2"), Some("a=1, ,b=2".into()));
        let many = vec!["a=1"; 33].join(",");
        let long = format!("a={}", "x".repeat(MAX_TRACESTATE));
        for left_out in ["", " ,", "a", "=1", "a=1\nb: 2", "a=é", many.as_str(), long.as_str()] {
            assert_eq!(of(left_out), None, "{left_out}");
        }
        assert!(of(&vec!["a=1"; 32].join(",")).is_some());
        assert!(of(&format!("a={}", "x".repeat(MAX_TRACESTATE - 2))).is_some());
    }

    proptest! {
        #[test]
        fn traceparent_round_trips(trace in any::<[u8; 16]>(), span in any::<[u8; 8]>(), sampled: bool) {
            prop_assume!(trace != [0; 16] && span != [0; 8]);
            let (trace, span) = (TraceId::from_bytes(trace).unwrap(), SpanId::from_bytes(span).unwrap());
            let context = TraceContext::new(trace, span, sampled, None);
            let text = context.traceparent();
            prop_assert_eq!(text.len(), LENGTH);
            let read = TraceContext::parse(&text, None).unwrap();
            prop_assert!(read.is_remote() && !context.is_remote());
            prop_assert_eq!(TraceContext { remote: false, ..read }, context);
        }

        #[test]
        fn arbitrary_headers_do_not_panic(parent in ".{0,80}", state in ".{0,40}") {
            let _ = TraceContext::parse(&parent, Some(&state));
        }

        #[test]
        fn almost_valid_headers_do_not_panic(at in 0usize..55, put in any::<char>()) {
            let right: Vec<char> = format!("00-{TRACE}-{SPAN}-01").chars().collect();
            let wrong: String = right.iter().enumerate().map(|(place, char)| if place == at { put } else { *char }).collect();
            if let Ok(context) = parse(&wrong) {
                prop_assert_eq!(context.traceparent().len(), LENGTH);
            }
        }
    }
}
