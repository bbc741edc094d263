//! Costs in US dollars for display.

/// Formats a sum of costs: `$1.23`; `$1.23 + ?` if some tokens have no price, `?` if none has one. Empty without tokens.
pub fn format_cost(cost_usd: Option<f64>, has_unpriced: bool) -> String {
    let text = cost_usd.map(|cost| match cost {
        // A small cost must not look like none.
        _ if cost > 0.0 && cost < 0.0001 => "<$0.0001".to_string(),
        _ if cost > 0.0 && cost < 0.01 => format!("${cost:.4}"),
        _ => format!("${cost:.2}"),
    });
    match (text, has_unpriced) {
        (Some(text), true) => format!("{text} + ?"),
        (Some(text), false) => text,
        (None, true) => "?".to_string(),
        (None, false) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_prices_are_never_zero() {
        for (cost, has_unpriced, expected) in [
            (Some(12.345), false, "$12.35"),
            (Some(0.00042), false, "$0.0004"),
            (Some(0.00001), false, "<$0.0001"),
            (Some(0.0), false, "$0.00"),
            (Some(1.0), true, "$1.00 + ?"),
            (None, true, "?"),
            (None, false, ""),
        ] {
            assert_eq!(format_cost(cost, has_unpriced), expected);
        }
    }
}
