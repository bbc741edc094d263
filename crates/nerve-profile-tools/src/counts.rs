//! Counts the screens that rules and fields match.

use std::collections::BTreeMap;

use nerve_agent::driver::{FieldMatch, RuleMatch, match_fields};
use nerve_agent::profile::Profile;
use nerve_vt::screen::Screen;

use crate::report::{FieldReport, Overlap, RuleReport};

/// The counts of all screens so far.
#[derive(Debug)]
pub(crate) struct Counts {
    rules: Vec<RuleReport>,
    fields: Vec<FieldReport>,
    /// By the indexes of the rules.
    overlaps: BTreeMap<(usize, usize), Overlap>,
}

impl Counts {
    /// Starts with zero for all rules and fields of a profile.
    pub(crate) fn new(profile: &Profile) -> Counts {
        let rules = profile.rules.iter().enumerate().map(|(at, rule)| RuleReport {
            rule: at + 1,
            state: rule.state.as_str(),
            region: rule.region.as_str(),
            pattern: rule.pattern.as_str().to_string(),
            screens: 0,
            decided: 0,
        });
        // A blank screen names all fields.
        let fields = match_fields(profile, &Screen::default());
        let fields = fields.iter().map(|FieldMatch { field, .. }| FieldReport { field, screens: 0 });
        Counts { rules: rules.collect(), fields: fields.collect(), overlaps: BTreeMap::new() }
    }

    /// Adds a screen of a recording. `matches`: the rules that match it.
    pub(crate) fn add(
        &mut self,
        profile: &Profile,
        screen: &Screen,
        matches: &[RuleMatch],
        path: &str,
        elapsed_ms: u64,
    ) {
        for matched in matches {
            self.rules[matched.rule].screens += 1;
        }
        if let Some(first) = matches.first() {
            self.rules[first.rule].decided += 1;
        }
        for (report, field) in self.fields.iter_mut().zip(match_fields(profile, screen)) {
            report.screens += u64::from(field.is_matched);
        }
        for (at, first) in matches.iter().enumerate() {
            for second in &matches[at + 1..] {
                let states = [first, second].map(|matched| profile.rules[matched.rule].state);
                if states[0] == states[1] {
                    continue;
                }
                let overlap = self.overlaps.entry((first.rule, second.rule)).or_insert_with(|| Overlap {
                    rules: [first.rule + 1, second.rule + 1],
                    states: states.map(|state| state.as_str()),
                    rows: [first.text.clone(), second.text.clone()],
                    path: path.to_string(),
                    elapsed_ms,
                    screens: 0,
                });
                overlap.screens += 1;
            }
        }
    }

    /// Returns the reports.
    pub(crate) fn into_reports(self) -> (Vec<RuleReport>, Vec<FieldReport>, Vec<Overlap>) {
        (self.rules, self.fields, self.overlaps.into_values().collect())
    }
}
