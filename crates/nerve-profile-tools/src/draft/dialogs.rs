//! Drafts the rules for dialogs, from the screens that keys without a prompt answered.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nerve_types::BlockKind;
use nerve_vt::screen::Screen;

use super::choices::find_choices;
use super::session::TimedScreen;
use super::text::{edge_pattern, quote, show, show_time};

/// Rows above the choices in which the question is searched.
const QUESTION_ROWS: usize = 12;
/// Words of the question in its pattern.
const QUESTION_WORDS: usize = 3;
/// Words in a question, with the kind of its dialog.
const KINDS: [(&str, BlockKind); 8] = [
    ("trust", BlockKind::Trust),
    ("api key", BlockKind::Login),
    ("log in", BlockKind::Login),
    ("login", BlockKind::Login),
    ("sign in", BlockKind::Login),
    ("theme", BlockKind::Theme),
    ("limit", BlockKind::Limit),
    ("want", BlockKind::Permission),
];

/// The drafted dialogs, as TOML.
#[derive(Debug, Default)]
pub(super) struct DialogDraft {
    /// The table `[dialog]`; empty if the defaults suffice.
    pub(super) table: String,
    /// Tables `[[rules]]`.
    pub(super) rules: String,
}

/// Drafts the dialogs.
pub(super) fn draft_dialogs(dialogs: &[TimedScreen]) -> DialogDraft {
    let mut draft = DialogDraft::default();
    let mut rules: BTreeMap<String, String> = BTreeMap::new();
    for shown in dialogs {
        let Some(choices) = find_choices(&shown.screen) else { continue };
        let Some(question) = find_question(&shown.screen, choices.first_row) else { continue };
        let text = &shown.screen.rows[question].text;
        if draft.table.is_empty() {
            draft.table = draft_table(shown, question, choices.unknown_mark.as_deref());
        }
        let words: Vec<String> = text.split_whitespace().take(QUESTION_WORDS).map(regex::escape).collect();
        let pattern = format!(r"^\s*{}", words.join(r"\s+"));
        let kind = kind_of(text);
        rules.entry(pattern.clone()).or_insert_with(|| {
            format!(
                "\n# Keys answered it at {}, row {}: {}.\n[[rules]]\nstate = \"blocked\"\nkind = \"{kind}\"\nregion = \"dialog\"\npattern = {}\n",
                show_time(shown.elapsed_ms),
                question + 1,
                show(text),
                quote(&pattern),
            )
        });
    }
    draft.rules = rules.into_values().collect();
    draft
}

fn kind_of(question: &str) -> BlockKind {
    let question = question.to_lowercase();
    let kind = KINDS.iter().find(|(word, _)| question.contains(word));
    kind.map_or(BlockKind::Other, |(_, kind)| *kind)
}

/// Returns the row of the question: the last one that ends with a question mark, otherwise the row above the choices.
fn find_question(screen: &Screen, first_choice: usize) -> Option<usize> {
    let above = || (first_choice.saturating_sub(QUESTION_ROWS)..first_choice).rev();
    let text = |at: &usize| screen.rows[*at].text.trim();
    let has_words = |at: &usize| text(at).chars().any(char::is_alphabetic);
    above().find(|at| text(at).ends_with('?')).or_else(|| above().find(has_words))
}

fn draft_table(shown: &TimedScreen, question: usize, mark: Option<&str>) -> String {
    let mut table = String::new();
    let mut above = (question.saturating_sub(QUESTION_ROWS)..question).rev();
    let edge = above.find_map(|at| Some((at, edge_pattern(&shown.screen.rows[at].text)?)));
    if let Some((at, pattern)) = edge {
        let _ = writeln!(table, "# {}, row {}.", show_time(shown.elapsed_ms), at + 1);
        let _ = writeln!(table, "above = {}", quote(&pattern));
    }
    if let Some(mark) = mark {
        let _ = writeln!(table, "# The selected choice at {}.", show_time(shown.elapsed_ms));
        let choice =
            format!(r"^[\s│┃]*(?<selected>{})?\s*\d+[.)]\s+(?<label>.*?)[\s│┃]*$", regex::escape(mark));
        let _ = writeln!(table, "choice = {}", quote(&choice));
    }
    if table.is_empty() { table } else { format!("\n[dialog]\n{table}") }
}
