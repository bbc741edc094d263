//! Answers that were streamed, by their digests. A streamed answer comes from the agent's screen, which shows no code fences and
//! no addresses of links, and its client sends it back. The node's transcript has the answer as the model wrote it.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

use parking_lot::Mutex;

/// Maximum number of answers; the oldest are forgotten.
const MAX_ANSWERS: usize = 4096;

/// Pairs of digests: of an answer as it was sent, and as the node has it.
#[derive(Debug, Default)]
pub(super) struct SentAnswers {
    hasher: RandomState,
    pairs: Mutex<VecDeque<(u64, u64)>>,
}

impl SentAnswers {
    /// Adds an answer: its letters as they were sent, and those of the turn.
    pub(super) fn add(&self, sent: &str, turn: &str) {
        let pair = self.digest(sent, turn);
        let mut pairs = self.pairs.lock();
        if pairs.len() == MAX_ANSWERS {
            pairs.pop_front();
        }
        pairs.push_back(pair);
    }

    /// Returns true if the turn with these letters was sent as `message`.
    pub(super) fn contains(&self, message: &str, turn: &str) -> bool {
        let pair = self.digest(message, turn);
        self.pairs.lock().contains(&pair)
    }

    fn digest(&self, sent: &str, turn: &str) -> (u64, u64) {
        (self.hasher.hash_one(sent), self.hasher.hash_one(turn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_answers_are_known_as_they_were_sent() {
        let answers = SentAnswers::default();
        answers.add("seen", "written");
        assert!(answers.contains("seen", "written"));
        assert!(!answers.contains("seen", "other") && !answers.contains("edited", "written"));
        (0..MAX_ANSWERS).for_each(|at| answers.add(&at.to_string(), "x"));
        assert!(!answers.contains("seen", "written") && answers.contains("0", "x"));
    }
}
