//! Plans a branch: origin, files, conversation and node.

use std::path::PathBuf;

use anyhow::Result;
use nerve_core::fork::branch::{Branch, RecordedSession};
use nerve_core::profiles;
use nerve_host::end_snapshot::END;
use nerve_record::branches::CONVERSATIONS;
use nerve_record::snapshots::SnapshotLine;
use nerve_server::paths::ServerPaths;
use nerve_types::{Size, TsNs};

use super::environment::{NodeOverrides, RecordedNode};
use super::files::{Files, plan_files, resolve_links};
use super::origin::Origin;
use crate::cmd::recording;
use crate::exit::{FAILED, Failure, NOT_FOUND, USAGE};
use crate::out;

/// Maximum characters of a command in an error message.
const COMMAND_WIDTH: usize = 40;

/// Position where a branch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// The snapshot with this number.
    Snapshot(u64),
    /// The end of the session.
    End,
}

/// The user's choices for a branch.
#[derive(Debug, Clone, Default)]
pub(crate) struct BranchOptions {
    /// Name of the node.
    pub(crate) node: Option<String>,
    /// Target directory of the files.
    pub(crate) to: Option<PathBuf>,
    /// Work in the recorded directory with its current files.
    pub(crate) in_place: bool,
    /// Git work tree that has the snapshots.
    pub(crate) dir: Option<PathBuf>,
    /// The server; `default` if empty.
    pub(crate) server: String,
    /// Session of the node.
    pub(crate) session: Option<String>,
    /// Environment and proxy of the node.
    pub(crate) overrides: NodeOverrides,
}

/// An executable plan of a branch.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The recording, or the placeholder path of an unrecorded session.
    pub(crate) recording: PathBuf,
    pub(crate) is_recorded: bool,
    /// `None` at the end of a recording without an end snapshot.
    pub(crate) snapshot: Option<SnapshotLine>,
    pub(crate) files: Files,
    /// Working directory of the agent.
    pub(crate) cwd: PathBuf,
    pub(crate) branch: Branch,
    pub(crate) profile: String,
    pub(crate) size: Size,
    /// The requested name, or as error the base of a derived one.
    pub(crate) node: Result<String, String>,
    pub(crate) server: String,
    pub(crate) session: Option<String>,
    pub(crate) overrides: NodeOverrides,
    pub(crate) recorded: RecordedNode,
    request: Request,
}

/// The inputs of a plan, for replanning.
#[derive(Debug, Clone)]
struct Request {
    origin: Origin,
    at: At,
    options: BranchOptions,
}

impl Plan {
    /// Plans again after the folder or branch has been taken. Blocks and fails like [`plan_branch`].
    pub(super) fn replan(self) -> Result<Plan> {
        let Request { origin, at, options } = self.request;
        plan_branch(&origin, at, options)
    }
}

impl At {
    /// Parses a snapshot number, a label or `end`.
    pub(crate) fn parse(text: &str, origin: &Origin) -> Result<At> {
        if text == END {
            return Ok(At::End);
        }
        if let Ok(id) = text.parse() {
            return Ok(At::Snapshot(id));
        }
        let lines = &origin.snapshots;
        let labelled: Vec<u64> =
            lines.iter().filter(|line| line.label.as_deref() == Some(text)).map(|line| line.id).collect();
        match labelled[..] {
            [id] => Ok(At::Snapshot(id)),
            [] => Err(no_snapshot(&format!("with label '{text}'"), lines).into()),
            _ => {
                let ids: Vec<String> = labelled.iter().map(ToString::to_string).collect();
                let message = format!("label '{text}' is ambiguous: snapshots {}", ids.join(", "));
                Err(Failure::new(USAGE, message).hint("give the snapshot's number").into())
            }
        }
    }
}

/// Plans a branch of a session. Blocks: reads the agent's transcript and runs git.
///
/// # Errors
/// [`Failure`] if the snapshot, its files or the agent is missing.
pub(crate) fn plan_branch(origin: &Origin, at: At, options: BranchOptions) -> Result<Plan> {
    let server =
        Some(options.server.clone()).filter(|name| !name.is_empty()).unwrap_or("default".to_string());
    if crate::cmd::server::is_remote(&server) {
        let message =
            format!("cannot branch on {server}: branches are created on the machine of the recording");
        return Err(Failure::new(USAGE, message).hint("select a local server with --server").into());
    }
    let paths = ServerPaths::from_env();
    let meta = &origin.meta;
    let snapshot = snapshot_at(origin, at)?;
    let command = if meta.asked.is_empty() { &meta.cmd } else { &meta.asked };
    let (profiles, _) = profiles::load(Some(&paths.profiles()));
    let named = meta.profile.as_deref().and_then(|name| profiles.get(name));
    let profile = named.or_else(|| profiles.for_command(command)).filter(|profile| profile.session.is_some());
    let Some(profile) = profile.filter(|_| !command.is_empty()) else {
        let what = match command.is_empty() {
            true => "cannot branch: the recorded program is unknown".to_string(),
            false => {
                let command = out::preview(&shell_words::join(command), COMMAND_WIDTH);
                format!("cannot branch: '{command}' is not a known agent")
            }
        };
        return Err(Failure::new(USAGE, what)
            .hint("supported agents: Claude Code, Codex, Gemini CLI and opencode")
            .into());
    };
    let here = meta
        .cwd
        .clone()
        .ok_or_else(|| Failure::new(FAILED, "cannot branch: the recorded directory is unknown"))?;
    let here = resolve_links(&here);
    let (files, cwd, moved) = plan_files(snapshot.as_ref(), meta, &here, &paths, &options)?;
    let past = RecordedSession {
        profile: &profile,
        command,
        agent_session: meta.agent_session.as_deref(),
        transcript: meta.transcript.as_deref(),
        home: meta.home.as_deref(),
        cwd: &here,
        begun: meta.started_at,
        ended: meta.ended_at,
        copies: &paths.branches().join(CONVERSATIONS),
    };
    let moment = snapshot.as_ref().map(|line| TsNs(line.ts_ns)).or(meta.ended_at);
    let moved = moved.as_ref().map(|(from, to)| (from.as_path(), to.as_path()));
    let branch = Branch::plan(&past, moment, &cwd, moved);
    let base = meta.node.clone().unwrap_or_else(|| profile.name.clone());
    let request = Request { origin: origin.clone(), at, options: options.clone() };
    Ok(Plan {
        recording: origin.file.clone(),
        is_recorded: origin.unrecorded().is_none(),
        snapshot,
        files,
        cwd,
        branch,
        profile: profile.name.clone(),
        size: recording::size(meta),
        node: options.node.ok_or(base),
        server,
        session: options.session,
        overrides: options.overrides,
        recorded: RecordedNode::of(origin),
        request,
    })
}

fn snapshot_at(origin: &Origin, at: At) -> Result<Option<SnapshotLine>> {
    let lines = &origin.snapshots;
    match at {
        At::Snapshot(id) => {
            let found = lines.iter().find(|line| line.id == id).cloned();
            let missing = || no_snapshot(&id.to_string(), lines);
            Ok(Some(found.ok_or_else(missing)?))
        }
        At::End if origin.is_running() => {
            let why = match origin.unrecorded() {
                None => "cannot branch from the end: the session is still being recorded",
                Some(_) => "cannot branch from the end: the session is still running",
            };
            Err(Failure::new(FAILED, why)
                .hint("select a snapshot with --at; take one with 'nerve snapshot' in its terminal")
                .into())
        }
        At::End => Ok(lines.iter().rfind(|line| line.kind == END).cloned()),
    }
}

fn no_snapshot(what: &str, lines: &[SnapshotLine]) -> Failure {
    let known: Vec<String> = lines
        .iter()
        .map(|line| match &line.label {
            Some(label) => format!("{} '{label}'", line.id),
            None => line.id.to_string(),
        })
        .collect();
    let failure = Failure::new(NOT_FOUND, format!("no snapshot {what}"));
    failure.hint(match known.is_empty() {
        true => "the session has no snapshots; branch from its end with --at end".to_string(),
        false => format!("available snapshots: {}", known.join(", ")),
    })
}
