//! Names for completion, asked from the server when they are needed. The editor's thread asks and waits; a task answers.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::mpsc as blocking;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nerve_client::{ClientError, NerveClient};
use tokio::sync::mpsc;

use super::completion::Names;

/// A server that does not answer in this time completes nothing: the person waits.
const PATIENCE: Duration = Duration::from_millis(300);
/// Names are asked for anew after this time.
const FRESH: Duration = Duration::from_secs(1);
/// One question at a time, and one that nobody waits for any more.
const QUESTIONS: usize = 2;

/// What of the REPL completion depends on.
#[derive(Debug, Default)]
pub(super) struct Scene {
    /// The current session; `None` is the server's default one.
    pub(super) session: Option<String>,
    /// Steps of the current graph.
    pub(super) steps: Vec<String>,
}

/// Shared by the REPL, which changes it, and completion.
pub(super) type SharedScene = Arc<Mutex<Scene>>;

/// Changes the scene, or looks at it.
pub(super) fn with_scene<T>(scene: &SharedScene, with: impl FnOnce(&mut Scene) -> T) -> T {
    with(&mut scene.lock().unwrap_or_else(PoisonError::into_inner))
}

type Question = (Names, blocking::SyncSender<Vec<String>>);

/// The end that asks.
#[derive(Debug)]
pub(super) struct Lookup {
    questions: mpsc::Sender<Question>,
    known: RefCell<HashMap<Names, (Instant, Vec<String>)>>,
}

impl Lookup {
    /// Answers are asked from `client` until this is dropped. Must be called within a runtime.
    pub(super) fn start(client: NerveClient, scene: SharedScene) -> Lookup {
        let (questions, asked) = mpsc::channel(QUESTIONS);
        tokio::spawn(answer(client, scene, asked));
        Lookup { questions, known: RefCell::default() }
    }

    /// The names there are. Those known before where the server does not answer in time.
    pub(super) fn names(&self, names: Names) -> Vec<String> {
        let mut known = self.known.borrow_mut();
        // Steps are not the server's: nothing is saved by remembering them.
        if let Some((at, list)) = known.get(&names).filter(|_| names != Names::Steps)
            && at.elapsed() < FRESH
        {
            return list.clone();
        }
        let (reply, answer) = blocking::sync_channel(1);
        let asked = self.questions.try_send((names, reply)).is_ok();
        if let Some(list) = asked.then(|| answer.recv_timeout(PATIENCE).ok()).flatten() {
            known.insert(names, (Instant::now(), list));
        }
        known.get(&names).map(|(_, list)| list.clone()).unwrap_or_default()
    }
}

async fn answer(client: NerveClient, scene: SharedScene, mut asked: mpsc::Receiver<Question>) {
    while let Some((names, reply)) = asked.recv().await {
        let found = tokio::time::timeout(PATIENCE, find(&client, &scene, names)).await;
        // Nobody waits any more, or nobody knows: both are no news.
        if let Ok(Ok(list)) = found {
            let _ = reply.try_send(list);
        }
    }
}

async fn find(client: &NerveClient, scene: &SharedScene, names: Names) -> Result<Vec<String>, ClientError> {
    let session = with_scene(scene, |scene| scene.session.clone());
    let session = session.as_deref();
    let nodes =
        async || Ok::<_, ClientError>(client.list_nodes(session).await?.into_iter().map(|node| node.id));
    let graphs = async || {
        Ok::<_, ClientError>(client.list_graphs(session).await?.into_iter().map(|graph| graph.graph_id))
    };
    Ok(match names {
        Names::Nodes => nodes().await?.collect(),
        Names::Graphs => graphs().await?.collect(),
        Names::Doers => nodes().await?.chain(graphs().await?).collect(),
        Names::Sessions => client.sessions().await?.into_iter().map(|session| session.name).collect(),
        Names::Runs => {
            let going_on = |status: &str| status == "running" || status == "waiting";
            let runs = client.runs().await?;
            runs.into_iter().filter(|run| going_on(&run.status)).map(|run| run.run_id).collect()
        }
        Names::Steps => with_scene(scene, |scene| scene.steps.clone()),
    })
}
