//! Full names of nodes, and their files: `<server>/<session>/<node>.jsonl`, as histories and the logs of proxies.

use std::fs;
use std::path::{Path, PathBuf};

use nerve_api::DEFAULT_SESSION;

/// The names of a node; all `None` for a recording without one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct NodeKey {
    pub(crate) server: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) node: Option<String>,
}

/// The full name of a node.
#[derive(Debug, Clone, Copy)]
pub struct NodeAddress<'a> {
    /// The node.
    pub node: &'a str,
    /// Its session; `None`: the default one if it has such a node, otherwise any.
    pub session: Option<&'a str>,
    /// Its server.
    pub server: &'a str,
}

impl NodeKey {
    /// Returns the full name; `None` without a server or a node.
    pub(crate) fn address(&self) -> Option<NodeAddress<'_>> {
        let NodeKey { server: Some(server), session, node: Some(node) } = self else { return None };
        Some(NodeAddress { node, session: session.as_deref(), server })
    }
}

/// Lists the files in a folder with their nodes. Those of the default session may be in the folder of the server.
pub(crate) fn list(base: &Path) -> Vec<(PathBuf, NodeKey)> {
    let mut files = Vec::new();
    for server in folders(base) {
        let sessions = folders(&server).into_iter().map(|folder| (file_stem(&folder), folder));
        for (session, folder) in sessions.chain([(Some(DEFAULT_SESSION.to_string()), server.clone())]) {
            for path in log_files(&folder) {
                let (server, session) = (file_stem(&server), session.clone());
                let node = NodeKey { server, session, node: file_stem(&path) };
                files.push((path, node));
            }
        }
    }
    files
}

fn file_stem(path: &Path) -> Option<String> {
    path.file_stem().and_then(|name| name.to_str()).map(str::to_string)
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

fn log_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.is_file() && path.extension().is_some_and(|end| end == "jsonl")).collect()
}
