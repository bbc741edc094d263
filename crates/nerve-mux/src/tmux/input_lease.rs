//! Determines whether a person is typing into a pane. No I/O.

use std::time::Duration;

use nerve_host::backend::Lease;
use nerve_types::TsNs;

use super::formats::SEPARATOR;
use super::quoting::CommandArgs;

/// Input within this time counts as typing in progress.
const TYPING_TIMEOUT: Duration = Duration::from_secs(2);
/// tmux reports activity in whole seconds.
const ACTIVITY_RESOLUTION: Duration = Duration::from_secs(1);
/// Age from which a reply is stale.
const MAX_AGE: Duration = Duration::from_millis(300);

/// Clients, each with the pane that has its focus.
const CLIENTS: &str = "#{client_control_mode}\u{1f}#{client_activity}\u{1f}#{pane_id}\u{1f}#{client_name}";

/// The result of the latest queries.
#[derive(Debug, Default)]
pub(super) struct InputLease {
    known: Option<(TsNs, Lease)>,
}

/// Returns the commands that query the mode and the clients of a pane.
pub(super) fn queries(pane: &str) -> [CommandArgs; 2] {
    [
        super::quoting::command(&["display-message", "-p", "-t", pane, "#{pane_in_mode}"]),
        super::quoting::command(&["list-clients", "-F", CLIENTS]),
    ]
}

impl InputLease {
    /// Returns the result once, unless it is stale.
    pub(super) fn take(&mut self, now: TsNs) -> Option<Lease> {
        let (at, lease) = self.known.take()?;
        (now.since(at) < MAX_AGE).then_some(lease)
    }

    /// Stores the result of replies.
    pub(super) fn update(&mut self, now: TsNs, replies: &[Result<String, String>], pane: &str) {
        let text = |at: usize| replies.get(at).and_then(|answer| answer.as_deref().ok()).unwrap_or_default();
        self.known = Some((now, lease(now, text(0), text(1), pane)));
    }
}

fn lease(now: TsNs, in_mode: &str, clients: &str, pane: &str) -> Lease {
    let in_pane = clients.lines().filter_map(|line| {
        let fields: Vec<&str> = line.splitn(4, SEPARATOR).collect();
        let [control, activity, active, name] = fields.as_slice() else { return None };
        // A client in control mode is a program.
        (*control != "1" && *active == pane).then_some((activity.parse::<u64>().ok()?, *name))
    });
    let latest = in_pane.max();
    if in_mode.trim().parse().is_ok_and(|modes: u32| modes > 0) {
        let by = match latest {
            Some((_, name)) => format!("a person in copy mode at {name}"),
            None => "someone who left it in copy mode".to_string(),
        };
        // tmux reports the end of the mode; the time is a fallback.
        return Lease::Held { by, until: now + TYPING_TIMEOUT };
    }
    match latest {
        Some((activity, name)) => {
            let until = TsNs(activity.saturating_mul(1_000_000_000)) + TYPING_TIMEOUT + ACTIVITY_RESOLUTION;
            // Limits the wait if the clock was set back.
            let until = until.min(now + TYPING_TIMEOUT + ACTIVITY_RESOLUTION);
            match until > now {
                true => Lease::Held { by: format!("a person at {name}"), until },
                false => Lease::Free,
            }
        }
        None => Lease::Free,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: TsNs = TsNs(1_000_500_000_000);

    fn clients(lines: &[&str]) -> String {
        lines.join("\n").replace('|', "\u{1f}")
    }

    #[test]
    fn recent_typing_in_this_pane_holds_the_lease() {
        let held = lease(NOW, "0", &clients(&["0|999|%3|/dev/pts/5", "0|1|%3|/dev/pts/9"]), "%3");
        assert_eq!(held, Lease::Held { by: "a person at /dev/pts/5".into(), until: TsNs(1_002_000_000_000) });
        for idle in ["0|997|%3|/dev/pts/5", "0|999|%4|/dev/pts/5", "1|1000|%3|client-1", "", "nonsense"] {
            assert_eq!(lease(NOW, "0", &clients(&[idle]), "%3"), Lease::Free, "{idle}");
        }
    }

    #[test]
    fn copy_mode_holds_the_lease() {
        let Lease::Held { by, .. } = lease(NOW, "1", "", "%3") else { panic!() };
        assert!(by.contains("left it in copy mode"), "{by}");
        let Lease::Held { by, .. } = lease(NOW, "1\n", &clients(&["0|1|%3|/dev/pts/9"]), "%3") else {
            panic!()
        };
        assert!(by.contains("/dev/pts/9"), "{by}");
    }

    #[test]
    fn lease_is_returned_once_unless_stale() {
        let mut lease = InputLease::default();
        lease.update(NOW, &[Ok("0".into()), Ok(String::new())], "%3");
        assert_eq!(lease.take(NOW), Some(Lease::Free));
        assert_eq!(lease.take(NOW), None);
        lease.update(NOW, &[], "%3");
        assert_eq!(lease.take(NOW + MAX_AGE), None);
    }
}
