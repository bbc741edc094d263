//! Resolves the target of `nerve attach` to a host.

use anyhow::Result;
use nerve_api::reply::NodeInfo;
use nerve_api::request::GetNode;
use nerve_api::value::NodeState;
use nerve_client::ClientError;
use nerve_engine::data_dirs::DataDirs;
use nerve_engine::recordings;
use nerve_host::registry::{Entry, entries};
use nerve_record::lookup::{LookupError, Name};
use nerve_server::paths::ServerPaths;

use super::attach_target::AttachTarget;
use crate::cmd::server::{connect, is_remote};
use crate::exit::{Failure, NOT_FOUND, USAGE};
use crate::out;

/// Finds the host of a target.
///
/// # Errors
/// No host or several hosts match, or the match cannot be attached to. The hint names an alternative.
pub(crate) async fn find_host(args: &AttachTarget) -> Result<Entry> {
    if is_remote(&args.server) {
        let AttachTarget { target, server, .. } = args;
        let message = format!("cannot attach on {server}: 'nerve attach' works only on the server's machine");
        let hint = format!(
            "run 'nerve attach {target}' there, for example with 'ssh -t'; or print the text: nerve node read {target} --server {server}"
        );
        return Err(Failure::new(USAGE, message).hint(hint).into());
    }
    let dirs = ServerPaths::from_env().data;
    let all = entries(&dirs.hosts);
    let name = Name::parse(&args.target).map_err(recordings::lookup_error)?;
    let name = name.in_session(args.session.as_deref());
    let (running, ended): (Vec<&Entry>, Vec<&Entry>) = all.iter().partition(|entry| entry.is_alive());
    if name.is_earlier() {
        // Only the newest program of a node can be running.
        let recording = name.full_text();
        recordings::find(&dirs, &recording)?;
        return Err(ended_failure(&args.target, Some(&recording)).into());
    }
    let not_found = match recordings::find_host(&running, &name, Some(&args.server)) {
        Ok(entry) => return Ok(entry.clone()),
        Err(error @ LookupError::Ambiguous { .. }) => return Err(recordings::lookup_error(error).into()),
        Err(error) => {
            let other_server = find_other_server(&running, &name);
            MissingHost { similar: error.suggestion(), other_server, name }
        }
    };
    if not_found.other_server.is_none()
        && let Ok(entry) = recordings::find_host(&ended, &not_found.name, Some(&args.server))
    {
        let command = out::preview(&entry.requested_argv().join(" "), 40);
        let recording = entry.recording.as_ref().map(|_| not_found.name.full_text());
        return Err(ended_failure(&command, recording.as_deref()).into());
    }
    Err(not_found.explain(args, &dirs).await)
}

/// Returns the name of any server that runs a node of this name.
fn find_other_server(running: &[&Entry], name: &Name) -> Option<String> {
    let entry = recordings::find_host(running, name, None).ok()?;
    entry.label.get("server")?.as_str().map(str::to_string)
}

/// Creates the error for a program that has ended. `recording`: the name of its recording.
fn ended_failure(program: &str, recording: Option<&str>) -> Failure {
    let failure = Failure::new(NOT_FOUND, format!("cannot attach to '{program}': it has ended"));
    failure.hint(match recording {
        Some(recording) => format!("view its recording: nerve view {recording}"),
        None => "list the running programs: nerve host list".to_string(),
    })
}

/// A target without a running host on its server.
struct MissingHost {
    name: Name,
    /// Suggestion of a similar name that has a host.
    similar: Option<String>,
    /// Another server that runs a node of this name.
    other_server: Option<String>,
}

impl MissingHost {
    /// Explains why a target has no host: a node may have its terminal elsewhere, or none, or only its recording is left.
    async fn explain(self, args: &AttachTarget, dirs: &DataDirs) -> anyhow::Error {
        let Some(node_id) = self.name.node().map(str::to_string) else {
            return self.failure(args, dirs).into();
        };
        let Ok(client) = connect(&args.server).await else { return self.failure(args, dirs).into() };
        let params = GetNode { node_id, session_id: self.name.session().map(str::to_string) };
        match client.node_info(&params).await {
            Ok(node) => explain_no_terminal(&node, args).into(),
            Err(ClientError::Server(_)) => self.failure(args, dirs).into(),
            Err(error) => error.into(),
        }
    }

    /// Creates the error for a name that is no node of the server.
    fn failure(self, args: &AttachTarget, dirs: &DataDirs) -> Failure {
        let target = &args.target;
        if let Some(other_server) = self.other_server {
            let message = format!(
                "cannot attach to '{target}' on server '{}': it runs on server '{other_server}'",
                args.server
            );
            let other_target = AttachTarget { server: other_server, ..args.clone() };
            return Failure::new(NOT_FOUND, message).hint(other_target.command());
        }
        let recording = self.name.full_text();
        let recorded = recordings::find(dirs, &recording);
        if recorded.is_ok() {
            return ended_failure(target, Some(&recording));
        }
        let similar = self.similar.map(|similar| format!("{similar} ")).unwrap_or_default();
        Failure::new(NOT_FOUND, format!("no program '{target}' is running on this machine"))
            .hint(format!("{similar}list the nodes: nerve ls; list all programs: nerve host list"))
    }
}

fn explain_no_terminal(node: &NodeInfo, target: &AttachTarget) -> Failure {
    let metadata = |name: &str| node.metadata.text(name);
    let name = &node.node_id;
    let (pane, kind) = (metadata("pane_id"), node.kind.as_str());
    if !pane.is_empty() && kind.contains("wezterm") {
        let message = format!("cannot attach to node '{name}': it runs in pane {pane} of WezTerm");
        return Failure::new(USAGE, message)
            .hint(format!("activate the pane: wezterm cli activate-pane --pane-id {pane}"));
    }
    if !pane.is_empty() {
        let socket = match metadata("tmux_socket") {
            "" => String::new(),
            path if path.starts_with('/') => format!(" -S {path}"),
            label => format!(" -L {label}"),
        };
        let message = format!("cannot attach to node '{name}': it runs in pane {pane} of tmux");
        return Failure::new(USAGE, message)
            .hint(format!("attach to the pane: tmux{socket} attach -t {pane}"));
    }
    match node.state {
        NodeState::Stopped | NodeState::Created => {
            let message = format!("cannot attach to node '{name}': it is {}", node.state);
            Failure::new(NOT_FOUND, message).hint(format!("start it: {}", target.command_of("start")))
        }
        _ => Failure::new(USAGE, format!("cannot attach to node '{name}': {kind} nodes have no terminal"))
            .hint(format!("read its history: {}", target.command_of("logs"))),
    }
}
