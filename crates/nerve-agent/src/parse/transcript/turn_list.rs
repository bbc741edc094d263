//! All turns of Claude Code's transcript.

use std::collections::HashMap;

use super::super::entry::time;
use super::super::line_decoder::json_lines;
use super::super::turn_list::{TurnList, TurnRecord};
use super::cut::Tree;
use super::kinds::is_known_line;
use super::{Line, Turn, strip_wrappers, user_text};

/// Returns the turns on the branch of the last line. The answer after a compaction belongs to the turn before it.
pub(in crate::parse) fn turn_list(text: &str) -> TurnList {
    let mut list = TurnList::default();
    let mut lines = Vec::new();
    for line in json_lines::<Line>(text.lines()) {
        match line {
            Some(line) => lines.push(("", line)),
            None => list.unknown += 1,
        }
    }
    let tree = Tree::from_lines(lines);
    let mut turns: Vec<OpenTurn> = Vec::new();
    // Index of the turn to which a part belongs, by the part's first line.
    let mut turn_of: HashMap<usize, usize> = HashMap::new();
    for part in &tree.parts {
        if part.is_turn {
            let line = &tree.lines[part.head].1;
            turns.push(OpenTurn::new(line));
        }
        let is_command = !part.is_turn && user_text(&tree.lines[part.head].1).is_some();
        if let Some(last) = turns.len().checked_sub(1).filter(|_| !is_command) {
            turn_of.insert(part.head, last);
        }
    }
    for (at, (_, line)) in tree.lines.into_iter().enumerate() {
        if list.session_id.is_none() {
            list.session_id.clone_from(&line.session_id);
        }
        let turn = tree.heads[at].and_then(|head| turn_of.get(&head));
        match turn.filter(|_| !line.is_sidechain() && user_text(&line).is_none()) {
            Some(turn) => turns[*turn].add(&line),
            None => list.unknown += usize::from(!is_known_line(&line.kind)),
        }
    }
    let last = turns.len();
    list.turns = turns.into_iter().enumerate().map(|(at, turn)| turn.finish(at + 1 < last)).collect();
    list.unknown += list.turns.iter().map(|turn| turn.answer.unknown).sum::<usize>();
    list
}

/// A turn that is being collected.
struct OpenTurn {
    record: TurnRecord,
    answer: Turn,
}

impl OpenTurn {
    fn new(prompt: &Line) -> OpenTurn {
        let text = strip_wrappers(&user_text(prompt).unwrap_or_default()).trim().to_string();
        let started = prompt.timestamp.as_deref().and_then(time);
        let answer = Turn::new(prompt.session_id.clone());
        let record = TurnRecord { prompt: text, started, ended: started, ..TurnRecord::default() };
        OpenTurn { record, answer }
    }

    /// Adds a line of the answer.
    fn add(&mut self, line: &Line) {
        if line.kind == "assistant" || line.kind == "user" {
            self.record.ended = line.timestamp.as_deref().and_then(time).or(self.record.ended);
        }
        self.answer.add_line(line);
    }

    fn finish(self, is_followed: bool) -> TurnRecord {
        let mut answer = self.answer.finish();
        answer.is_complete |= is_followed;
        TurnRecord { answer, ..self.record }
    }
}
