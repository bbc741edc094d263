//! A transcript cut after one of its turns, or at a moment: what a fork at an earlier turn goes on from, and a branch of a recording.
//!
//! Lines are a tree. What counts is the branch that the last line is on: a conversation that was taken back to an earlier prompt
//! has others, which are left out. Lines of a turn are those that hang on its prompt, whether or not the branch leads through them:
//! results of tools that ran side by side do not. Lines that hang on nothing go with the line before them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Line, said};
use crate::event::TsNs;

/// Why a transcript cannot be cut.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    /// A line is no JSON object with a type.
    #[error("its line {line} cannot be read")]
    Malformed {
        /// 1-based.
        line: usize,
    },
    /// The last line is not whole.
    #[error("its last line ends in the middle")]
    Truncated,
    /// Nothing in it is what a message of a user or an agent looked like so far.
    #[error("no message in it is of a kind that is known: it may be of a newer format")]
    Unknown,
    /// There is no such turn.
    #[error("there is no turn {turn}: it has {turns}")]
    NoSuchTurn {
        /// As it was asked for, 1-based.
        turn: u64,
        /// How many there are.
        turns: u64,
    },
}

/// How many turns the conversation of a transcript has: prompts, and commands that the agent answered.
///
/// # Errors
/// [`CutError`], but not for a turn.
pub fn turns(text: &str) -> Result<u64, CutError> {
    Tree::read(text).map(|tree| tree.turns())
}

/// The transcript up to the end of a turn, 1-based, as that of the session `id`.
///
/// # Errors
/// [`CutError`].
pub fn cut(text: &str, turn: u64, id: &str) -> Result<String, CutError> {
    let tree = Tree::read(text)?;
    let kept = tree.kept(turn)?;
    let mut cut = String::with_capacity(text.len());
    for ((text, line), _) in tree.lines.iter().zip(kept).filter(|(_, is_kept)| *is_kept) {
        cut.push_str(&renamed(text, line, id));
        cut.push('\n');
    }
    Ok(cut)
}

/// A conversation as it was at a moment, as that of another session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutAt {
    /// The transcript. Empty if nothing had been said.
    pub text: String,
    /// Turns in it: prompts, and commands that the agent answered. The last one may have been in the middle of its answer.
    pub turns: u64,
    /// Turns of the whole.
    pub of: u64,
}

/// The transcript as it was at a moment (of now, if `at` is `None`), as that of the session `id`.
///
/// A message whose tools had not come back yet, and one that had only been thought about, are left out with what followed: no model takes
/// them for a past. Where the work goes on in another folder, `moved` says from where to where: paths are rewritten, but for those in
/// what the model signed.
///
/// # Errors
/// [`CutError`], but neither for a turn nor for a last line that is not whole.
pub fn cut_at(
    text: &str,
    at: Option<TsNs>,
    id: &str,
    moved: Option<(&Path, &Path)>,
) -> Result<CutAt, CutError> {
    let whole = Tree::read(whole_lines(text))?;
    let of = whole.turns();
    let is_later = |line: &Line| {
        let time = line.timestamp.as_deref().and_then(|time| time.parse::<jiff::Timestamp>().ok());
        let is_main = line.uuid.is_some() && !line.is_sidechain;
        let ms = |at: TsNs| i128::from(at.0 / 1_000_000);
        is_main && at.zip(time).is_some_and(|(at, time)| i128::from(time.as_millisecond()) > ms(at))
    };
    let mut lines = whole.lines;
    let end = lines.iter().position(|(_, line)| is_later(line)).unwrap_or(lines.len());
    lines.truncate(end);
    let tree = Tree::of(lines);
    let turns = tree.turns();
    let moved = moved.and_then(|(from, to)| Moved::new(from, to));
    let mut cut = CutAt { text: String::new(), turns, of };
    if turns == 0 {
        return Ok(cut);
    }
    let kept = tree.kept(turns)?;
    let end = tree.unfinished(&kept).unwrap_or(kept.len());
    for ((text, line), _) in tree.lines[..end].iter().zip(kept).filter(|(_, is_kept)| *is_kept) {
        // Of a message that is still to come.
        if line.message_id.as_ref().is_some_and(|id| line.uuid.is_none() && !tree.by_id.contains_key(id)) {
            continue;
        }
        let line = renamed(text, line, id);
        cut.text.push_str(&moved.as_ref().map_or(line.clone(), |moved| moved.line(&line)));
        cut.text.push('\n');
    }
    Ok(cut)
}

/// Without a last line that ends in the middle: it is being written.
fn whole_lines(text: &str) -> &str {
    match text.rsplit_once('\n') {
        Some((whole, last)) if serde_json::from_str::<Line>(last).is_err() => whole,
        _ => text,
    }
}

/// Paths of a folder that are those of another one from now on.
pub(in crate::parse) struct Moved<'a> {
    /// As they stand in JSON.
    from: String,
    to: String,
    folders: (&'a Path, &'a Path),
}

impl<'a> Moved<'a> {
    /// `None` where that cannot be done: the same, or no folder of its own.
    pub(in crate::parse) fn new(from: &'a Path, to: &'a Path) -> Option<Moved<'a>> {
        let escaped = |path: &Path| {
            let quoted = Value::from(path.to_str()?).to_string();
            Some(quoted[1..quoted.len() - 1].trim_end_matches('/').to_string())
        };
        let (old, new) = (escaped(from)?, escaped(to)?);
        // `/` begins every path.
        let is_folder = from.is_absolute() && from.components().count() > 1;
        (old != new && is_folder).then_some(Moved { from: old, to: new, folders: (from, to) })
    }

    pub(in crate::parse) fn line(&self, line: &str) -> String {
        if is_signed(line) {
            return self.with_cwd(line).unwrap_or_else(|| line.to_string());
        }
        self.everywhere(line)
    }

    /// Any other text in JSON.
    pub(in crate::parse) fn text(&self, text: &str) -> String {
        if is_signed(text) { text.to_string() } else { self.everywhere(text) }
    }

    fn everywhere(&self, line: &str) -> String {
        let mut moved = String::with_capacity(line.len());
        let mut rest = line;
        while let Some(at) = rest.find(&self.from) {
            let (before, found) = rest.split_at(at);
            let after = &found[self.from.len()..];
            moved.push_str(before);
            moved.push_str(if is_whole(before, after) { &self.to } else { &self.from });
            rest = after;
        }
        moved.push_str(rest);
        moved
    }

    /// The line with another directory to work in, and not a letter of the rest changed. `None` if it has none in the folder.
    fn with_cwd(&self, line: &str) -> Option<String> {
        let (from, to) = self.folders;
        let read = |line: &str| serde_json::from_str::<Value>(line).ok();
        let mut expected = read(line)?;
        let cwd = expected.get("cwd")?.as_str()?.to_string();
        let inside = Path::new(&cwd).strip_prefix(from).ok()?;
        // Joined with nothing it would end in `/`.
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

/// A thought is signed word by word: changed, no model takes it back.
fn is_signed(text: &str) -> bool {
    text.contains("\"signature\":")
}

/// A path between these texts is no part of another one: `/a/b` is neither the beginning of `/a/bc` nor the end of `/x/a/b`, `~/a/b` or
/// `https://a/b`, and `</a>` is a tag. At the end of a sentence it is itself.
fn is_whole(before: &str, after: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let goes_on = after.strip_prefix('.').unwrap_or(after).starts_with(is_part);
    let begins_before = |c: char| is_part(c) || matches!(c, '/' | '~' | '*' | '}' | ')');
    // The letter of `\n` is no part of a path.
    let is_escape = before.get(..before.len().saturating_sub(1)).is_some_and(|before| before.ends_with('\\'));
    let is_inner = before.ends_with(begins_before) && !is_escape;
    let is_tag = before.ends_with('<') && after.starts_with('>');
    !(goes_on || is_inner || is_tag)
}

/// A part of the branch that counts.
struct Part {
    /// The line it begins with: a prompt, or the mark of a summary.
    head: usize,
    is_turn: bool,
}

struct Tree<'a> {
    lines: Vec<(&'a str, Line)>,
    /// Lines of the main conversation by their ids.
    by_id: HashMap<String, usize>,
    /// The line that begins the part each line belongs to, whatever branch it is on.
    heads: Vec<Option<usize>>,
    /// The parts of the branch that counts, in order.
    parts: Vec<Part>,
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
            true => Ok(Tree::of(lines)),
            false => Err(CutError::Unknown),
        }
    }

    fn of(lines: Vec<(&'a str, Line)>) -> Tree<'a> {
        let id = |line: &Line| line.uuid.clone().filter(|_| !line.is_sidechain);
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
            // A parent that is gone: what was written before is the best guess.
            let is_lost = line.parent_uuid.is_some() && parent.is_none();
            parents[at] = parent.or(before.filter(|_| is_lost));
            before = Some(at);
        }
        let begins: Vec<bool> = lines.iter().map(|(_, line)| begins_part(line)).collect();
        let mut heads: Vec<Option<usize>> = Vec::with_capacity(lines.len());
        for at in 0..lines.len() {
            heads.push(match parents[at] {
                _ if begins[at] => Some(at),
                // It is known already: long turns are not walked again for each of their lines.
                Some(parent) if parent < at => heads[parent],
                Some(_) => up(&parents, at).find(|&at| begins[at]),
                None => None,
            });
        }
        let answers = lines.iter().zip(&heads).filter(|((_, line), _)| line.kind == "assistant");
        let answered: HashSet<usize> = answers.filter_map(|(_, head)| *head).collect();
        let is_turn = |head: usize| {
            said(&lines[head].1).is_some_and(|said| !is_command(&said) || answered.contains(&head))
        };
        let mut seen = HashSet::new();
        let branch = before.into_iter().flat_map(|last| up(&parents, last)).take_while(|at| seen.insert(*at));
        let branch: Vec<usize> = branch.filter(|&at| begins[at]).collect();
        let parts = branch.into_iter().rev().map(|head| Part { head, is_turn: is_turn(head) }).collect();
        Tree { lines, by_id, heads, parts }
    }

    fn turns(&self) -> u64 {
        self.parts.iter().filter(|part| part.is_turn).count() as u64
    }

    /// Where the last turn's first message begins that is not whole: a tool has not come back, or nothing but thoughts is there.
    fn unfinished(&self, kept: &[bool]) -> Option<usize> {
        let last = self.parts.last()?.head;
        let lines = || self.lines.iter().enumerate().skip(last).filter(|(at, _)| kept[*at]);
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

    /// Which lines are there up to the end of a turn.
    fn kept(&self, turn: u64) -> Result<Vec<bool>, CutError> {
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
                if line.uuid.is_some() && !line.is_sidechain {
                    before = is_kept(at);
                    return before;
                }
                let named = [&line.leaf_uuid, &line.message_id].into_iter().flatten();
                before && named.filter_map(|id| self.by_id.get(id)).all(|&at| is_kept(at))
            })
            .collect())
    }
}

/// A line and what it hangs on, upwards. Ends where lines hang on each other in a circle.
fn up(parents: &[Option<usize>], from: usize) -> impl Iterator<Item = usize> {
    let mut steps = parents.len();
    std::iter::successors(Some(from), move |&at| {
        steps = steps.checked_sub(1)?;
        parents[at]
    })
}

fn begins_part(line: &Line) -> bool {
    let is_boundary = line.kind == "system" && line.subtype.as_deref() == Some("compact_boundary");
    !line.is_sidechain && line.uuid.is_some() && (is_boundary || said(line).is_some())
}

/// What the program writes down of a command that it did itself. One that the model was given is answered.
fn is_command(said: &str) -> bool {
    ["<command-", "<local-command-", "<bash-"].iter().any(|tag| said.trim_start().starts_with(tag))
}

/// The line as one of the session `id`. Only the names of the session are another text.
fn renamed(text: &str, line: &Line, id: &str) -> String {
    let quoted = |id: &str| Value::from(id).to_string();
    let mut renamed = text.to_string();
    let names = [("sessionId", &line.session_id), ("session_id", &line.process_session_id)];
    for (key, old) in names.iter().filter_map(|(key, old)| Some((*key, old.as_ref()?))) {
        // Inside of a text its quotes would be escaped: this is the field.
        let (before, after) = (format!("\"{key}\":{}", quoted(old)), format!("\"{key}\":{}", quoted(id)));
        if renamed.contains(&before) {
            renamed = renamed.replace(&before, &after);
        } else if let Ok(Value::Object(mut fields)) = serde_json::from_str(&renamed) {
            fields.insert(key.to_string(), Value::from(id));
            renamed = Value::Object(fields).to_string();
        }
    }
    renamed
}
