//! Selects turns of a transcript.

use nerve_api::reply::Transcript;
use nerve_node::error::EngineError;

/// Counts the turns, and leaves only one of them if one is selected.
///
/// # Errors
/// NotFound: there is no such turn.
pub fn select_turn(mut transcript: Transcript, turn: Option<u64>) -> Result<Transcript, EngineError> {
    let count = transcript.turns.len();
    transcript.turn_count = u64::try_from(count).unwrap_or(u64::MAX);
    let Some(turn) = turn else { return Ok(transcript) };
    transcript.turns.retain(|one| one.turn == turn);
    if transcript.turns.is_empty() {
        return Err(EngineError::not_found(format!("no turn {turn}: the transcript has {count}")));
    }
    Ok(transcript)
}

/// Leaves only the newest `limit` of the turns before the turn `before`.
pub(crate) fn select_page(
    mut transcript: Transcript,
    before: Option<u64>,
    limit: Option<usize>,
) -> Transcript {
    transcript.turns.retain(|one| before.is_none_or(|before| one.turn < before));
    let excess = limit.map_or(0, |limit| transcript.turns.len().saturating_sub(limit));
    transcript.turns.drain(..excess);
    transcript
}

#[cfg(test)]
mod tests {
    use nerve_api::reply::TranscriptTurn;

    use super::*;

    fn turns_of(transcript: &Transcript) -> Vec<u64> {
        transcript.turns.iter().map(|turn| turn.turn).collect()
    }

    #[test]
    fn page_has_the_newest_turns_before_a_turn() {
        let turns = (1..=5).map(|turn| TranscriptTurn { turn, ..TranscriptTurn::default() }).collect();
        let all = select_turn(Transcript { turns, ..Transcript::default() }, None).unwrap();
        let page = |before, limit| turns_of(&select_page(all.clone(), before, limit));
        assert_eq!(page(None, Some(2)), [4, 5]);
        assert_eq!(page(Some(4), Some(2)), [2, 3]);
        assert_eq!(page(Some(2), Some(2)), [1]);
        assert_eq!(page(Some(3), None), [1, 2]);
        assert_eq!(select_page(all.clone(), None, Some(1)).turn_count, 5);
        assert_eq!(select_turn(all, Some(2)).unwrap().turn_count, 5);
    }
}
