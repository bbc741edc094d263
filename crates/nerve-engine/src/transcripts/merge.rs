//! Merges the turns of an agent's session file with the node's history.

use nerve_agent::parse::turn_list::TurnRecord;
use nerve_api::reply::{Transcript, TranscriptSource, TranscriptTurn};
use nerve_types::activity::TsMs;

use super::history_log::{HistoryLog, LoggedTurn};

/// Maximum time between the moment a prompt is sent and the one that the agent writes down, in milliseconds.
const PROMPT_DELAY_MS: u64 = 60_000;

/// A turn with the time that orders it.
struct TimedTurn {
    at: TsMs,
    turn: TranscriptTurn,
}

/// Adds turns to a transcript, oldest first. A turn of the history is added unless the agent's session file has it too. A
/// dialog belongs to the last turn that began before its answer.
pub(super) fn merge(mut transcript: Transcript, turns: Vec<TurnRecord>, log: HistoryLog) -> Transcript {
    let mut last = TsMs(0);
    let mut merged: Vec<TimedTurn> = Vec::with_capacity(turns.len());
    for turn in turns {
        // A turn without a time stays behind the one before it.
        last = turn.started.unwrap_or(last).max(last);
        merged.push(TimedTurn { at: last, turn: of_agent(turn) });
    }
    let agent_turns = merged.len();
    let mut is_matched = vec![false; agent_turns];
    for logged in log.turns {
        let agent_turn = (0..agent_turns).find(|&at| !is_matched[at] && is_same(&merged[at], &logged));
        match agent_turn {
            Some(at) => is_matched[at] = true,
            None => merged.push(TimedTurn { at: logged.started, turn: of_history(logged) }),
        }
    }
    merged.sort_by_key(|turn| turn.at);
    for (at, dialog) in log.dialogs {
        let index = merged.partition_point(|turn| turn.at <= at);
        // A dialog at the start of the agent belongs to no prompt.
        if index == 0 {
            let turn =
                TranscriptTurn { started_at: Some(at.iso()), is_complete: true, ..TranscriptTurn::default() };
            merged.insert(0, TimedTurn { at, turn });
        }
        merged[index.saturating_sub(1)].turn.dialogs.push(dialog);
    }
    let numbered = merged.into_iter().zip(1..);
    transcript.turns =
        numbered.map(|(TimedTurn { turn, .. }, number)| TranscriptTurn { turn: number, ..turn }).collect();
    transcript
}

/// Returns true if the session file's turn is the answer to the prompt in the history.
fn is_same(agent: &TimedTurn, logged: &LoggedTurn) -> bool {
    let words = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
    let is_near = agent.at.0 <= logged.started.0.max(logged.ended.0).saturating_add(PROMPT_DELAY_MS)
        && agent.at.0.saturating_add(PROMPT_DELAY_MS) >= logged.started.0;
    is_near && words(&agent.turn.prompt) == words(&logged.prompt)
}

fn of_agent(turn: TurnRecord) -> TranscriptTurn {
    TranscriptTurn {
        prompt: turn.prompt,
        started_at: turn.started.map(TsMs::iso),
        ended_at: turn.ended.map(TsMs::iso),
        sections: turn.answer.sections,
        tokens: turn.answer.tokens,
        is_complete: turn.answer.is_complete || turn.answer.said_end,
        source: TranscriptSource::Agent,
        ..TranscriptTurn::default()
    }
}

fn of_history(turn: LoggedTurn) -> TranscriptTurn {
    TranscriptTurn {
        prompt: turn.prompt,
        started_at: Some(turn.started.iso()),
        ended_at: Some(turn.ended.iso()),
        sections: turn.sections,
        tokens: turn.tokens,
        is_complete: turn.is_complete,
        source: TranscriptSource::History,
        ..TranscriptTurn::default()
    }
}

#[cfg(test)]
mod tests {
    use nerve_agent::parse::transcript::TranscriptTurn as Answer;
    use nerve_api::reply::TranscriptDialog;
    use nerve_types::{Section, SectionKind};

    use super::*;

    fn agent(prompt: &str, ms: u64) -> TurnRecord {
        let sections = vec![Section::new(SectionKind::Text, "of the agent")];
        let answer = Answer { is_found: true, sections, ..Answer::default() };
        TurnRecord { prompt: prompt.into(), started: Some(TsMs(ms)), ended: Some(TsMs(ms + 5)), answer }
    }

    fn logged(prompt: &str, ms: u64) -> LoggedTurn {
        LoggedTurn { prompt: prompt.into(), started: TsMs(ms), ended: TsMs(ms + 10), ..LoggedTurn::default() }
    }

    fn merged(turns: Vec<TurnRecord>, log: HistoryLog) -> Vec<(u64, String, TranscriptSource, usize)> {
        let merged = merge(Transcript::default(), turns, log);
        let row = |turn: TranscriptTurn| (turn.turn, turn.prompt, turn.source, turn.dialogs.len());
        merged.turns.into_iter().map(row).collect()
    }

    #[test]
    fn turns_in_both_appear_once_and_others_in_order() {
        let (a, h) = (TranscriptSource::Agent, TranscriptSource::History);
        let log = HistoryLog {
            turns: vec![logged("first\n line", 1_000), logged("/status", 150_000), logged("same", 300_000)],
            dialogs: Vec::new(),
        };
        let turns =
            vec![agent("first  line", 1_100), agent("typed by hand", 100_000), agent("same", 300_001)];
        let expected =
            [(1, "first  line", a, 0), (2, "typed by hand", a, 0), (3, "/status", h, 0), (4, "same", a, 0)];
        assert_eq!(merged(turns, log), expected.map(|(n, prompt, from, d)| (n, prompt.to_string(), from, d)));
    }

    #[test]
    fn repeated_prompt_is_matched_once_per_turn() {
        let log =
            HistoryLog { turns: vec![logged("again", 1_000), logged("again", 2_000)], dialogs: Vec::new() };
        let prompts = merged(vec![agent("again", 1_001)], log);
        assert_eq!(prompts.len(), 2, "the second turn is only in the history: {prompts:?}");
    }

    #[test]
    fn dialog_belongs_to_last_turn_before_it() {
        let dialog = |ms| (TsMs(ms), TranscriptDialog::default());
        let log = HistoryLog { turns: Vec::new(), dialogs: vec![dialog(5), dialog(1_500), dialog(9_000)] };
        let rows = merged(vec![agent("a", 1_000), agent("b", 2_000)], log);
        let dialogs: Vec<_> =
            rows.iter().map(|(_, prompt, _, dialogs)| (prompt.as_str(), *dialogs)).collect();
        assert_eq!(dialogs, [("", 1), ("a", 1), ("b", 1)], "the first dialog precedes every prompt");
    }
}
