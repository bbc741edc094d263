//! Lists the names that complete a word. Starts no server, and waits for none longer than [`TIMEOUT`].

use std::time::Duration;

use nerve_client::{ClientError, NerveClient};
use nerve_engine::recordings::candidate;
use nerve_host::registry::{Entry, entries};
use nerve_node::profiles;
use nerve_record::lookup::{Candidate, NodePath};
use nerve_record::store::Store;
use nerve_server::paths::ServerPaths;
use serde_json::Value;

use super::FanOutNames;

/// Time limit for a server's answer.
const TIMEOUT: Duration = Duration::from_millis(60);
/// Number of recordings whose nodes are read, last written first.
const MAX_RECORDINGS: usize = 100;
/// Number of ids offered for an empty word.
const MAX_IDS: usize = 10;

/// Kinds of names that an argument takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameKind {
    Nodes,
    /// Nodes, and ids of running hosts.
    Hosts,
    Sessions,
    /// Nodes with recordings, and ids of recordings.
    Recordings,
    Runs,
    Graphs,
    Profiles,
    Servers,
    FanOuts,
}

/// A name with its description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) text: String,
    pub(super) about: Option<String>,
}

impl Name {
    fn new(text: impl Into<String>, about: impl Into<String>) -> Name {
        Name { text: text.into(), about: Some(about.into()).filter(|about| !about.is_empty()) }
    }
}

/// The options on the line that select the server and the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    server: String,
    session: Option<String>,
}

impl Line {
    /// Reads the line from the arguments of this process.
    pub(super) fn of_process() -> Line {
        Line::parse(&std::env::args().collect::<Vec<_>>())
    }

    fn parse(words: &[String]) -> Line {
        let value = |names: &[&str]| {
            let at = words.iter().rposition(|word| names.contains(&word.as_str()))?;
            words.get(at + 1).filter(|value| !value.is_empty()).cloned()
        };
        let assigned =
            |name: &str| words.iter().rev().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let option = |names: &[&str]| {
            value(names).or_else(|| names.iter().find_map(|name| assigned(name).map(str::to_string)))
        };
        let (server, session) = (option(&["--server", "-s"]), option(&["--session"]));
        Line { server: crate::server::or_default_name(server.as_deref()), session }
    }
}

/// Lists names of a kind. They need not begin with `prefix`, the beginning of the word.
pub(super) fn list_names(kind: NameKind, prefix: &str, line: &Line, fan_outs: FanOutNames) -> Vec<Name> {
    let paths = ServerPaths::from_env();
    match kind {
        NameKind::Nodes => nodes(&paths, line),
        NameKind::Hosts => hosts(&paths, line),
        NameKind::Sessions => ask(&paths, line, sessions).unwrap_or_default(),
        NameKind::Recordings => recordings(&paths, prefix),
        NameKind::Runs => ask(&paths, line, runs).unwrap_or_default(),
        NameKind::Graphs => ask(&paths, line, graphs).unwrap_or_default(),
        NameKind::Profiles => {
            let (profiles, _) = profiles::load(Some(&paths.data.profiles));
            profiles.names().into_iter().map(|name| Name::new(name, "")).collect()
        }
        NameKind::FanOuts => fan_outs().into_iter().map(|(name, task)| Name::new(name, task)).collect(),
        NameKind::Servers => paths.servers().into_iter().map(|name| Name::new(name, "")).collect(),
    }
}

/// Sends requests to the running server; `None` if it does not answer in time.
fn ask(
    paths: &ServerPaths,
    line: &Line,
    list: impl AsyncFnOnce(&NerveClient, &Line) -> Result<Vec<Name>, ClientError>,
) -> Option<Vec<Name>> {
    let socket = paths.socket(&line.server).ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async {
        let answer = async { list(&NerveClient::connect(&socket).await?, line).await };
        tokio::time::timeout(TIMEOUT, answer).await.ok()?.ok()
    })
}

async fn sessions(client: &NerveClient, _: &Line) -> Result<Vec<Name>, ClientError> {
    Ok(client
        .sessions()
        .await?
        .into_iter()
        .map(|session| Name::new(session.name, session.description))
        .collect())
}

async fn runs(client: &NerveClient, _: &Line) -> Result<Vec<Name>, ClientError> {
    let runs = client.runs().await?.into_iter();
    Ok(runs.map(|run| Name::new(run.run_id, format!("{}, {}", run.graph_id, run.status))).collect())
}

async fn graphs(client: &NerveClient, line: &Line) -> Result<Vec<Name>, ClientError> {
    let graphs = client.list_graphs(line.session.as_deref()).await?.into_iter();
    Ok(graphs.map(|graph| Name::new(graph.graph_id, "")).collect())
}

/// Lists the nodes of the server, otherwise those whose terminals run.
fn nodes(paths: &ServerPaths, line: &Line) -> Vec<Name> {
    let listed = ask(paths, line, async |client, line| {
        let nodes = client.list_nodes(line.session.as_deref()).await?.into_iter();
        Ok(nodes.map(|node| Name::new(node.node_id, node.state.to_string())).collect())
    });
    listed.unwrap_or_else(|| {
        let session = NodePath::new(line.session.as_deref(), "").session;
        let running = running(paths, Some(&line.server)).into_iter().filter_map(|session| session.node);
        running.filter(|path| path.session == session).map(|path| Name::new(path.node, "")).collect()
    })
}

/// Returns the sessions of running hosts: those of the server's nodes, or all.
fn running(paths: &ServerPaths, server: Option<&str>) -> Vec<Candidate> {
    let is_of_server =
        |entry: &&Entry| server.is_none() || entry.label.get("server").and_then(Value::as_str) == server;
    let all = entries(&paths.data.hosts);
    all.iter().rev().filter(|entry| entry.is_alive()).filter(is_of_server).map(candidate).collect()
}

/// Lists nodes with a running terminal, then ids of hosts.
fn hosts(paths: &ServerPaths, line: &Line) -> Vec<Name> {
    let nodes = node_names(running(paths, Some(&line.server)).iter(), line.session.as_deref());
    let host = |session: Candidate| Some(Name::new(session.host.clone()?, describe(&session)));
    nodes.into_iter().chain(running(paths, None).into_iter().filter_map(host)).collect()
}

/// Lists nodes with recordings, then ids: by the beginning in `prefix`, and the newest for an empty word.
fn recordings(paths: &ServerPaths, prefix: &str) -> Vec<Name> {
    let files = Store::new(paths.data.recordings.clone()).all();
    let mut newest: Vec<Candidate> =
        files.iter().take(MAX_RECORDINGS).map(|path| Candidate::of_file(path)).collect();
    newest.iter_mut().for_each(Candidate::load_node);
    let running = running(paths, None);
    let nodes = node_names(running.iter().chain(&newest), None);
    let ids = newest.iter().filter(|recording| recording.id.starts_with(prefix));
    let ids = ids.take(if prefix.is_empty() { MAX_IDS } else { MAX_RECORDINGS });
    nodes
        .into_iter()
        .chain(ids.map(|recording| Name::new(recording.id.clone(), describe(recording))))
        .collect()
}

/// Returns the names of nodes once each; `SESSION/NODE` for those outside `session`, by default the default session.
fn node_names<'a>(sessions: impl Iterator<Item = &'a Candidate>, session: Option<&str>) -> Vec<Name> {
    let session = NodePath::new(session, "").session;
    let mut names: Vec<Name> = Vec::new();
    for path in sessions.filter_map(|session| session.node.as_ref()) {
        let text = if path.session == session { path.node.clone() } else { path.to_string() };
        if !names.iter().any(|name| name.text == text) {
            names.push(Name::new(text, "node"));
        }
    }
    names
}

fn describe(session: &Candidate) -> String {
    session.node.as_ref().map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_selects_server_and_session() {
        let line = |text: &str| Line::parse(&text.split(' ').map(str::to_string).collect::<Vec<_>>());
        let selected = |text: &str| (line(text).server, line(text).session);
        let work = || "work".to_string();
        assert_eq!(selected("nerve send --server work me").0, work());
        assert_eq!(selected("nerve send -s work --session=night me"), (work(), Some("night".to_string())));
        assert_eq!(selected("nerve send --server=work me").1, None);
    }

    #[test]
    fn nodes_outside_the_session_have_its_name() {
        let of =
            |session, node| Candidate { node: Some(NodePath::new(session, node)), ..Candidate::default() };
        let all = [of(None, "me"), of(Some("night"), "me"), of(None, "me"), Candidate::default()];
        let texts = |session| -> Vec<String> {
            node_names(all.iter(), session).into_iter().map(|name| name.text).collect()
        };
        assert_eq!(texts(None), ["me", "night/me"]);
        assert_eq!(texts(Some("night")), ["default/me", "me"]);
    }
}
