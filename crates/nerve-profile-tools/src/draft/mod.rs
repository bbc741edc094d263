//! Drafts a profile from a recorded session.

mod busy;
mod choices;
mod composer;
mod dialogs;
mod session;
mod text;
mod titles;

use std::fmt::Write as _;
use std::path::Path;

use nerve_agent::profile::{Profile, ProfileError};
use nerve_record::ahr::AhrError;
use nerve_types::Size;

use self::busy::{BusyDraft, draft_busy};
use self::composer::{InputDraft, draft_input};
use self::dialogs::draft_dialogs;
use self::session::Session;
use self::text::{count, quote};
use self::titles::draft_titles;

/// Limits of the drafted `quiet_ms`.
const QUIET_MS: std::ops::RangeInclusive<u64> = 400..=5000;

/// The name and the program of a profile to be drafted.
#[derive(Debug, Clone, Copy)]
pub struct DraftedNames<'a> {
    /// Name of the profile.
    pub name: &'a str,
    /// File name of the program, if known.
    pub program: Option<&'a str>,
}

/// A recording from which no profile can be drafted.
#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    /// The recording cannot be read, or demands too much work.
    #[error(transparent)]
    Recording(#[from] AhrError),
    /// The recording has no typed prompt before which the screen was still.
    #[error("the recording has no prompt that was typed while the screen was still")]
    NoPrompt,
    /// The draft is not a valid profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

/// Drafts a profile as TOML. Comments name the times of the screens behind the values. `size`: initial size of the terminal.
///
/// # Errors
/// See [`DraftError`].
pub fn draft_profile(recording: &Path, size: Size, names: DraftedNames<'_>) -> Result<String, DraftError> {
    let session = Session::read(recording, size)?;
    let input = draft_input(&session.idle_screens).ok_or(DraftError::NoPrompt)?;
    let name = format!("name = {}\n", quote(names.name));
    let busy = match input.composer.is_empty() {
        true => BusyDraft::default(),
        false => draft_busy(&Profile::parse("the draft", &format!("{name}{}", input.composer))?, &session),
    };
    let text = write_profile(&name, names, &session, &input, &busy);
    Profile::parse("the draft", &text)?;
    Ok(text)
}

fn write_profile(
    name: &str,
    names: DraftedNames<'_>,
    session: &Session,
    input: &InputDraft,
    busy: &BusyDraft,
) -> String {
    let dialogs = draft_dialogs(&session.dialogs);
    let mut text = format!(
        "# Drafted from a recording with {}. Compare each value with the screen, then: nerve profile test\n{name}",
        count(session.idle_screens.len(), "prompt")
    );
    if let Some(program) = names.program {
        let _ = writeln!(text, "programs = [{}]", quote(program));
    }
    if let Some(key) = busy.interrupt {
        let _ = writeln!(text, "interrupt = '{key}'");
    }
    text += &input.top;
    text += &input.composer;
    if !input.composer.is_empty() && session.has_bracketed_paste {
        text += "\n[submit]\n# The program enabled bracketed paste.\nmode = \"paste\"\n";
    }
    text += &draft_titles(session);
    text += &dialogs.table;
    text += &dialogs.rules;
    text += &busy.rules;
    let pause = session.turns.iter().map(|turn| turn.pause_ms).max().unwrap_or_default();
    let quiet = (pause * 3 / 2).next_multiple_of(100).clamp(*QUIET_MS.start(), *QUIET_MS.end());
    let _ = write!(
        text,
        "\n[timing]\n# The longest pause in the output of a turn: {pause} ms.\nquiet_ms = {quiet}\n"
    );
    text
}
