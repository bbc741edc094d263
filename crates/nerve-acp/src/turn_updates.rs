//! Updates of the running turn: decides what the client is sent for each event of the node.

use std::collections::VecDeque;
use std::path::PathBuf;

use nerve_api::reply::Section;
use nerve_api::value::SectionKind;
use nerve_types::activity::Activity;
use nerve_types::token_usage::TokenUsage;

use crate::context_size::find_size;
use crate::tool_call;
use crate::types::{ContentBlock, ContextUsage, SessionUpdate, ToolCall, ToolContent, ToolStatus};

/// Length of the beginning of a thought that is compared with the end of the answer, in bytes.
const OVERLAP: usize = 256;
/// Length of the end of an answer that must have been sent, in letters and digits.
const TAIL: usize = 40;

/// The updates of one turn so far.
#[derive(Debug)]
pub(crate) struct TurnUpdates {
    cwd: PathBuf,
    /// Letters and digits of the answer that was sent.
    sent: String,
    /// A part of the answer was sent, with or without letters.
    has_text: bool,
    /// Thoughts that may be a part of the answer: agents report the text before a tool call as both, and the screen may show it later.
    thoughts: VecDeque<String>,
    /// A tool has returned since the first of these thoughts: what was on the screen before it was sent.
    tool_has_returned: bool,
    calls: Vec<Call>,
    usage: TokenUsage,
    /// The context after the last response, if the size for its model is known.
    context: Option<ContextUsage>,
    /// Parts of the answer were lost.
    has_gap: bool,
}

/// A reported tool call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) id: String,
    /// Content at the start: the change of a file.
    pub(crate) content: Vec<ToolContent>,
    has_ended: bool,
}

impl TurnUpdates {
    pub(crate) fn new(cwd: PathBuf) -> TurnUpdates {
        TurnUpdates {
            cwd,
            sent: String::new(),
            has_text: false,
            thoughts: VecDeque::new(),
            tool_has_returned: false,
            calls: Vec::new(),
            usage: TokenUsage::default(),
            context: None,
            has_gap: false,
        }
    }

    /// Adds a part of the answer.
    pub(crate) fn on_chunk(&mut self, chunk: &str) -> Vec<SessionUpdate> {
        if self.has_gap || chunk.is_empty() {
            return Vec::new();
        }
        self.has_text |= !chunk.trim().is_empty();
        self.sent.push_str(&letters(chunk));
        let mut updates = Vec::new();
        while let Some(thought) = self.thoughts.front() {
            let compared = letters(thought);
            let is_sent = self.sent.contains(&compared);
            if !is_sent && overlaps(&self.sent, &compared) {
                break;
            }
            let thought = self.thoughts.pop_front().filter(|_| !is_sent);
            updates.extend(thought.map(SessionUpdate::thought));
        }
        updates.push(SessionUpdate::message(chunk));
        updates
    }

    /// Adds an activity of the agent.
    pub(crate) fn on_activity(&mut self, activity: &Activity) -> Vec<SessionUpdate> {
        match activity {
            Activity::Thought { text, reasoning, .. } => {
                let mut updates = self.release_due();
                self.thoughts.push_back(text.clone());
                updates.extend(reasoning.as_deref().map(SessionUpdate::thought));
                updates
            }
            Activity::ToolStart { name, args, execution, .. } => {
                let mut updates = self.release_due();
                updates.extend(self.start_call(execution, name, args));
                updates
            }
            Activity::ToolOutput { output, execution, status, .. } => {
                self.tool_has_returned = !self.thoughts.is_empty();
                self.end_call(execution, output, tool_call::convert_status(*status)).into_iter().collect()
            }
            Activity::Usage { input, output, cache_read, cache_write, model, .. } => {
                let [input, output, cache_read, cache_write] = [*input, *output, *cache_read, *cache_write];
                let tokens = TokenUsage { input, output, cache_read, cache_write };
                self.usage += tokens;
                let used = tokens.total();
                let size = model.as_deref().and_then(|model| find_size(model, used));
                self.context = size.map(|size| ContextUsage { used, size, cost: None });
                self.context.map(SessionUpdate::UsageUpdate).into_iter().collect()
            }
            Activity::Status { .. }
            | Activity::Log { .. }
            | Activity::Error { .. }
            | Activity::FileEdit { .. } => Vec::new(),
        }
    }

    /// Records that events were lost: the whole answer is sent at the end.
    pub(crate) fn on_gap(&mut self) {
        self.has_gap = true;
    }

    /// Returns the running tool call, if there is exactly one.
    pub(crate) fn running_call(&self) -> Option<&Call> {
        let mut running = self.calls.iter().filter(|call| !call.has_ended);
        running.next().filter(|_| running.next().is_none())
    }

    /// Returns what was not reported of the finished turn: its text if none was streamed, and tool calls that only the response has.
    pub(crate) fn finish(&mut self, sections: &[Section], text: &str, turn: u64) -> Vec<SessionUpdate> {
        let mut updates = self.release();
        for (at, section) in sections.iter().enumerate() {
            if section.kind == SectionKind::ToolCall {
                updates.extend(self.finish_section(section, turn, at + 1));
            }
        }
        for call in self.calls.iter_mut().filter(|call| !call.has_ended) {
            call.has_ended = true;
            let update = tool_call::build_update(&call.id, &[], "", Some(ToolStatus::Failed));
            updates.push(SessionUpdate::ToolCallUpdate(update));
        }
        let text = text.trim_end();
        if self.has_gap && !text.is_empty() && self.has_text {
            updates.push(SessionUpdate::message(format!("\n\nThe complete answer:\n\n{text}")));
        } else if !self.has_text && !text.is_empty() {
            updates.push(SessionUpdate::message(text));
        } else if let Some(rest) = unsent(text, &self.sent) {
            updates.push(SessionUpdate::message(format!("\n\n{rest}")));
        }
        updates
    }

    /// Returns the tokens that activities reported.
    pub(crate) fn usage(&self) -> TokenUsage {
        self.usage
    }

    /// Returns the context after the last response, if its size is known.
    pub(crate) fn context(&self) -> Option<ContextUsage> {
        self.context
    }

    fn start_call(&mut self, id: &str, name: &str, args: &str) -> Vec<SessionUpdate> {
        if self.calls.iter().any(|call| call.id == id) {
            return Vec::new();
        }
        let call = tool_call::build_call(id, name, args, &self.cwd);
        self.calls.push(Call { id: id.to_string(), content: call.content.clone(), has_ended: false });
        let plan = tool_call::read_plan(name, args).map(|entries| SessionUpdate::Plan { entries });
        [SessionUpdate::ToolCall(call)].into_iter().chain(plan).collect()
    }

    /// Reports the output of a call; `None` for one of an earlier turn.
    fn end_call(&mut self, id: &str, output: &str, status: ToolStatus) -> Option<SessionUpdate> {
        let call = self.calls.iter_mut().find(|call| call.id == id)?;
        call.has_ended |= matches!(status, ToolStatus::Completed | ToolStatus::Failed);
        let update = tool_call::build_update(id, &call.content, output, Some(status));
        Some(SessionUpdate::ToolCallUpdate(update))
    }

    fn finish_section(&mut self, section: &Section, turn: u64, nth: usize) -> Vec<SessionUpdate> {
        let metadata = |key: &str| section.metadata.get(key).map_or("", String::as_str);
        // The ids that a node gives to the calls on a screen.
        let id = match metadata("id") {
            "" => format!("turn-{turn}-{nth}"),
            id => id.to_string(),
        };
        if self.calls.iter().any(|call| call.id == id && call.has_ended) {
            return Vec::new();
        }
        let mut updates = self.start_call(&id, metadata("tool"), metadata("args"));
        let status = tool_call::convert_section_status(metadata("status"));
        updates.extend(self.end_call(&id, &section.content, status));
        updates
    }

    /// Returns the held thoughts if they cannot become a part of the answer any more.
    fn release_due(&mut self) -> Vec<SessionUpdate> {
        if self.tool_has_returned { self.release() } else { Vec::new() }
    }

    /// Returns the held thoughts that are no part of the answer.
    fn release(&mut self) -> Vec<SessionUpdate> {
        self.tool_has_returned = false;
        let thoughts = std::mem::take(&mut self.thoughts).into_iter();
        thoughts
            .filter(|thought| !self.sent.contains(&letters(thought)))
            .map(SessionUpdate::thought)
            .collect()
    }
}

/// Returns the letters and digits of a text: a screen wraps lines and shows no marks of Markdown.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// Returns true if `text` ends with the beginning of `next`.
fn overlaps(text: &str, next: &str) -> bool {
    let ends = next.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= OVERLAP);
    ends.into_iter().any(|end| text.ends_with(&next[..end]))
}

/// Returns the rest of an answer whose end was not sent, from the line on that differs. A screen that is read while the agent draws may
/// show a tool call as text, after which nothing is streamed. `sent`: letters and digits of what was sent.
fn unsent<'a>(text: &'a str, sent: &str) -> Option<&'a str> {
    let all = letters(text);
    let tail: String = all.chars().skip(all.chars().count().saturating_sub(TAIL)).collect();
    if sent.contains(&tail) {
        return None;
    }
    let mut sent = sent.chars();
    let differs = |c: char| c.is_alphanumeric() && sent.next() != Some(c);
    let at = text.find(differs)?;
    let line = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    Some(&text[line..])
}

/// Converts a section of an earlier turn.
pub(crate) fn section_updates(section: &Section, id: &str, cwd: &std::path::Path) -> Vec<SessionUpdate> {
    let metadata = |key: &str| section.metadata.get(key).map_or("", String::as_str);
    match section.kind {
        SectionKind::Text | SectionKind::Error => vec![SessionUpdate::message(section.content.clone())],
        SectionKind::Thinking => vec![SessionUpdate::thought(section.content.clone())],
        SectionKind::ToolCall => {
            let status = tool_call::convert_section_status(metadata("status"));
            let call = tool_call::build_call(id, metadata("tool"), metadata("args"), cwd);
            let ToolCall { status, content, .. } =
                tool_call::build_update(id, &call.content, &section.content, Some(status));
            vec![SessionUpdate::ToolCall(ToolCall { status, content, ..call })]
        }
        SectionKind::Interrupted | SectionKind::Unknown => Vec::new(),
    }
}

/// Returns the update with a prompt of an earlier turn.
pub(crate) fn user_message(prompt: &str) -> SessionUpdate {
    SessionUpdate::UserMessageChunk { content: ContentBlock::text(prompt) }
}

#[cfg(test)]
mod tests {
    use nerve_types::activity::{Status, TsMs};

    use super::*;

    fn updates() -> TurnUpdates {
        TurnUpdates::new(PathBuf::from("/shop"))
    }

    fn thought(text: &str) -> Activity {
        Activity::Thought { text: text.to_string(), reasoning: None, at: TsMs(0) }
    }

    fn start(id: &str) -> Activity {
        let (name, args, execution) = ("Bash".to_string(), r#"{"command":"ls"}"#.to_string(), id.to_string());
        Activity::ToolStart { name, args, execution, status: Status::Running, at: TsMs(0) }
    }

    fn output(id: &str, status: Status) -> Activity {
        let (name, output, execution) = ("Bash".to_string(), "out".to_string(), id.to_string());
        Activity::ToolOutput { name, output, execution, status, at: TsMs(0) }
    }

    #[test]
    fn announcement_is_sent_once() {
        // The screen shows it before the transcript has it.
        let mut turn = updates();
        assert_eq!(turn.on_chunk("I will run **it**.\n"), [SessionUpdate::message("I will run **it**.\n")]);
        assert_eq!(turn.on_activity(&thought("I will run it.")), []);
        assert_eq!(turn.finish(&[], "", 1), []);
        // A quick tool ends before the screen is read.
        let mut turn = updates();
        turn.on_activity(&thought("I will run it."));
        turn.on_activity(&start("a"));
        turn.on_activity(&output("a", Status::Completed));
        assert_eq!(turn.on_chunk("I will run it."), [SessionUpdate::message("I will run it.")]);
        assert_eq!(turn.finish(&[], "", 1), []);
        // The transcript has it first, and the screen shows it in two parts.
        let mut turn = updates();
        assert_eq!(turn.on_activity(&thought("I will run it.")), []);
        assert_eq!(turn.on_chunk("I will"), [SessionUpdate::message("I will")]);
        assert_eq!(turn.on_chunk(" run it."), [SessionUpdate::message(" run it.")]);
        assert_eq!(turn.finish(&[], "", 1), []);
    }

    #[test]
    fn thought_precedes_other_text() {
        let mut turn = updates();
        assert_eq!(turn.on_activity(&thought("Hmm, primes.")), []);
        let expected = [SessionUpdate::thought("Hmm, primes."), SessionUpdate::message("Yes.")];
        assert_eq!(turn.on_chunk("Yes."), expected);
    }

    #[test]
    fn thought_before_a_tool_precedes_the_next_tool() {
        let mut turn = updates();
        turn.on_activity(&thought("First a."));
        turn.on_activity(&thought("Then b."));
        turn.on_activity(&start("a"));
        turn.on_activity(&output("a", Status::Completed));
        let next = turn.on_activity(&start("b"));
        assert_eq!(next[..2], [SessionUpdate::thought("First a."), SessionUpdate::thought("Then b.")]);
        assert_eq!(next.len(), 3);
    }

    #[test]
    fn tool_call_starts_and_ends_once() {
        let mut turn = updates();
        let started = turn.on_activity(&start("a"));
        assert!(matches!(&started[..], [SessionUpdate::ToolCall(call)] if call.tool_call_id == "a"));
        assert_eq!(turn.running_call().map(|call| call.id.as_str()), Some("a"));
        assert_eq!(turn.on_activity(&start("a")), []);
        let ended = turn.on_activity(&output("a", Status::Completed));
        let expected = tool_call::build_update("a", &[], "out", Some(ToolStatus::Completed));
        assert_eq!(ended, [SessionUpdate::ToolCallUpdate(expected)]);
        assert!(turn.running_call().is_none());
        let section = Section::new(SectionKind::ToolCall, "out").with("id", "a").with("tool", "Bash");
        assert_eq!(turn.finish(&[section], "", 1), []);
        // The output of a call of an earlier turn.
        assert_eq!(turn.on_activity(&output("unknown", Status::Completed)), []);
    }

    #[test]
    fn no_call_of_several_is_the_running_one() {
        let mut turn = updates();
        turn.on_activity(&start("a"));
        turn.on_activity(&start("b"));
        assert!(turn.running_call().is_none());
        turn.on_activity(&output("a", Status::Completed));
        assert_eq!(turn.running_call().map(|call| call.id.as_str()), Some("b"));
    }

    #[test]
    fn output_keeps_the_diff() {
        let mut turn = updates();
        let args = r#"{"file_path":"a","old_string":"1","new_string":"2"}"#.to_string();
        let (name, execution) = ("Edit".to_string(), "e".to_string());
        let started = Activity::ToolStart { name, args, execution, status: Status::Running, at: TsMs(0) };
        let [SessionUpdate::ToolCall(call)] = &turn.on_activity(&started)[..] else { panic!() };
        let ended = turn.on_activity(&output("e", Status::Completed));
        let [SessionUpdate::ToolCallUpdate(update)] = &ended[..] else { panic!("{ended:?}") };
        assert!(matches!(call.content[..], [ToolContent::Diff { .. }]), "{call:?}");
        assert_eq!(update.content[..1], call.content[..]);
        assert_eq!(update.content[1], ToolContent::Content { content: ContentBlock::text("out") });
    }

    #[test]
    fn answer_without_letters_is_sent_once() {
        let mut turn = updates();
        assert_eq!(turn.on_chunk("👍"), [SessionUpdate::message("👍")]);
        assert_eq!(turn.finish(&[], "👍", 1), []);
    }

    #[test]
    fn response_completes_what_events_lacked() {
        let mut turn = updates();
        turn.on_activity(&start("open"));
        let section =
            Section::new(SectionKind::ToolCall, "late").with("tool", "Read").with("status", "error");
        let rest = turn.finish(&[section], "The answer.\n", 3);
        let ids: Vec<&str> = rest
            .iter()
            .filter_map(|update| match update {
                SessionUpdate::ToolCall(call) | SessionUpdate::ToolCallUpdate(call) => {
                    Some(call.tool_call_id.as_str())
                }
                _ => None,
            })
            .collect();
        assert_eq!(ids, ["turn-3-1", "turn-3-1", "open"]);
        assert_eq!(rest.last(), Some(&SessionUpdate::message("The answer.")));
    }

    #[test]
    fn whole_answer_follows_a_gap() {
        let mut turn = updates();
        turn.on_chunk("one");
        turn.on_gap();
        assert_eq!(turn.on_chunk("three"), []);
        let rest = turn.finish(&[], "one two three", 1);
        let [SessionUpdate::AgentMessageChunk { content: ContentBlock::Text { text }, .. }] = &rest[..]
        else {
            panic!("{rest:?}");
        };
        assert!(text.ends_with("one two three"), "{text}");
    }

    #[test]
    fn end_of_the_answer_is_sent_if_the_stream_broke_off() {
        let mut turn = updates();
        turn.on_chunk("I will run it.\n\nBash(touch a)");
        let rest = turn.finish(&[], "I will run it.\n\nThe tool said: **done**", 1);
        assert_eq!(rest, [SessionUpdate::message("\n\nThe tool said: **done**")]);
        // Other words in the middle are those of the screen.
        let mut turn = updates();
        turn.on_chunk("See docs, and then go to the end of this long line of words that follow.");
        let text = "See [docs](http://x), and then go to the end of this long line of words that follow.";
        assert_eq!(turn.finish(&[], text, 1), []);
    }

    #[test]
    fn tokens_of_all_responses_are_added() {
        let usage = |model: Option<&str>| Activity::Usage {
            input: 10,
            output: 5,
            cache_read: 3,
            cache_write: 2,
            model: model.map(str::to_string),
            at: TsMs(0),
        };
        let mut turn = updates();
        let context = ContextUsage { used: 20, size: 1_000_000, cost: None };
        let reported = turn.on_activity(&usage(Some("claude-opus-5")));
        assert_eq!(reported, [SessionUpdate::UsageUpdate(context)]);
        assert_eq!(turn.context(), Some(context));
        assert_eq!(turn.on_activity(&usage(None)), [], "the size of the context is not known");
        assert_eq!(turn.context(), None);
        let usage = turn.usage();
        assert_eq!((usage.total(), usage.input, usage.cache_read), (40, 20, 6));
    }
}
