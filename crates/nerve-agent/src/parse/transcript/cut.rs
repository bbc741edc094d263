//! Cuts a transcript after a turn or at a moment, so that a fork or a branch can continue from there.
//!
//! The lines form a tree, and the branch of the last line counts; branches of a rewound conversation are left out. A
//! line belongs to a turn if it descends from the turn's prompt, even off the branch: results of parallel tools are.
//! Lines without a parent stay with the line before them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use nerve_types::TsNs;
use serde_json::Value;

use super::{Line, user_text};

/// Reason why a session file cannot be cut.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    /// A line is not a JSON object with a type.
    #[error("line {line} is invalid")]
    Malformed {
        /// Line number, 1-based.
        line: usize,
    },
    /// The last line is incomplete.
    #[error("the last line is incomplete")]
    Truncated,
    /// No message of a known kind: the format is unknown.
    #[error("unknown format, possibly of a newer version of the agent")]
    Unknown,
    /// The turn does not exist.
    #[error("no turn {turn}: the conversation has {turns}")]
    NoSuchTurn {
        /// The requested turn, 1-based.
        turn: u64,
        /// Number of turns.
        turns: u64,
    },
}

/// Returns the number of turns: prompts, and commands that the agent answered.
///
/// # Errors
/// [`CutError`], except [`CutError::NoSuchTurn`].
pub fn turns(text: &str) -> Result<u64, CutError> {
    Tree::read(text).map(|tree| tree.turns())
}

/// Returns the transcript up to the end of a turn, 1-based, as session `id`.
///
/// # Errors
/// [`CutError`].
pub fn cut(text: &str, turn: u64, id: &str) -> Result<String, CutError> {
    let tree = Tree::read(text)?;
    let lines_to_keep = tree.lines_to_keep(turn)?;
    let mut cut = String::with_capacity(text.len());
    for ((text, line), _) in tree.lines.iter().zip(lines_to_keep).filter(|(_, is_kept)| *is_kept) {
        cut.push_str(&with_session_id(text, line, id));
        cut.push('\n');
    }
    Ok(cut)
}

/// A transcript as it was at a moment, as another session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptCut {
    /// The transcript; empty if there were no messages yet.
    pub text: String,
    /// Number of turns in it: prompts, and commands that the agent answered. The last answer may be incomplete.
    pub turns: u64,
    /// Number of turns in the whole transcript.
    pub total_turns: u64,
}

/// Returns the transcript as it was at `at`, or all of it if `at` is `None`, as session `id`.
///
/// A message with pending tools or with nothing but thoughts is left out, together with what followed, because no model
/// accepts it as history. `moved` (from, to) rewrites paths if the work continues in another folder, except in content
/// signed by the model.
///
/// # Errors
/// [`CutError`], except [`CutError::NoSuchTurn`] and [`CutError::Truncated`].
pub fn cut_at(
    text: &str,
    at: Option<TsNs>,
    id: &str,
    moved: Option<(&Path, &Path)>,
) -> Result<TranscriptCut, CutError> {
    let whole = Tree::read(without_partial_line(text))?;
    let total_turns = whole.turns();
    let is_after_cut = |line: &Line| {
        let time = line.timestamp.as_deref().and_then(|time| time.parse::<jiff::Timestamp>().ok());
        let is_main = line.uuid.is_some() && !line.is_sidechain();
        is_main && time.is_some_and(|time| is_after(time.as_millisecond(), at))
    };
    let mut lines = whole.lines;
    let end = lines.iter().position(|(_, line)| is_after_cut(line)).unwrap_or(lines.len());
    lines.truncate(end);
    let tree = Tree::from_lines(lines);
    let turns = tree.turns();
    let moved = moved.and_then(|(from, to)| PathRewriter::new(from, to));
    let mut cut = TranscriptCut { text: String::new(), turns, total_turns };
    if turns == 0 {
        return Ok(cut);
    }
    let lines_to_keep = tree.lines_to_keep(turns)?;
    let end = tree.unfinished(&lines_to_keep).unwrap_or(lines_to_keep.len());
    for ((text, line), _) in tree.lines[..end].iter().zip(lines_to_keep).filter(|(_, is_kept)| *is_kept) {
        // Belongs to a message after the cut.
        if line.message_id.as_ref().is_some_and(|id| line.uuid.is_none() && !tree.by_id.contains_key(id)) {
            continue;
        }
        let line = with_session_id(text, line, id);
        cut.text.push_str(&moved.as_ref().map_or(line.clone(), |moved| moved.rewrite_line(&line)));
        cut.text.push('\n');
    }
    Ok(cut)
}

/// Returns true if `ms` is after `at`. Agents record milliseconds, so the whole millisecond of `at` is included.
pub(in crate::parse) fn is_after(ms: i64, at: Option<TsNs>) -> bool {
    at.is_some_and(|at| i128::from(ms) > i128::from(at.0 / 1_000_000))
}

/// Returns the text without an incomplete last line, which is still being written.
fn without_partial_line(text: &str) -> &str {
    match text.rsplit_once('\n') {
        Some((whole, last)) if serde_json::from_str::<Line>(last).is_err() => whole,
        _ => text,
    }
}

/// Rewrites the paths of a folder to another folder.
pub(in crate::parse) struct PathRewriter<'a> {
    /// The folders in their JSON encoding.
    from: String,
    to: String,
    folders: (&'a Path, &'a Path),
}

impl<'a> PathRewriter<'a> {
    /// Creates a rewriter; `None` if both folders are the same or `from` is the root or relative.
    pub(in crate::parse) fn new(from: &'a Path, to: &'a Path) -> Option<PathRewriter<'a>> {
        let escaped = |path: &Path| {
            let quoted = Value::from(path.to_str()?).to_string();
            Some(quoted[1..quoted.len() - 1].trim_end_matches('/').to_string())
        };
        let (old, new) = (escaped(from)?, escaped(to)?);
        // Every path begins with `/`.
        let is_folder = from.is_absolute() && from.components().count() > 1;
        (old != new && is_folder).then_some(PathRewriter { from: old, to: new, folders: (from, to) })
    }

    /// Rewrites a line of a transcript; only the working directory if the model signed it.
    pub(in crate::parse) fn rewrite_line(&self, line: &str) -> String {
        if is_signed(line) {
            return self.with_cwd(line).unwrap_or_else(|| line.to_string());
        }
        self.rewrite_all(line)
    }

    /// Rewrites any JSON text.
    pub(in crate::parse) fn rewrite_text(&self, text: &str) -> String {
        if is_signed(text) { text.to_string() } else { self.rewrite_all(text) }
    }

    fn rewrite_all(&self, line: &str) -> String {
        let mut moved = String::with_capacity(line.len());
        let mut rest = line;
        while let Some(at) = rest.find(&self.from) {
            let (before, found) = rest.split_at(at);
            let after = &found[self.from.len()..];
            moved.push_str(before);
            moved.push_str(if is_complete_path(before, after) { &self.to } else { &self.from });
            rest = after;
        }
        moved.push_str(rest);
        moved
    }

    /// Replaces only the working directory and keeps the rest byte for byte. `None` if it is not below the folder.
    fn with_cwd(&self, line: &str) -> Option<String> {
        let (from, to) = self.folders;
        let read = |line: &str| serde_json::from_str::<Value>(line).ok();
        let mut expected = read(line)?;
        let cwd = expected.get("cwd")?.as_str()?.to_string();
        let inside = Path::new(&cwd).strip_prefix(from).ok()?;
        // Joining an empty path would append `/`.
        let new: PathBuf = to.join(inside).components().collect();
        expected["cwd"] = Value::from(new.to_str()?);
        let (old, new) = (Value::from(cwd).to_string(), expected["cwd"].to_string());
        let replaced = line
            .match_indices(&old)
            .map(|(at, _)| format!("{}{new}{}", &line[..at], &line[at + old.len()..]))
            .find(|line| read(line).as_ref() == Some(&expected));
        Some(replaced.unwrap_or_else(|| expected.to_string()))
    }
}

/// Returns true for signed content: a model rejects it if it was changed.
fn is_signed(text: &str) -> bool {
    text.contains("\"signature\":")
}

/// Returns true if a path between these texts is complete: `/a/b` matches neither the beginning of `/a/bc` nor the end
/// of `/x/a/b`, `~/a/b` or `https://a/b`, and `</a>` is a tag. At the end of a sentence it is complete.
fn is_complete_path(before: &str, after: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let continues = after.strip_prefix('.').unwrap_or(after).starts_with(is_part);
    let begins_before = |c: char| is_part(c) || matches!(c, '/' | '~' | '*' | '}' | ')');
    // The letter of `\n` is not part of a path.
    let is_escape = before.get(..before.len().saturating_sub(1)).is_some_and(|before| before.ends_with('\\'));
    let is_inner = before.ends_with(begins_before) && !is_escape;
    let is_tag = before.ends_with('<') && after.starts_with('>');
    !(continues || is_inner || is_tag)
}

/// A part of the current branch.
pub(super) struct Part {
    /// First line of the turn: a prompt, or a compaction boundary.
    pub(super) head: usize,
    pub(super) is_turn: bool,
}

pub(super) struct Tree<'a> {
    pub(super) lines: Vec<(&'a str, Line)>,
    /// Lines of the main conversation by id.
    by_id: HashMap<String, usize>,
    /// The first line of the part to which each line belongs, on any branch.
    pub(super) heads: Vec<Option<usize>>,
    /// The parts of the current branch, in order.
    pub(super) parts: Vec<Part>,
}

impl<'a> Tree<'a> {
    fn read(text: &'a str) -> Result<Tree<'a>, CutError> {
        let mut lines = Vec::new();
        let mut rows = text.lines().enumerate().filter(|(_, row)| !row.trim().is_empty()).peekable();
        while let Some((at, row)) = rows.next() {
            match serde_json::from_str::<Line>(row) {
                Ok(line) => lines.push((row, line)),
                Err(_) if rows.peek().is_none() && !text.ends_with('\n') => return Err(CutError::Truncated),
                Err(_) => return Err(CutError::Malformed { line: at + 1 }),
            }
        }
        let is_message = |line: &Line| {
            matches!(line.kind.as_str(), "user" | "assistant")
                && line.uuid.is_some()
                && line.message.is_some()
        };
        match lines.iter().any(|(_, line)| is_message(line)) {
            true => Ok(Tree::from_lines(lines)),
            false => Err(CutError::Unknown),
        }
    }

    pub(super) fn from_lines(lines: Vec<(&'a str, Line)>) -> Tree<'a> {
        let id = |line: &Line| line.uuid.clone().filter(|_| !line.is_sidechain());
        let by_id: HashMap<String, usize> =
            lines.iter().enumerate().filter_map(|(at, (_, line))| Some((id(line)?, at))).collect();
        let mut parents = vec![None; lines.len()];
        let mut before = None;
        for (at, (_, line)) in lines.iter().enumerate() {
            if id(line).is_none() {
                continue;
            }
            let known = |id: &Option<String>| by_id.get(id.as_ref()?).copied().filter(|parent| *parent != at);
            let parent = known(&line.parent_uuid).or_else(|| known(&line.logical_parent_uuid));
            // The parent is missing: the previous line is the best guess.
            let is_lost = line.parent_uuid.is_some() && parent.is_none();
            parents[at] = parent.or(before.filter(|_| is_lost));
            before = Some(at);
        }
        let begins: Vec<bool> = lines.iter().map(|(_, line)| begins_part(line)).collect();
        let mut heads: Vec<Option<usize>> = Vec::with_capacity(lines.len());
        for at in 0..lines.len() {
            heads.push(match parents[at] {
                _ if begins[at] => Some(at),
                // Already known: avoids walking long turns again for each line.
                Some(parent) if parent < at => heads[parent],
                Some(_) => ancestors(&parents, at).find(|&at| begins[at]),
                None => None,
            });
        }
        let answers = lines.iter().zip(&heads).filter(|((_, line), _)| line.kind == "assistant");
        let answered: HashSet<usize> = answers.filter_map(|(_, head)| *head).collect();
        let is_turn = |head: usize| {
            user_text(&lines[head].1)
                .is_some_and(|user_text| !is_command(&user_text) || answered.contains(&head))
        };
        let mut seen = HashSet::new();
        let branch =
            before.into_iter().flat_map(|last| ancestors(&parents, last)).take_while(|at| seen.insert(*at));
        let branch: Vec<usize> = branch.filter(|&at| begins[at]).collect();
        let parts = branch.into_iter().rev().map(|head| Part { head, is_turn: is_turn(head) }).collect();
        Tree { lines, by_id, heads, parts }
    }

    fn turns(&self) -> u64 {
        self.parts.iter().filter(|part| part.is_turn).count() as u64
    }

    /// Returns the first incomplete message of the last turn: one with a pending tool, or with nothing but thoughts at
    /// the end.
    fn unfinished(&self, lines_to_keep: &[bool]) -> Option<usize> {
        let last = self.parts.last()?.head;
        let lines = || self.lines.iter().enumerate().skip(last).filter(|(at, _)| lines_to_keep[*at]);
        let blocks = |line: &'_ Line| -> Vec<Value> {
            let content = line.message.as_ref().map(|message| &message.content);
            content.and_then(Value::as_array).cloned().unwrap_or_default()
        };
        let id = |block: &Value, key: &str| block[key].as_str().map(str::to_string);
        let results: HashSet<String> = lines()
            .flat_map(|(_, (_, line))| blocks(line))
            .filter_map(|block| id(&block, "tool_use_id"))
            .collect();
        let mut messages: Vec<(Option<&str>, usize, bool, bool)> = Vec::new();
        for (at, (_, line)) in lines().filter(|(_, (_, line))| line.kind == "assistant") {
            let message = line.message.as_ref().and_then(|message| message.id.as_deref());
            if !messages.last().is_some_and(|(last, ..)| message.is_some() && *last == message) {
                messages.push((message, at, true, false));
            }
            let Some((_, _, only_thoughts, waits)) = messages.last_mut() else { continue };
            for block in blocks(line) {
                *only_thoughts &= matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking"));
                *waits |=
                    block["type"] == "tool_use" && !id(&block, "id").is_some_and(|id| results.contains(&id));
            }
        }
        let is_last = |at: usize| messages.last().is_some_and(|(_, last, ..)| *last == at);
        let unfinished =
            messages.iter().find(|(_, at, thoughts, waits)| *waits || (*thoughts && is_last(*at)));
        unfinished.map(|(_, at, ..)| *at)
    }

    /// Returns for each line whether it is kept in a cut after a turn.
    fn lines_to_keep(&self, turn: u64) -> Result<Vec<bool>, CutError> {
        let mut turns = self.parts.iter().enumerate().filter(|(_, part)| part.is_turn);
        let nth = turn.checked_sub(1).and_then(|skipped| usize::try_from(skipped).ok());
        let Some((last, _)) = nth.and_then(|nth| turns.nth(nth)) else {
            return Err(CutError::NoSuchTurn { turn, turns: self.turns() });
        };
        let heads: HashSet<usize> = self.parts[..=last].iter().map(|part| part.head).collect();
        let is_kept = |at: usize| self.heads[at].is_none_or(|head| heads.contains(&head));
        let mut before = true;
        let lines = self.lines.iter().enumerate();
        Ok(lines
            .map(|(at, (_, line))| {
                if line.uuid.is_some() && !line.is_sidechain() {
                    before = is_kept(at);
                    return before;
                }
                let named = [&line.leaf_uuid, &line.message_id].into_iter().flatten();
                before && named.filter_map(|id| self.by_id.get(id)).all(|&at| is_kept(at))
            })
            .collect())
    }
}

/// Iterates over a line and its ancestors. Ends at a cycle.
fn ancestors(parents: &[Option<usize>], from: usize) -> impl Iterator<Item = usize> {
    let mut steps = parents.len();
    std::iter::successors(Some(from), move |&at| {
        steps = steps.checked_sub(1)?;
        parents[at]
    })
}

fn begins_part(line: &Line) -> bool {
    let is_boundary = line.kind == "system" && line.subtype.as_deref() == Some("compact_boundary");
    !line.is_sidechain() && line.uuid.is_some() && (is_boundary || user_text(line).is_some())
}

/// Returns true for a record of a command that the program executed itself. A command passed on to the model has an
/// answer.
fn is_command(user_text: &str) -> bool {
    ["<command-", "<local-command-", "<bash-"].iter().any(|tag| user_text.trim_start().starts_with(tag))
}

/// Returns the line with the session names replaced by `id`.
fn with_session_id(text: &str, line: &Line, id: &str) -> String {
    let quoted = |id: &str| Value::from(id).to_string();
    let mut with_session_id = text.to_string();
    let names = [("sessionId", &line.session_id), ("session_id", &line.process_session_id)];
    for (key, old) in names.iter().filter_map(|(key, old)| Some((*key, old.as_ref()?))) {
        // Inside a text the quotes would be escaped, so this matches only the field.
        let (before, after) = (format!("\"{key}\":{}", quoted(old)), format!("\"{key}\":{}", quoted(id)));
        if with_session_id.contains(&before) {
            with_session_id = with_session_id.replace(&before, &after);
        } else if let Ok(Value::Object(mut fields)) = serde_json::from_str(&with_session_id) {
            fields.insert(key.to_string(), Value::from(id));
            with_session_id = Value::Object(fields).to_string();
        }
    }
    with_session_id
}
