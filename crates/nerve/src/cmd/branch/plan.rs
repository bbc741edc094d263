//! What a branch will be: from where, with which files, with which conversation, as which node.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nerve_core::fork::branch::{Branch, Past};
use nerve_core::host::end::END;
use nerve_core::profiles;
use nerve_record::branches::CONVERSATIONS;
use nerve_record::files::{self, FileStore};
use nerve_record::meta::Meta;
use nerve_record::shelf::is_live;
use nerve_record::snapshots::{self, FilesRef, SnapshotLine};
use nerve_server::paths::Places;
use nerve_term::event::{Size, TsNs};

use super::environment::{Asked, Recorded};
use crate::cmd::{recording, snapshot};
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
    pub(crate) recording: PathBuf,
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
}

/// The files of a branch.
#[derive(Debug, Clone)]
pub(crate) enum Files {
    /// Those of the snapshot, in a folder of their own.
    Restored {
        files: FilesRef,
        to: PathBuf,
        /// Of git, the branch they are on.
        branch: String,
    },
    /// As they are now.
    InPlace,
}

impl At {
    /// As it is typed: a number, a label, or `end`.
    pub(crate) fn parse(text: &str, recording: &Path) -> Result<At> {
        if text == END {
            return Ok(At::End);
        }
        if let Ok(id) = text.parse() {
            return Ok(At::Snapshot(id));
        }
        let lines = noted(recording)?;
        let labelled: Vec<u64> =
            lines.iter().filter(|line| line.label.as_deref() == Some(text)).map(|line| line.id).collect();
        match labelled[..] {
            [id] => Ok(At::Snapshot(id)),
            [] => Err(no_snapshot(&format!("with the label '{text}'"), &lines).into()),
            _ => {
                let ids: Vec<String> = labelled.iter().map(ToString::to_string).collect();
                let message = format!("more than one snapshot has the label '{text}': {}", ids.join(", "));
                Err(Failure::new(USAGE, message).hint("give its number").into())
            }
        }
    }
}

/// A branch of `recording`. Blocks: it reads the agent's transcript and asks git.
///
/// # Errors
/// There is no such snapshot, no files, no agent: [`Failure`], with what to do.
pub(crate) fn plan_as(recording: &Path, at: At, wishes: Wishes) -> Result<Plan> {
    let server = Some(wishes.server.clone()).filter(|name| !name.is_empty()).unwrap_or("default".to_string());
    if crate::cmd::server::is_remote(&server) {
        let message =
            format!("a branch is made on this machine, where the recording is, and not on {server}");
        return Err(Failure::new(USAGE, message).hint("name a server of this machine with --server").into());
    }
    let places = Places::from_env();
    let meta = facts(recording)?;
    let snapshot = snapshot_at(recording, at)?;
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
    let (files, cwd, moved) = files_of(snapshot.as_ref(), &meta, &here, &places, &wishes)?;
    let past = Past {
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
    let recorded = Recorded::of(recording, &meta);
    Ok(Plan {
        recording: recording.to_path_buf(),
        snapshot,
        files,
        cwd,
        branch,
        profile: profile.name.clone(),
        size: recording::size(&meta),
        node: wishes.node.ok_or(base),
        server,
        session: wishes.session,
        asked: wishes.asked,
        recorded,
    })
}

fn facts(recording: &Path) -> Result<Meta> {
    let missing = || {
        let path = Meta::path_of(recording);
        Failure::new(
            NOT_FOUND,
            format!("nothing says which program was recorded, and where: {} is not there", path.display()),
        )
        .hint("only sessions that nerve itself has recorded can be gone on with")
    };
    let meta = Meta::load(recording).map_err(|error| {
        Failure::new(FAILED, error.to_string())
            .hint("without what it says of the session, no branch can be made")
    })?;
    Ok(meta.ok_or_else(missing)?)
}

fn noted(recording: &Path) -> Result<Vec<SnapshotLine>> {
    snapshots::read(recording)
        .with_context(|| format!("cannot read {}", snapshots::path_of(recording).display()))
}

fn snapshot_at(recording: &Path, at: At) -> Result<Option<SnapshotLine>> {
    let lines = noted(recording)?;
    match at {
        At::Snapshot(id) => {
            let found = lines.iter().find(|line| line.id == id).cloned();
            let missing = || no_snapshot(&id.to_string(), &lines);
            Ok(Some(found.ok_or_else(missing)?))
        }
        At::End if is_live(recording) => {
            Err(Failure::new(FAILED, "it is still being recorded and has no end yet")
                .hint("name a snapshot with --at; 'nerve snapshot' in its terminal takes one")
                .into())
        }
        At::End => Ok(lines.into_iter().rfind(|line| line.kind == END)),
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

/// The files, the directory to work in, and which directory is now which.
type Chosen = (Files, PathBuf, Option<(PathBuf, PathBuf)>);

fn files_of(
    snapshot: Option<&SnapshotLine>,
    meta: &Meta,
    here: &Path,
    places: &Places,
    wishes: &Wishes,
) -> Result<Chosen> {
    if wishes.in_place {
        if !here.is_dir() {
            let message = format!("the recorded directory {} is gone", here.display());
            return Err(Failure::new(NOT_FOUND, message).hint("leave out --in-place, or put it back").into());
        }
        return Ok((Files::InPlace, here.to_path_buf(), None));
    }
    let Some(files) = snapshot.and_then(|line| line.files.clone()) else {
        return Err(without_files(snapshot, meta, here).into());
    };
    let files = match &wishes.dir {
        Some(dir) => FilesRef { source: real(dir), ..files },
        None => files,
    };
    let store = FileStore::new(places.snapshots());
    let (provider, key) = files::provider_of(&files, &store).map_err(|error| snapshot::failed(error, ""))?;
    let named = |n: u64| format!("{}-{n}", key.session());
    let folder = |n: u64| places.branches().join(named(n));
    let mut n = 1;
    while folder(n).symlink_metadata().is_ok()
        || provider.has_branch(&in_git(&named(n))).map_err(|error| snapshot::failed(error, ""))?
    {
        n += 1;
    }
    let to = real(wishes.to.as_ref().unwrap_or(&folder(n)));
    if std::fs::read_dir(&to).is_ok_and(|mut entries| entries.next().is_some()) || to.is_file() {
        let failure = Failure::new(USAGE, format!("{} is not empty", to.display()));
        return Err(failure.hint("give --to a directory that is empty or not there yet").into());
    }
    if to.starts_with(&files.source) {
        let message =
            format!("{} is in {}, whose files stay as they are", to.display(), files.source.display());
        return Err(Failure::new(USAGE, message).hint("give --to a directory beside it").into());
    }
    let source =
        snapshot.and_then(|line| line.files.as_ref()).map_or(PathBuf::new(), |files| files.source.clone());
    let cwd = here.strip_prefix(&source).map_or(to.clone(), |inside| to.join(inside));
    // With a `/` at its end it would be another directory's name.
    let cwd = cwd.components().collect();
    let branch = in_git(&named(n));
    Ok((Files::Restored { files, to: to.clone(), branch }, cwd, Some((source, to))))
}

/// A branch's name in git.
fn in_git(name: &str) -> String {
    format!("nerve/{name}")
}

fn without_files(snapshot: Option<&SnapshotLine>, meta: &Meta, here: &Path) -> Failure {
    let why = meta.end_note.as_ref().filter(|_| snapshot.is_none_or(|line| line.kind == END));
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    let message = match snapshot {
        Some(line) => format!("snapshot {} has no files{why}", line.id),
        None => format!("the recording ends without a snapshot, so its files are not known{why}"),
    };
    Failure::new(FAILED, message)
        .hint(format!("--in-place goes on in {}, with its files as they are now", here.display()))
}

/// The path without links, also of what is not there yet.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let mut missing: Vec<OsString> = Vec::new();
    let mut there = path.as_path();
    loop {
        if let Ok(found) = there.canonicalize() {
            return missing.iter().rev().fold(found, |path, name| path.join(name));
        }
        let (Some(name), Some(parent)) = (there.file_name(), there.parent()) else { return path };
        missing.push(name.to_os_string());
        there = parent;
    }
}
