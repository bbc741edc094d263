//! What a branch will be: from where, with which files, with which conversation, as which node.

use std::path::PathBuf;

use anyhow::Result;
use nerve_core::fork::branch::{Branch, RecordedSession};
use nerve_core::host::end::END;
use nerve_core::profiles;
use nerve_record::branches::CONVERSATIONS;
use nerve_record::snapshots::SnapshotLine;
use nerve_server::paths::Places;
use nerve_term::event::{Size, TsNs};

use super::environment::{Asked, Recorded};
use super::files::{Files, files_of, real};
use super::origin::Origin;
use crate::cmd::recording;
use crate::exit::{FAILED, Failure, NOT_FOUND, USAGE};
use crate::out;

/// Characters of a command that is named.
const COMMAND: usize = 40;

/// Where a branch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// The snapshot of this number.
    Snapshot(u64),
    /// The end of the session.
    End,
}

/// What may be chosen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wishes {
    /// Name of the node.
    pub(crate) node: Option<String>,
    /// Where the files go.
    pub(crate) to: Option<PathBuf>,
    /// In the recorded directory, with its files as they are now.
    pub(crate) in_place: bool,
    /// The git work tree with the snapshots.
    pub(crate) dir: Option<PathBuf>,
    /// The server; `default` if empty.
    pub(crate) server: String,
    /// The node's session.
    pub(crate) session: Option<String>,
    /// Its environment and its proxy.
    pub(crate) asked: Asked,
}

/// A branch that can be made.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Its recording, or what stands for one.
    pub(crate) recording: PathBuf,
    pub(crate) is_recorded: bool,
    /// `None`: the end of a recording that has no snapshot there.
    pub(crate) snapshot: Option<SnapshotLine>,
    pub(crate) files: Files,
    /// Where the agent works.
    pub(crate) cwd: PathBuf,
    pub(crate) branch: Branch,
    pub(crate) profile: String,
    pub(crate) size: Size,
    /// As it was asked for; or else what its name is made of.
    pub(crate) node: Result<String, String>,
    pub(crate) server: String,
    pub(crate) session: Option<String>,
    pub(crate) asked: Asked,
    pub(crate) recorded: Recorded,
    request: Request,
}

/// What a plan was made of.
#[derive(Debug, Clone)]
struct Request {
    origin: Origin,
    at: At,
    wishes: Wishes,
}

impl Plan {
    /// The same, once more: somebody else has its folder now, or its branch. Blocks, as [`plan_as`] does, and fails as that.
    pub(super) fn once_more(self) -> Result<Plan> {
        let Request { origin, at, wishes } = self.request;
        plan_as(&origin, at, wishes)
    }
}

impl At {
    /// As it is typed: a number, a label, or `end`.
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
            [] => Err(no_snapshot(&format!("with the label '{text}'"), lines).into()),
            _ => {
                let ids: Vec<String> = labelled.iter().map(ToString::to_string).collect();
                let message = format!("more than one snapshot has the label '{text}': {}", ids.join(", "));
                Err(Failure::new(USAGE, message).hint("give its number").into())
            }
        }
    }
}

/// A branch of a session. Blocks: it reads the agent's transcript and asks git.
///
/// # Errors
/// There is no such snapshot, no files, no agent: [`Failure`], with what to do.
pub(crate) fn plan_as(origin: &Origin, at: At, wishes: Wishes) -> Result<Plan> {
    let server = Some(wishes.server.clone()).filter(|name| !name.is_empty()).unwrap_or("default".to_string());
    if crate::cmd::server::is_remote(&server) {
        let message =
            format!("a branch is made on this machine, where the recording is, and not on {server}");
        return Err(Failure::new(USAGE, message).hint("name a server of this machine with --server").into());
    }
    let places = Places::from_env();
    let meta = &origin.meta;
    let snapshot = snapshot_at(origin, at)?;
    let command = if meta.asked.is_empty() { &meta.cmd } else { &meta.asked };
    let (profiles, _) = profiles::load(Some(&places.profiles()));
    let named = meta.profile.as_deref().and_then(|name| profiles.get(name));
    let profile = named.or_else(|| profiles.for_command(command)).filter(|profile| profile.session.is_some());
    let Some(profile) = profile.filter(|_| !command.is_empty()) else {
        let what = match command.is_empty() {
            true => "nothing says which program it is of".to_string(),
            false => {
                let command = out::preview(&shell_words::join(command), COMMAND);
                format!("'{command}' is no agent with a conversation")
            }
        };
        return Err(Failure::new(USAGE, what)
            .hint("recordings of Claude Code, Codex, Gemini CLI and opencode can be gone on with")
            .into());
    };
    let here = meta
        .cwd
        .clone()
        .ok_or_else(|| Failure::new(FAILED, "nothing says in which directory it was recorded"))?;
    let here = real(&here);
    let (files, cwd, moved) = files_of(snapshot.as_ref(), meta, &here, &places, &wishes)?;
    let past = RecordedSession {
        profile: &profile,
        command,
        agent_session: meta.agent_session.as_deref(),
        transcript: meta.transcript.as_deref(),
        home: meta.home.as_deref(),
        cwd: &here,
        begun: meta.started_at,
        ended: meta.ended_at,
        copies: &places.branches().join(CONVERSATIONS),
    };
    let moment = snapshot.as_ref().map(|line| TsNs(line.ts_ns)).or(meta.ended_at);
    let moved = moved.as_ref().map(|(from, to)| (from.as_path(), to.as_path()));
    let branch = Branch::plan(&past, moment, &cwd, moved);
    let base = meta.node.clone().unwrap_or_else(|| profile.name.clone());
    let request = Request { origin: origin.clone(), at, wishes: wishes.clone() };
    Ok(Plan {
        recording: origin.file.clone(),
        is_recorded: origin.unrecorded().is_none(),
        snapshot,
        files,
        cwd,
        branch,
        profile: profile.name.clone(),
        size: recording::size(meta),
        node: wishes.node.ok_or(base),
        server,
        session: wishes.session,
        asked: wishes.asked,
        recorded: Recorded::of(origin),
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
        At::End if origin.goes_on() => {
            let why = match origin.unrecorded() {
                None => "it is still being recorded and has no end yet",
                Some(_) => "it still runs and has no end yet",
            };
            Err(Failure::new(FAILED, why)
                .hint("name a snapshot with --at; 'nerve snapshot' in its terminal takes one")
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
    let failure = Failure::new(NOT_FOUND, format!("there is no snapshot {what}"));
    failure.hint(match known.is_empty() {
        true => "it has none; --at end goes on from its end".to_string(),
        false => format!("it has: {}", known.join(", ")),
    })
}
