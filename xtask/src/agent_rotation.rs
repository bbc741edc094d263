//! Selects the real agents whose scenarios run today. CI has no time for all of them: of those after the first four, one is left out
//! each day, in turn. `NERVE_TEST_ALL_AGENTS=1` runs all, as before a release.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::agents::{AGENTS, Agent};

/// The number of agents whose scenarios always run, from the beginning of the list.
const ALWAYS: usize = 4;
/// The variable that selects all agents.
const ALL: &str = "NERVE_TEST_ALL_AGENTS";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the filter of nextest that leaves out the agent of today; `None` if all run. Prints the agent's name.
pub(crate) fn filter() -> Option<String> {
    if std::env::var_os(ALL).is_some_and(|value| value == "1") {
        return None;
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let agent = select_left_out(since.as_secs() / DAY.as_secs());
    println!("real agents: the scenarios of {} do not run today; {ALL}=1 runs all", agent.title);
    Some(format!("not (binary(real_agent_scenarios) and test(/^{}_/))", agent.name))
}

/// Returns the agent that is left out on a day.
fn select_left_out(day: u64) -> Agent {
    let others = AGENTS.iter().skip(ALWAYS);
    let count = others.len() as u64;
    let turn = usize::try_from(day % count).unwrap_or_default();
    others.copied().nth(turn).unwrap_or(AGENTS[ALWAYS])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_agent_is_left_out_once_in_a_round() {
        let names =
            |days: std::ops::Range<u64>| -> Vec<&str> { days.map(|day| select_left_out(day).name).collect() };
        let rest = AGENTS.map(|agent| agent.name);
        assert_eq!(names(0..5), rest[ALWAYS..]);
        assert_eq!(names(20_000..20_005), rest[ALWAYS..]);
    }
}
