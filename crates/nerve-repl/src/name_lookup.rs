//! Looks up names for completion on the server. The editor thread sends requests and blocks; a task answers.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc as blocking;
use std::time::{Duration, Instant};

use nerve_client::{ClientError, NerveClient};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::completion::NameKind;

/// Time limit of a lookup, because it blocks the editor.
const TIMEOUT: Duration = Duration::from_millis(300);
/// Lifetime of cached names.
const CACHE_TTL: Duration = Duration::from_secs(1);
/// Queue length: the current request and one that timed out.
const QUEUE_CAPACITY: usize = 2;

/// State of the REPL that completion uses.
#[derive(Debug, Default)]
pub(super) struct ReplState {
    /// Current session. `None`: the server's default session.
    pub(super) session: Option<String>,
    /// Steps of the current graph.
    pub(super) steps: Vec<String>,
}

/// [`ReplState`] shared by the REPL, which changes it, and completion.
pub(super) type SharedState = Arc<Mutex<ReplState>>;

type Request = (NameKind, blocking::SyncSender<Vec<String>>);

/// Requests names from the task that queries the server, and caches them.
#[derive(Debug)]
pub(super) struct Lookup {
    requests: mpsc::Sender<Request>,
    cache: RefCell<HashMap<NameKind, (Instant, Vec<String>)>>,
}

impl Lookup {
    /// Starts the answering task, which ends when this is dropped. Must be called within a runtime.
    pub(super) fn start(client: NerveClient, state: SharedState) -> Lookup {
        let (requests, receiver) = mpsc::channel(QUEUE_CAPACITY);
        tokio::spawn(answer_requests(client, state, receiver));
        Lookup { requests, cache: RefCell::default() }
    }

    /// Returns the names of a kind. Returns outdated names if the server does not answer in time.
    pub(super) fn names(&self, kind: NameKind) -> Vec<String> {
        let mut cache = self.cache.borrow_mut();
        // Steps are local and need no cache.
        if let Some((at, list)) = cache.get(&kind).filter(|_| kind != NameKind::Steps)
            && at.elapsed() < CACHE_TTL
        {
            return list.clone();
        }
        let (reply, names) = blocking::sync_channel(1);
        let sent = self.requests.try_send((kind, reply)).is_ok();
        if let Some(list) = sent.then(|| names.recv_timeout(TIMEOUT).ok()).flatten() {
            cache.insert(kind, (Instant::now(), list));
        }
        cache.get(&kind).map(|(_, list)| list.clone()).unwrap_or_default()
    }
}

async fn answer_requests(client: NerveClient, state: SharedState, mut requests: mpsc::Receiver<Request>) {
    while let Some((kind, reply)) = requests.recv().await {
        let outcome = tokio::time::timeout(TIMEOUT, find_names(&client, &state, kind)).await;
        // On failure the requester falls back to its cache.
        if let Ok(Ok(list)) = outcome {
            let _ = reply.try_send(list);
        }
    }
}

async fn find_names(
    client: &NerveClient,
    state: &SharedState,
    kind: NameKind,
) -> Result<Vec<String>, ClientError> {
    let session = state.lock().session.clone();
    let session = session.as_deref();
    let nodes =
        async || Ok::<_, ClientError>(client.list_nodes(session).await?.into_iter().map(|node| node.node_id));
    let graphs = async || {
        Ok::<_, ClientError>(client.list_graphs(session).await?.into_iter().map(|graph| graph.graph_id))
    };
    Ok(match kind {
        NameKind::Nodes => nodes().await?.collect(),
        NameKind::Graphs => graphs().await?.collect(),
        NameKind::NodesAndGraphs => nodes().await?.chain(graphs().await?).collect(),
        NameKind::Sessions => client.sessions().await?.into_iter().map(|session| session.name).collect(),
        NameKind::Runs => {
            let runs = client.runs().await?;
            runs.into_iter().filter(|run| run.status.is_active()).map(|run| run.run_id).collect()
        }
        NameKind::Steps => state.lock().steps.clone(),
    })
}
