//! Reports spans that were not sent.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Report;

/// Minimum interval between reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Counts spans whose export failed and reports them at intervals.
#[derive(Debug)]
pub(super) struct LossReporter {
    report: Report,
    losses: Mutex<Losses>,
}

#[derive(Debug, Default)]
struct Losses {
    lost: usize,
    reason: String,
    reported_at: Option<Instant>,
}

impl LossReporter {
    pub(super) fn new(report: Report) -> LossReporter {
        LossReporter { report, losses: Mutex::default() }
    }

    /// Adds lost spans, and reports all of them if the last report is old.
    pub(super) fn record(&self, lost: usize, reason: String) {
        let is_due = {
            let mut losses = self.losses.lock();
            losses.lost += lost;
            losses.reason = reason;
            losses.reported_at.is_none_or(|at| at.elapsed() >= REPORT_INTERVAL)
        };
        if is_due {
            self.flush();
        }
    }

    /// Reports the lost spans that were not reported yet.
    pub(super) fn flush(&self) {
        let (lost, reason) = {
            let mut losses = self.losses.lock();
            losses.reported_at = Some(Instant::now());
            (std::mem::take(&mut losses.lost), std::mem::take(&mut losses.reason))
        };
        if lost > 0 {
            (self.report)(&format!("{lost} spans were lost: {reason}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_reported_at_intervals_and_at_the_end() {
        static REPORTS: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let reports = || std::mem::take(&mut *REPORTS.lock());
        let losses = LossReporter::new(|text| REPORTS.lock().push(text.to_string()));
        losses.record(2, "first".into());
        losses.record(3, "second".into());
        losses.record(1, "third".into());
        assert_eq!(reports(), ["2 spans were lost: first"]);
        losses.flush();
        losses.flush();
        assert_eq!(reports(), ["4 spans were lost: third"]);
    }
}
