//! Trace contexts, as in the W3C recommendation Trace Context.

use proptest::prelude::*;

use nerve_node::telemetry::{BadTraceparent, TraceContext};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";
/// Maximum length of the header tracestate.
const MAX_TRACESTATE: usize = 512;

fn parse(text: &str) -> Result<TraceContext, BadTraceparent> {
    TraceContext::parse(text, None)
}

#[test]
fn examples_of_the_recommendation_are_parsed() {
    let context = parse(&format!("00-{TRACE}-{SPAN}-01")).unwrap();
    assert_eq!(
        (context.span_context().trace_id().to_string(), context.span_context().span_id().to_string()),
        (TRACE.into(), SPAN.into())
    );
    assert!(
        context.span_context().is_sampled() && context.span_context().is_remote() && !context.is_recorded()
    );
    assert!(!parse(&format!("00-{TRACE}-{SPAN}-00")).unwrap().span_context().is_sampled());
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
    assert_eq!(parse(&format!("00-{TRACE}-{SPAN}-ff")).unwrap().span_context().trace_flags().to_u8(), 0x03);
    assert_eq!(parse(&format!("00-{TRACE}-{SPAN}-0c")).unwrap().span_context().trace_flags().to_u8(), 0x00);
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
        let text = format!("00-{trace:032x}-{span:016x}-{:02x}", u8::from(is_sampled));
        let context = parse(&text).unwrap();
        prop_assert_eq!(context.span_context().is_sampled(), is_sampled);
        prop_assert_eq!(context.traceparent(), text);
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
            prop_assert_eq!(context.traceparent().len(), right.len());
        }
    }
}
