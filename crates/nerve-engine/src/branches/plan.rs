//! Plans a branch: origin, files, conversation and node.

use std::path::PathBuf;

use nerve_host::end_snapshot::END;
use nerve_node::error::EngineError;
use nerve_record::branches::CONVERSATIONS;
use nerve_record::meta::Meta;
use nerve_record::snapshots::SnapshotLine;
use nerve_transcript::recorded::branch::{Branch, Conversation, RecordedSession};
use nerve_types::name::DEFAULT_SERVER;
use nerve_types::text;
use nerve_types::{Size, TsNs};

use super::environment::{NodeOverrides, RecordedNode};
use super::files::{FilePlan, FileSource, plan_files, resolve_links};
use super::options::BranchOptions;
use super::origin::Origin;
use crate::data_dirs::DataDirs;
use crate::transcripts::{command_of, load_profiles, profile_of, recorded_session};

/// Maximum characters of a command in an error message.
const COMMAND_WIDTH: usize = 40;

/// The point of a session from which a branch continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchPoint {
    /// The snapshot with this number.
    Snapshot(u64),
    /// The end of the session.
    End,
}

/// The name of a branch's node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeName {
    /// The requested name.
    Requested(String),
    /// An unused name, derived from this one.
    DerivedFrom(String),
}

/// An executable plan of a branch.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The recording, or the placeholder path of an unrecorded session.
    pub recording: PathBuf,
    /// False for an unrecorded session.
    pub is_recorded: bool,
    /// The snapshot; `None` at the end of a recording without an end snapshot.
    pub snapshot: Option<SnapshotLine>,
    /// The files.
    pub files: FileSource,
    /// Working directory of the agent.
    pub cwd: PathBuf,
    /// The conversation and the command.
    pub branch: Branch,
    /// Name of the agent's profile.
    pub profile: String,
    /// Size of the terminal.
    pub size: Size,
    /// Name of the node.
    pub node: NodeName,
    /// Name of the server.
    pub server: String,
    /// Session of the node.
    pub session: Option<String>,
    /// Environment and proxy of the node, as requested.
    pub overrides: NodeOverrides,
    /// The recorded node.
    pub(super) recorded: RecordedNode,
    pub(super) dirs: DataDirs,
    inputs: PlanInputs,
}

/// The inputs of a plan, for replanning.
#[derive(Debug, Clone)]
struct PlanInputs {
    origin: Origin,
    at: BranchPoint,
    options: BranchOptions,
}

impl Plan {
    /// Plans again after the folder or branch has been taken. Blocks and fails like [`plan_branch`].
    pub(super) fn replan(self) -> Result<Plan, EngineError> {
        let PlanInputs { origin, at, options } = self.inputs;
        plan_branch(&origin, at, options, &self.dirs)
    }

    /// Describes the new node's conversation.
    pub fn conversation_text(&self) -> String {
        match &self.branch.conversation {
            Conversation::Cut { turns, of, from, to } => {
                format!("{}: {} copied to {}", turn_count(*turns, *of), from.display(), to.display())
            }
            Conversation::Imported { turns, of, from, to } => {
                format!("{}: {from} imported as {to}", turn_count(*turns, *of))
            }
            Conversation::Whole { id } => {
                let later = match self.snapshot.as_ref().is_some_and(|line| line.kind != END) {
                    true => ", including those after the snapshot: this agent's conversations cannot be cut",
                    false => "",
                };
                format!("a fork of {id} with all its messages{later}")
            }
            Conversation::New(why) => format!("a new one: {why}"),
        }
    }

    /// Describes the new node's conversation unless it ends exactly at the snapshot.
    pub fn conversation_difference(&self) -> Option<String> {
        let is_cut =
            matches!(self.branch.conversation, Conversation::Cut { .. } | Conversation::Imported { .. });
        (!is_cut).then(|| self.conversation_text())
    }
}

fn turn_count(turns: u64, of: u64) -> String {
    let some = if turns == of { "all" } else { "the first" };
    format!("{some} {turns} of {of} turns")
}

impl BranchPoint {
    /// Parses a snapshot number, a label or `end`.
    ///
    /// # Errors
    /// NotFound, InvalidRequest: no snapshot or more than one has the label.
    pub fn parse(text: &str, origin: &Origin) -> Result<BranchPoint, EngineError> {
        if text == END {
            return Ok(BranchPoint::End);
        }
        if let Ok(id) = text.parse() {
            return Ok(BranchPoint::Snapshot(id));
        }
        let lines = &origin.snapshots;
        let labelled: Vec<u64> =
            lines.iter().filter(|line| line.label.as_deref() == Some(text)).map(|line| line.id).collect();
        match labelled[..] {
            [id] => Ok(BranchPoint::Snapshot(id)),
            [] => Err(no_snapshot_error(&format!("with label '{text}'"), lines)),
            _ => {
                let ids: Vec<String> = labelled.iter().map(ToString::to_string).collect();
                let message = format!("label '{text}' is ambiguous: snapshots {}", ids.join(", "));
                Err(EngineError::invalid_request(message).hint("give the snapshot's number"))
            }
        }
    }
}

/// Plans a branch of a session. Blocks: reads the agent's transcript and runs git.
///
/// # Errors
/// NotFound, InvalidRequest, Process: the snapshot, its files or the agent is missing.
pub fn plan_branch(
    origin: &Origin,
    at: BranchPoint,
    options: BranchOptions,
    dirs: &DataDirs,
) -> Result<Plan, EngineError> {
    let server = options.server.clone();
    let server = if server.is_empty() { DEFAULT_SERVER.to_string() } else { server };
    let meta = &origin.meta;
    let snapshot = snapshot_at(origin, at, dirs)?;
    let command = command_of(meta);
    let profile = profile_of(meta, &load_profiles(dirs)).filter(|profile| profile.session.is_some());
    let Some(profile) = profile.filter(|_| !command.is_empty()) else {
        let what = match command.is_empty() {
            true => "cannot branch: the recorded program is unknown".to_string(),
            false => {
                let command = shorten(&shell_words::join(command));
                format!("cannot branch: '{command}' is not a known agent")
            }
        };
        return Err(EngineError::invalid_request(what)
            .hint("list the profiles: nerve profile list; only agents with conversations can be branched"));
    };
    let recorded_dir = meta
        .cwd
        .clone()
        .ok_or_else(|| EngineError::process("cannot branch: the recorded directory is unknown"))?;
    let recorded_dir = resolve_links(&recorded_dir);
    let FilePlan { files, cwd, moved } = plan_files(snapshot.as_ref(), meta, &recorded_dir, dirs, &options)?;
    let recorded = RecordedSession {
        cwd: &recorded_dir,
        copies: &dirs.branches.join(CONVERSATIONS),
        ..recorded_session(meta, &profile)
    };
    let branch_time = snapshot.as_ref().map(|line| TsNs(line.ts_ns)).or(meta.ended_at);
    let moved = moved.as_ref().map(|(from, to)| (from.as_path(), to.as_path()));
    let branch = Branch::plan(&recorded, branch_time, &cwd, moved);
    let derived = || NodeName::DerivedFrom(meta.node.clone().unwrap_or_else(|| profile.name.clone()));
    let inputs = PlanInputs { origin: origin.clone(), at, options: options.clone() };
    Ok(Plan {
        recording: origin.file.clone(),
        is_recorded: origin.unrecorded().is_none(),
        snapshot,
        files,
        cwd,
        branch,
        profile: profile.name.clone(),
        size: size(meta),
        node: options.node.map_or_else(derived, NodeName::Requested),
        server,
        session: options.session,
        overrides: options.overrides,
        recorded: RecordedNode::from_origin(origin),
        dirs: dirs.clone(),
        inputs,
    })
}

/// Returns the recorded size of the terminal.
fn size(meta: &Meta) -> Size {
    if meta.cols > 0 && meta.rows > 0 { Size::new(meta.cols, meta.rows) } else { Size::default() }
}

/// Returns the beginning of a command on one line, for a message.
fn shorten(command: &str) -> String {
    let clean: String = text::one_line(command).chars().filter(|char| !char.is_control()).collect();
    text::shorten(&clean, COMMAND_WIDTH)
}

fn snapshot_at(
    origin: &Origin,
    at: BranchPoint,
    dirs: &DataDirs,
) -> Result<Option<SnapshotLine>, EngineError> {
    let lines = &origin.snapshots;
    match at {
        BranchPoint::Snapshot(id) => {
            let found = lines.iter().find(|line| line.id == id).cloned();
            let missing = || no_snapshot_error(&id.to_string(), lines);
            Ok(Some(found.ok_or_else(missing)?))
        }
        BranchPoint::End if origin.is_running(dirs) => {
            let why = match origin.unrecorded() {
                None => "cannot branch from the end: the session is still being recorded",
                Some(_) => "cannot branch from the end: the session is still running",
            };
            Err(EngineError::process(why).hint("select a snapshot with `at`; take one with `TAKE_SNAPSHOT`"))
        }
        BranchPoint::End => Ok(lines.iter().rfind(|line| line.kind == END).cloned()),
    }
}

fn no_snapshot_error(what: &str, lines: &[SnapshotLine]) -> EngineError {
    let known: Vec<String> = lines
        .iter()
        .map(|line| match &line.label {
            Some(label) => format!("{} '{label}'", line.id),
            None => line.id.to_string(),
        })
        .collect();
    let failure = EngineError::not_found(format!("no snapshot {what}"));
    failure.hint(match known.is_empty() {
        true => "the session has no snapshots; branch from its end with `at` end".to_string(),
        false => format!("available snapshots: {}", known.join(", ")),
    })
}
