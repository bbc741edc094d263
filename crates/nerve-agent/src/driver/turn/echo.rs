//! Recognises the echo of a prompt, in the composer and above it.

use nerve_vt::screen::Row;

use super::Phase;
use crate::driver::Driver;
use crate::driver::observation::is_echo_of;
use crate::profile::Composer;

impl Driver {
    /// Returns true if the composer shows the prompt of the running turn again: it was not accepted, or someone
    /// interrupted the agent before it began to answer. An agent on a busy machine may clear its composer late.
    pub(super) fn is_prompt_returned(&self) -> bool {
        self.turns.current.as_ref().is_some_and(|turn| turn.has_left) && self.shows_prompt()
    }

    /// Returns true if the composer still shows the prompt, so the screen is older than hooks that report more.
    pub(in crate::driver) fn is_screen_stale(&self) -> bool {
        self.turns.current.as_ref().is_some_and(|turn| !turn.has_left) && self.shows_prompt()
    }

    /// Returns true if the composer shows the prompt of the running turn, which has no answer.
    pub(super) fn shows_prompt(&self) -> bool {
        let turn = self.turns.current.as_ref();
        let turn = turn.filter(|turn| turn.phase == Phase::Running && !turn.has_answer);
        let composer = self.observation.composer.as_ref();
        composer.zip(turn).is_some_and(|(composer, turn)| is_echo_of(composer, &turn.prompt))
    }
}

/// Returns true if the row is the first row of the prompt's echo.
pub(super) fn is_echo_row(composer: &Composer, row: &Row, prompt: &str) -> bool {
    composer.prompt.after(&row.text).is_some_and(|text| is_prompt_beginning(text, prompt))
}

/// Returns true if `prompt` begins with `text`, a row of an echo.
fn is_prompt_beginning(text: &str, prompt: &str) -> bool {
    let words = |s: &str| s.split_whitespace().map(str::to_string).collect::<Vec<_>>().join(" ");
    let text = words(text);
    !text.is_empty() && words(prompt).starts_with(&text)
}
