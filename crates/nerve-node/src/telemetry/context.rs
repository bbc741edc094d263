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

    /// Parses the two headers. Of a later version the known fields are used. An invalid or overlong `tracestate` is dropped, as the
    /// recommendation demands. OpenTelemetry's own propagator accepts more than the recommendation and names no defect.
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
            (context.0.trace_id().to_string(), context.0.span_id().to_string()),
            (TRACE.into(), SPAN.into())
        );
        assert!(context.0.is_sampled() && context.0.is_remote() && !context.is_recorded());
        assert!(!parse(&format!("00-{TRACE}-{SPAN}-00")).unwrap().0.is_sampled());
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
        assert_eq!(parse(&format!("00-{TRACE}-{SPAN}-ff")).unwrap().0.trace_flags().to_u8(), 0x03);
        assert_eq!(parse(&format!("00-{TRACE}-{SPAN}-0c")).unwrap().0.trace_flags().to_u8(), 0x00);
    }

    #[test]
    fn tracestate_is_passed_on_or_dropped() {
        let of = |state: &str| {
            let context = TraceContext::parse(&format!("00-{TRACE}-{SPAN}-01"), Some(state)).unwrap();
            context.tracestate()
        };
        assert_eq!(
            of("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
            Some("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE".into())
        );
        assert_eq!(of("a=1, ,b=2"), Some("a=1,b=2".into()));
        let many = vec!["a=1"; 33].join(",");
        let long = format!("a={}", "x".repeat(MAX_TRACESTATE));
        for left_out in ["", " ,", "a", "=1", "a=1\nb: 2", "a=é", many.as_str(), long.as_str()] {
            assert_eq!(of(left_out), None, "{left_out}");
        }
        assert!(of(&vec!["a=1"; 32].join(",")).is_some());
        let longest = format!("a={},b={}", "x".repeat(253), "x".repeat(254));
        assert_eq!((longest.len(), of(&longest)), (MAX_TRACESTATE, Some(longest.clone())));
    }

    proptest! {
        #[test]
        fn traceparent_round_trips(trace in 1u128.., span in 1u64.., is_sampled: bool) {
            let flags = TraceFlags::default().with_sampled(is_sampled);
            let span = SpanContext::new(trace.into(), span.into(), flags, true, TraceState::default());
            let context = TraceContext::new(span);
            let text = context.traceparent();
            prop_assert_eq!(text.len(), LENGTH);
            prop_assert_eq!(TraceContext::parse(&text, None).unwrap(), context);
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
