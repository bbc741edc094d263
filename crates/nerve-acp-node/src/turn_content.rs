//! The content of a running turn, from the updates of the agent. No I/O, no clock.

use std::collections::HashMap;

use nerve_acp_protocol::types::{ContentBlock, PlanEntry, SessionUpdate, ToolCall, ToolContent, ToolStatus};
use nerve_api::reply::Section;
use nerve_api::value::SectionKind;
use nerve_types::activity::{Activity, Status, TsMs};
use serde_json::{Value, json};

/// Maximum size of the content of a turn, in bytes.
const MAX_BYTES: usize = 8 << 20;
/// Size of a section in addition to its texts, in bytes.
const SECTION_BYTES: usize = 128;
/// Name of the tool that stands for a plan: that of Codex, which other parts of nerve know.
const PLAN_TOOL: &str = "update_plan";

/// An effect of an update.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// A part of the answer was added.
    Chunk(String),
    /// The agent did something.
    Activity(Activity),
}

/// The content of a turn so far.
#[derive(Debug, Default)]
pub(crate) struct TurnContent {
    pub(crate) sections: Vec<Section>,
    /// The agent was seen working.
    pub(crate) has_started: bool,
    /// Content was left out, because there was too much.
    pub(crate) is_truncated: bool,
    bytes: usize,
    /// Positions of tool calls by id.
    calls: HashMap<String, usize>,
    /// Position of the plan.
    plan: Option<usize>,
    plans: usize,
    /// Id of the message that the last text belongs to, if the agent numbers its messages.
    message: Option<String>,
    /// Position of a thought that is not reported yet, because it may grow.
    thought: Option<usize>,
}

impl TurnContent {
    /// Adds an update. `at`: its time.
    pub(crate) fn on_update(&mut self, update: SessionUpdate, at: TsMs) -> Vec<Effect> {
        let mut effects = Vec::new();
        match update {
            SessionUpdate::AgentMessageChunk { content, message_id } => {
                effects.extend(self.flush_thought(at));
                effects.extend(block_text(content).and_then(|text| self.add_text(&text, message_id)));
            }
            SessionUpdate::AgentThoughtChunk { content } => {
                if let Some(text) = block_text(content) {
                    self.add_thought(&text);
                }
            }
            SessionUpdate::ToolCall(call) | SessionUpdate::ToolCallUpdate(call) => {
                effects.extend(self.flush_thought(at));
                effects.extend(self.update_call(&call, at).into_iter().map(Effect::Activity));
            }
            SessionUpdate::Plan { entries } => {
                effects.extend(self.flush_thought(at));
                effects.extend(self.set_plan(&entries, at).into_iter().map(Effect::Activity));
            }
            SessionUpdate::UserMessageChunk { .. }
            | SessionUpdate::Notice { .. }
            | SessionUpdate::UsageUpdate(_)
            | SessionUpdate::Other => return effects,
        }
        self.has_started = true;
        effects
    }

    /// Reports the last thought, which does not grow any more.
    pub(crate) fn flush_thought(&mut self, at: TsMs) -> Option<Effect> {
        let text = self.sections.get(self.thought.take()?)?.content.clone();
        Some(Effect::Activity(Activity::Thought { text, reasoning: None, at }))
    }

    /// Returns the text of the answer.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for section in self.sections.iter().filter(|section| section.kind == SectionKind::Text) {
            text.push_str(separator(&text));
            text.push_str(&section.content);
        }
        text
    }

    /// Returns a property of a tool call: `label` is its title, `args` are its arguments.
    pub(crate) fn call_property(&self, id: &str, name: &str) -> Option<&str> {
        let section = self.sections.get(*self.calls.get(id)?)?;
        section.metadata.get(name).map(String::as_str)
    }

    /// Counts bytes. Returns false if there is no room for them.
    fn reserve(&mut self, bytes: usize) -> bool {
        // After a gap, nothing more is added.
        let has_room = !self.is_truncated && self.bytes + bytes <= MAX_BYTES;
        match has_room {
            true => self.bytes += bytes,
            false => self.is_truncated = true,
        }
        has_room
    }

    /// Counts bytes that replace others. Returns false if there is no room for them.
    fn replace(&mut self, added: usize, freed: usize) -> bool {
        let has_room = self.reserve(added.saturating_sub(freed));
        self.bytes -= freed.saturating_sub(added).min(self.bytes);
        has_room
    }

    /// Adds a text to the last section if it has this kind, otherwise or for a new message a section. Returns the position, and true if it
    /// is new.
    fn append(&mut self, kind: SectionKind, text: &str, is_new_message: bool) -> Option<(usize, bool)> {
        if !self.reserve(text.len()) {
            return None;
        }
        let last = self.sections.last_mut().filter(|last| last.kind == kind && !is_new_message);
        if let Some(last) = last {
            last.content.push_str(text);
            return Some((self.sections.len() - 1, false));
        }
        self.push(Section::new(kind, text)).map(|at| (at, true))
    }

    fn push(&mut self, section: Section) -> Option<usize> {
        self.reserve(SECTION_BYTES).then(|| {
            self.sections.push(section);
            self.sections.len() - 1
        })
    }

    /// Adds a part of the answer. The chunks together are the text of the answer.
    fn add_text(&mut self, text: &str, message: Option<String>) -> Option<Effect> {
        let earlier = self.sections.iter().rfind(|section| section.kind == SectionKind::Text);
        let separator = earlier.map_or("", |section| separator(&section.content));
        let is_new_message = self.message != message;
        self.message = message;
        let (_, is_new) = self.append(SectionKind::Text, text, is_new_message)?;
        let separator = if is_new { separator } else { "" };
        Some(Effect::Chunk(format!("{separator}{text}")))
    }

    fn add_thought(&mut self, text: &str) {
        if let Some((at, _)) = self.append(SectionKind::Thinking, text, false) {
            self.thought = Some(at);
        }
    }

    /// Adds or changes a tool call. Absent fields stay as they are.
    fn update_call(&mut self, call: &ToolCall, at: TsMs) -> Vec<Activity> {
        let Some((position, is_new)) = self.find_call(&call.tool_call_id) else { return Vec::new() };
        let (args, output) = (args_text(&call.raw_input), output_text(call));
        let section = &self.sections[position];
        let changes = [
            (call.title.as_ref(), metadata(section, "label").len()),
            (args.as_ref(), metadata(section, "args").len()),
            (output.as_ref(), section.content.len()),
        ];
        let changes = changes.iter().filter_map(|(new, old)| Some((new.as_ref()?.len(), *old)));
        let (added, freed) = changes.fold((0, 0), |(added, freed), (new, old)| (added + new, freed + old));
        if !self.replace(added, freed) {
            return Vec::new();
        }
        let section = &mut self.sections[position];
        let had_ended = has_ended(section);
        let unnamed = || is_new.then(|| call.title.clone().unwrap_or_else(|| "tool".to_string()));
        let fields = [
            ("label", call.title.clone()),
            ("tool", tool_name(call).or_else(unnamed)),
            ("args", args),
            ("status", call.status.map(|status| status_name(status).to_string())),
        ];
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?)));
        section.metadata.extend(fields);
        if let Some(output) = output {
            section.content = output;
        }
        let start = is_new.then(|| started(section, at));
        let end = (!had_ended && has_ended(section)).then(|| ended(section, at));
        start.into_iter().chain(end).collect()
    }

    /// Returns the position of a tool call, and true if it is new. `None` if there is no room for a new one.
    fn find_call(&mut self, id: &str) -> Option<(usize, bool)> {
        if let Some(position) = self.calls.get(id) {
            return Some((*position, false));
        }
        let section = Section::new(SectionKind::ToolCall, "").with("id", id).with("status", "pending");
        let position = self.push(section)?;
        self.calls.insert(id.to_string(), position);
        Some((position, true))
    }

    /// Replaces the plan. It is one section, and each version is a call of its own for observers.
    fn set_plan(&mut self, entries: &[PlanEntry], at: TsMs) -> Vec<Activity> {
        let steps: Vec<Value> =
            entries.iter().map(|entry| json!({ "step": entry.content, "status": entry.status })).collect();
        let args = json!({ "plan": steps }).to_string();
        let old = self.plan.map_or(0, |position| metadata(&self.sections[position], "args").len());
        if !self.replace(args.len(), old) {
            return Vec::new();
        }
        self.plans += 1;
        let section = Section::new(SectionKind::ToolCall, "")
            .with("id", format!("plan-{}", self.plans))
            .with("tool", PLAN_TOOL)
            .with("args", args)
            .with("status", "ok");
        let activities = vec![started(&section, at), ended(&section, at)];
        match self.plan {
            Some(position) => self.sections[position] = section,
            None => self.plan = self.push(section),
        }
        activities
    }
}

/// Returns what separates two texts: an empty line.
fn separator(before: &str) -> &'static str {
    match before {
        "" => "",
        text if text.ends_with("\n\n") => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    }
}

/// Returns the text of a content block; `None` for an image or another kind.
fn block_text(content: ContentBlock) -> Option<String> {
    match content {
        ContentBlock::Text { text } => Some(text).filter(|text| !text.is_empty()),
        ContentBlock::ResourceLink { uri, .. } => Some(uri),
        ContentBlock::Unsupported => None,
    }
}

/// Returns the arguments of a call as JSON; text as it is. `None` if the update has none.
fn args_text(raw_input: &Value) -> Option<String> {
    match raw_input {
        Value::Null => None,
        Value::Object(fields) if fields.is_empty() => None,
        Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    }
}

/// Returns the output of a call: its content, otherwise its raw output. `None` if the update has neither.
pub(crate) fn output_text(call: &ToolCall) -> Option<String> {
    let parts: Vec<String> = call.content.iter().filter_map(content_text).collect();
    if !parts.is_empty() {
        return Some(parts.join("\n"));
    }
    match &call.raw_output {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        value => Some(value["output"].as_str().map_or_else(|| value.to_string(), str::to_string)),
    }
}

fn content_text(content: &ToolContent) -> Option<String> {
    match content {
        ToolContent::Content { content } => block_text(content.clone()),
        ToolContent::Diff { path, old_text, new_text } => {
            let mark = |mark: char, text: &str| -> Vec<String> {
                text.lines().map(|line| format!("{mark}{line}")).collect()
            };
            let mut lines = vec![path.display().to_string()];
            lines.extend(mark('-', old_text.as_deref().unwrap_or_default()));
            lines.extend(mark('+', new_text));
            Some(lines.join("\n"))
        }
        ToolContent::Other => None,
    }
}

/// Returns the name of a call's tool, otherwise its kind, or its title if the kind says nothing. `None` if the update has neither.
fn tool_name(call: &ToolCall) -> Option<String> {
    let kind = call.kind.as_deref().filter(|kind| *kind != "other");
    let title = call.title.as_deref().filter(|_| call.kind.is_some());
    call.name.as_deref().or(kind).or(title).map(str::to_string)
}

fn status_name(status: ToolStatus) -> &'static str {
    match status {
        ToolStatus::Pending => "pending",
        ToolStatus::InProgress => "running",
        ToolStatus::Completed => "ok",
        ToolStatus::Failed => "error",
    }
}

fn metadata(section: &Section, key: &str) -> String {
    section.metadata.get(key).cloned().unwrap_or_default()
}

fn has_ended(section: &Section) -> bool {
    matches!(metadata(section, "status").as_str(), "ok" | "error")
}

fn started(section: &Section, at: TsMs) -> Activity {
    Activity::ToolStart {
        name: metadata(section, "tool"),
        args: metadata(section, "args"),
        execution: metadata(section, "id"),
        status: Status::Running,
        at,
    }
}

fn ended(section: &Section, at: TsMs) -> Activity {
    let is_ok = metadata(section, "status") == "ok";
    Activity::ToolOutput {
        name: metadata(section, "tool"),
        output: section.content.clone(),
        execution: metadata(section, "id"),
        status: if is_ok { Status::Completed } else { Status::Failed },
        at,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::from_value;

    use super::*;

    const AT: TsMs = TsMs(7);

    fn apply(content: &mut TurnContent, updates: &[Value]) -> Vec<Effect> {
        let parse = |update: &Value| from_value::<SessionUpdate>(update.clone()).unwrap();
        updates.iter().flat_map(|update| content.on_update(parse(update), AT)).collect()
    }

    fn message(text: &str) -> Value {
        json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } })
    }

    fn thought(text: &str) -> Value {
        json!({ "sessionUpdate": "agent_thought_chunk", "content": { "type": "text", "text": text } })
    }

    fn chunks(effects: &[Effect]) -> String {
        let chunk = |effect: &Effect| match effect {
            Effect::Chunk(text) => Some(text.clone()),
            Effect::Activity(_) => None,
        };
        effects.iter().filter_map(chunk).collect()
    }

    #[test]
    fn chunks_together_are_the_text() {
        let mut content = TurnContent::default();
        let call =
            json!({ "sessionUpdate": "tool_call", "toolCallId": "a", "title": "ls", "kind": "execute" });
        let effects = apply(&mut content, &[message("one "), message("two"), call, message("three")]);
        assert_eq!(content.text(), "one two\n\nthree");
        assert_eq!(chunks(&effects), content.text());
        let kinds: Vec<SectionKind> = content.sections.iter().map(|section| section.kind).collect();
        assert_eq!(kinds, [SectionKind::Text, SectionKind::ToolCall, SectionKind::Text]);
    }

    #[test]
    fn messages_of_an_agent_are_apart() {
        let mut content = TurnContent::default();
        let numbered = |id: &str, text: &str| {
            let content = json!({ "type": "text", "text": text });
            json!({ "sessionUpdate": "agent_message_chunk", "messageId": id, "content": content })
        };
        let updates = [
            message("warning\n\n"),
            numbered("1", "a"),
            numbered("1", "b"),
            numbered("2", "c\n"),
            message("d"),
        ];
        let effects = apply(&mut content, &updates);
        assert_eq!(content.text(), "warning\n\nab\n\nc\n\nd");
        assert_eq!(chunks(&effects), content.text());
    }

    #[test]
    fn thought_is_one_section_and_reported_once() {
        let mut content = TurnContent::default();
        let effects = apply(&mut content, &[thought("a"), thought("b"), message("c")]);
        let expected = Activity::Thought { text: "ab".to_string(), reasoning: None, at: AT };
        assert_eq!(effects, [Effect::Activity(expected), Effect::Chunk("c".to_string())]);
        assert_eq!(content.sections[0], Section::new(SectionKind::Thinking, "ab"));
        assert_eq!(content.flush_thought(AT), None);
    }

    #[test]
    fn updates_change_only_their_fields_of_a_call() {
        let mut content = TurnContent::default();
        let start = json!({
            "sessionUpdate": "tool_call", "toolCallId": "a", "title": "touch x", "kind": "execute", "status": "pending",
            "rawInput": { "command": "touch x" }, "content": null,
        });
        let end = json!({
            "sessionUpdate": "tool_call_update", "toolCallId": "a", "status": "completed",
            "content": [
                { "type": "content", "content": { "type": "text", "text": "done" } },
                { "type": "diff", "path": "/x", "oldText": "1", "newText": "2" },
                { "type": "terminal", "terminalId": "t" },
            ],
        });
        let effects = apply(&mut content, &[start, end.clone(), end]);
        let expected = Section::new(SectionKind::ToolCall, "done\n/x\n-1\n+2")
            .with("id", "a")
            .with("label", "touch x")
            .with("tool", "execute")
            .with("args", r#"{"command":"touch x"}"#)
            .with("status", "ok");
        assert_eq!(content.sections, [expected]);
        assert_eq!(content.call_property("a", "label"), Some("touch x"));
        let [
            Effect::Activity(Activity::ToolStart { .. }),
            Effect::Activity(Activity::ToolOutput { status, .. }),
        ] = &effects[..]
        else {
            panic!("{effects:?}");
        };
        assert_eq!(*status, Status::Completed);
    }

    #[test]
    fn output_falls_back_to_the_raw_output() {
        let call = |raw: Value| ToolCall { raw_output: raw, ..ToolCall::default() };
        assert_eq!(output_text(&call(Value::Null)), None);
        assert_eq!(output_text(&call(json!("x"))).as_deref(), Some("x"));
        assert_eq!(output_text(&call(json!({ "output": "y", "metadata": {} }))).as_deref(), Some("y"));
        assert_eq!(output_text(&call(json!({ "a": 1 }))).as_deref(), Some(r#"{"a":1}"#));
    }

    #[test]
    fn last_plan_is_one_section() {
        let mut content = TurnContent::default();
        let plan = |status: &str| json!({ "sessionUpdate": "plan", "entries": [{ "content": "a", "priority": "high", "status": status }] });
        let effects = apply(&mut content, &[plan("pending"), message("x"), plan("completed")]);
        assert_eq!(content.sections.len(), 2);
        let args: Value = serde_json::from_str(&metadata(&content.sections[0], "args")).unwrap();
        assert_eq!(args, json!({ "plan": [{ "step": "a", "status": "completed" }] }));
        assert_eq!(effects.len(), 5);
    }

    #[test]
    fn unknown_updates_are_no_work() {
        let mut content = TurnContent::default();
        let commands = json!({ "sessionUpdate": "available_commands_update", "availableCommands": [] });
        assert_eq!(apply(&mut content, &[commands]), []);
        assert!(!content.has_started);
        let image = json!({ "type": "image", "data": "", "mimeType": "image/png" });
        let image = json!({ "sessionUpdate": "agent_message_chunk", "content": image });
        assert_eq!(apply(&mut content, &[image]), []);
        assert!(content.has_started);
    }

    #[test]
    fn growing_output_of_a_call_counts_once() {
        let mut content = TurnContent::default();
        for part in 1..=64 {
            let output = "x".repeat(part * (MAX_BYTES / 128));
            let update =
                json!({ "sessionUpdate": "tool_call_update", "toolCallId": "a", "rawOutput": output });
            apply(&mut content, &[update]);
        }
        assert!(!content.is_truncated);
        assert_eq!(content.sections[0].content.len(), MAX_BYTES / 2);
    }

    #[test]
    fn content_is_bounded() {
        let mut content = TurnContent::default();
        let half = "x".repeat(MAX_BYTES / 2);
        let effects = apply(&mut content, &[message(&half), message(&half), message("end")]);
        assert!(content.is_truncated);
        assert_eq!(content.text(), half);
        assert_eq!(chunks(&effects), half);
    }
}
