//! Ages as short texts.

use std::time::Duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Formats an age in its largest unit: `7s`, `12m`, `3h`, `2d`.
pub fn format(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        ..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => format!("{}m", seconds / MINUTE),
        HOUR..DAY => format!("{}h", seconds / HOUR),
        DAY.. => format!("{}d", seconds / DAY),
    }
}

/// Returns the time until [`format`] returns another text.
pub(super) fn until_change(age: Duration) -> Duration {
    let unit = match age.as_secs() {
        ..MINUTE => 1,
        MINUTE..HOUR => MINUTE,
        HOUR..DAY => HOUR,
        DAY.. => DAY,
    };
    Duration::from_secs((age.as_secs() / unit + 1) * unit) - age
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_is_in_largest_unit() {
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h"), (90_000, "1d")]
        {
            assert_eq!(format(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn text_changes_exactly_then() {
        for milliseconds in [0, 1500, 59_999, 60_000, 3_599_000, 3_600_001, 86_400_000] {
            let age = Duration::from_millis(milliseconds);
            let next = age + until_change(age);
            assert_ne!(format(age), format(next), "{milliseconds}");
            assert_eq!(format(age), format(next.saturating_sub(Duration::from_millis(1))), "{milliseconds}");
        }
    }
}
