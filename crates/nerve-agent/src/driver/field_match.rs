//! The fields of a profile that match a screen.

use nerve_vt::screen::{Row, Screen};

use super::observation::{Observation, observe_screen, read_draft};
use super::verdict::text_before_cursor;
use crate::profile::{Pattern, Profile};

/// A field of a profile, and whether a screen has what it describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldMatch {
    /// Name of the field, as `title.busy`.
    pub field: &'static str,
    /// The screen has it.
    pub is_matched: bool,
}

/// Returns the fields with patterns that a profile sets, always in the same order, each with whether it matches the screen.
pub fn match_fields(profile: &Profile, screen: &Screen) -> Vec<FieldMatch> {
    let observation = observe_screen(profile, screen);
    let composer_rows = observation.composer.as_ref().map(|view| view.rows);
    let rows = |from: usize, to: usize| screen.rows.get(from..to).unwrap_or_default();
    let above = composer_rows.map_or(&[][..], |(top, _)| rows(0, top));
    let below = composer_rows.map_or(&[][..], |(_, end)| rows(end, screen.rows.len()));
    let has_row = |rows: &[Row], pattern: &Pattern| rows.iter().any(|row| pattern.is_match(&row.text));
    let titles = &profile.title;
    let has_title = |pattern: &Pattern| pattern.is_match(&screen.title);
    let prompt = |pattern: &Pattern| pattern.is_match(&text_before_cursor(screen));

    let mut fields = Vec::new();
    let mut add = |field, is_matched: Option<bool>| {
        fields.extend(is_matched.map(|is_matched| FieldMatch { field, is_matched }));
    };
    add("prompt", profile.prompt.as_ref().map(prompt));
    composer_fields(profile, screen, &observation, &mut add);
    add("composer.queue", queue(profile).map(|pattern| has_row(above, pattern)));
    add("title.idle", titles.idle.as_ref().map(has_title));
    add("title.busy", titles.busy.as_ref().map(has_title));
    add("title.blocked", titles.blocked.as_ref().map(has_title));
    add("turn_end", profile.turn_end.as_ref().map(|pattern| has_row(&screen.rows, pattern)));
    add("interrupt_again", profile.interrupt_again.as_ref().map(|pattern| has_row(below, pattern)));
    let empty = profile.session.as_ref().and_then(|session| session.empty.as_ref());
    add("session.empty", empty.map(|_| observation.conversation_empty));
    fields
}

fn queue(profile: &Profile) -> Option<&Pattern> {
    profile.composer.as_ref()?.queue.as_ref()
}

/// Adds the fields about the composer itself.
fn composer_fields(
    profile: &Profile,
    screen: &Screen,
    observation: &Observation,
    add: &mut impl FnMut(&'static str, Option<bool>),
) {
    let Some(composer) = &profile.composer else { return };
    let view = observation.composer.as_ref();
    let draft = view.and_then(|view| Some(read_draft(composer, screen.rows.get(view.rows.0..view.rows.1)?)));
    let has_placeholder =
        draft.is_some_and(|draft| composer.placeholder.iter().any(|pattern| pattern.is_match(&draft)));
    add("composer", Some(view.is_some()));
    add("composer.placeholder", (!composer.placeholder.is_empty()).then_some(has_placeholder));
    add("composer.chip", composer.chip.as_ref().map(|_| view.is_some_and(|view| view.chip)));
    add(
        "composer.other_mode",
        composer.other_mode.as_ref().map(|_| view.is_some_and(|view| view.other_mode)),
    );
}
