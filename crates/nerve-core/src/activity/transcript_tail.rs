//! Follows an agent's transcript and tells what is new in it.
//!
//! Told is what happened since the node began to look: a line counts if it is stamped no earlier. So a session that is resumed, a
//! fork that begins with a copy of its parent's lines, and a node that a new server has taken back tell nothing twice. When the agent
//! goes to another session (`/clear`, `/resume`), a line there counts if it is stamped later than the last one told.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nerve_record::activity::{Activity, TsMs};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::claude::ClaudeReader;
use super::line_reader::{Found, Lines};
use super::watcher::Watcher;
use crate::clock::Clock;

/// Transcripts of subagents that are followed in one session.
const MAX_SUBAGENTS: usize = 256;

/// Follows the transcripts of one node. Cheap to clone; ends with its last clone.
#[derive(Debug, Clone)]
pub(crate) struct Tail {
    shared: Arc<Shared>,
    _task: Arc<AbortOnDropHandle<()>>,
}

type Tell = Box<dyn FnMut(Activity) + Send>;

struct Shared {
    clock: Clock,
    /// The transcript as it was last named.
    named: Mutex<Option<PathBuf>>,
    renamed: Notify,
    state: Mutex<State>,
}

struct State {
    tell: Tell,
    /// Earlier lines are history.
    since: TsMs,
    followed: Option<Followed>,
    is_over: bool,
}

/// The files of one session.
struct Followed {
    since: TsMs,
    main: Conversation,
    /// `<session>/subagents`, beside the transcript.
    subagents: PathBuf,
    others: BTreeMap<PathBuf, Conversation>,
}

struct Conversation {
    lines: Lines,
    reader: ClaudeReader,
    /// Earlier lines are history.
    since: TsMs,
    /// The latest line told.
    latest: Option<TsMs>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("named", &self.named).finish_non_exhaustive()
    }
}

impl Tail {
    /// Follows nothing yet. What is stamped before `since` is not told. Must be called on a runtime.
    pub(crate) fn new(clock: Clock, since: TsMs, tell: impl FnMut(Activity) + Send + 'static) -> Tail {
        let state = State { tell: Box::new(tell), since, followed: None, is_over: false };
        let shared = Arc::new(Shared {
            clock,
            named: Mutex::new(None),
            renamed: Notify::new(),
            state: Mutex::new(state),
        });
        let task = tokio::spawn(follow(shared.clone()));
        Tail { shared, _task: Arc::new(AbortOnDropHandle::new(task)) }
    }

    /// The transcript is this file from now on. It need not be there yet. Returns at once.
    pub(crate) fn at(&self, path: PathBuf) {
        *lock(&self.shared.named) = Some(path);
        self.shared.renamed.notify_one();
    }

    /// Tells what the files have that was not told. Reads files: not for a task.
    pub(crate) fn catch_up(&self) {
        self.shared.update(&mut lock(&self.shared.state));
    }

    /// The same, for the last time: nothing is told after this.
    pub(crate) fn finish(&self) {
        let mut state = lock(&self.shared.state);
        self.shared.update(&mut state);
        state.is_over = true;
    }
}

/// Waits for a file to be named or to change, for ever.
async fn follow(shared: Arc<Shared>) {
    shared.renamed.notified().await;
    let watcher = Watcher::new().inspect_err(|error| {
        tracing::warn!(%error, "the agent's transcript is not watched: it is read when a turn begins and ends");
    });
    let mut watcher = watcher.ok().map(Arc::new);
    loop {
        let (looked, eyes) = (shared.clone(), watcher.clone());
        let look = tokio::task::spawn_blocking(move || {
            if let Some(eyes) = eyes {
                looked.watch(&eyes);
            }
            looked.update(&mut lock(&looked.state));
        });
        if look.await.is_err() {
            return;
        }
        tokio::select! {
            () = shared.renamed.notified() => {}
            () = changed(&mut watcher) => {}
        }
    }
}

async fn changed(watcher: &mut Option<Arc<Watcher>>) {
    let Some(eyes) = watcher else { return std::future::pending().await };
    if let Err(error) = eyes.changed().await {
        tracing::warn!(%error, "the agent's transcript is watched no more");
        *watcher = None;
    }
}

impl Shared {
    /// Watches the folders that matter, before they are looked at: what changes in between is told.
    fn watch(&self, watcher: &Watcher) {
        let Some(path) = lock(&self.named).clone() else { return };
        for folder in [path.parent(), Some(subagents_of(&path).as_path())].into_iter().flatten() {
            if let Err(error) = watcher.folder(folder) {
                tracing::debug!(folder = %folder.display(), %error, "not watched");
            }
        }
    }

    fn update(&self, state: &mut State) {
        if state.is_over {
            return;
        }
        let now = TsMs::from(self.clock.now());
        state.read(now);
        let Some(named) = lock(&self.named).clone() else { return };
        if state.followed.as_ref().is_none_or(|followed| followed.main.lines.path() != named) {
            state.since = state.followed.as_ref().map_or(state.since, Followed::end);
            state.followed = Some(Followed::new(named, state.since));
            state.read(now);
        }
    }
}

impl State {
    fn read(&mut self, now: TsMs) {
        let Some(followed) = &mut self.followed else { return };
        followed.find_subagents();
        for conversation in std::iter::once(&mut followed.main).chain(followed.others.values_mut()) {
            conversation.read(now, &mut self.tell);
        }
    }
}

impl Followed {
    fn new(transcript: PathBuf, since: TsMs) -> Followed {
        let subagents = subagents_of(&transcript);
        Followed { since, main: Conversation::new(transcript, since), subagents, others: BTreeMap::new() }
    }

    /// Later than everything told here.
    fn end(&self) -> TsMs {
        let latest = self.others.values().chain([&self.main]).filter_map(|one| one.latest).max();
        latest.map_or(self.since, |latest| TsMs(latest.0 + 1))
    }

    fn find_subagents(&mut self) {
        let Ok(entries) = fs::read_dir(&self.subagents) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            let is_one = path.extension().is_some_and(|extension| extension == "jsonl");
            if is_one && self.others.len() < MAX_SUBAGENTS {
                let new = || Conversation::new(path.clone(), self.since);
                self.others.entry(path.clone()).or_insert_with(new);
            }
        }
    }
}

impl Conversation {
    fn new(path: PathBuf, since: TsMs) -> Conversation {
        Conversation { lines: Lines::new(path), reader: ClaudeReader::default(), since, latest: None }
    }

    fn read(&mut self, now: TsMs, tell: &mut Tell) {
        let Conversation { lines, reader, since, latest } = self;
        let read = lines.read(|found| match found {
            Found::Anew => {
                *reader = ClaudeReader::default();
                *since = latest.map_or(*since, |latest| TsMs(latest.0 + 1));
            }
            Found::Line(line) => {
                for activity in reader.read(line, now) {
                    if activity.at() >= *since {
                        *latest = (*latest).max(Some(activity.at()));
                        tell(activity);
                    }
                }
            }
        });
        if let Err(error) = read {
            tracing::debug!(path = %lines.path().display(), %error, "not read");
        }
    }
}

fn subagents_of(transcript: &Path) -> PathBuf {
    transcript.with_extension("").join("subagents")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use serde_json::json;
    use tokio::sync::mpsc;

    use super::*;

    /// What a tail tells, as it comes.
    struct Stage {
        dir: tempfile::TempDir,
        tail: Tail,
        told: mpsc::UnboundedReceiver<Activity>,
    }

    impl Stage {
        fn new() -> Stage {
            let (sender, told) = mpsc::unbounded_channel();
            let tail = Tail::new(Clock::start(), TsMs(1000), move |activity| drop(sender.send(activity)));
            Stage { dir: tempfile::tempdir().unwrap(), tail, told }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        async fn next(&mut self) -> String {
            let next = tokio::time::timeout(Duration::from_secs(20), self.told.recv()).await;
            match next.unwrap().unwrap() {
                Activity::Thought { text, .. } => text,
                other => panic!("{other:?}"),
            }
        }

        fn rest(&mut self) -> Vec<Activity> {
            std::iter::from_fn(|| self.told.try_recv().ok()).collect()
        }
    }

    fn thought(ms: i64, text: &str) -> String {
        let at = jiff::Timestamp::from_millisecond(ms).unwrap().to_string();
        let content = json!([{ "type": "thinking", "thinking": text }]);
        format!("{}\n", json!({ "type": "assistant", "timestamp": at, "message": { "content": content } }))
    }

    fn append(path: &Path, text: &str) {
        let mut file = fs::File::options().create(true).append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    #[tokio::test]
    async fn what_is_written_is_told_at_once_and_once() {
        let mut stage = Stage::new();
        let path = stage.path("s.jsonl");
        stage.tail.at(path.clone());
        append(&path, &thought(2000, "first"));
        assert_eq!(stage.next().await, "first");
        let (head, end) = (thought(2001, "second"), thought(2002, "third"));
        append(&path, &head[..20]);
        append(&path, &head[20..]);
        append(&path, &end);
        assert_eq!(stage.next().await, "second");
        assert_eq!(stage.next().await, "third");
        // Being told the same again changes nothing.
        stage.tail.at(path.clone());
        append(&path, &thought(2003, "fourth"));
        assert_eq!(stage.next().await, "fourth");
        stage.tail.catch_up();
        assert_eq!(stage.rest(), []);
    }

    #[tokio::test]
    async fn history_is_not_told_be_it_resumed_or_copied() {
        let mut stage = Stage::new();
        let path = stage.path("s.jsonl");
        append(&path, &thought(500, "before the node began"));
        stage.tail.at(path.clone());
        append(&path, &(thought(999, "a copy of an old line") + &thought(1000, "new")));
        assert_eq!(stage.next().await, "new");
        stage.tail.catch_up();
        assert_eq!(stage.rest(), []);
    }

    #[tokio::test]
    async fn the_folder_may_come_later() {
        let mut stage = Stage::new();
        let path = stage.path("a/b/c/s.jsonl");
        stage.tail.at(path.clone());
        // Something else, so that it is watching when the folders come.
        let other = stage.path("a");
        fs::create_dir(other).unwrap();
        tokio::task::yield_now().await;
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        append(&path, &thought(2000, "here"));
        assert_eq!(stage.next().await, "here");
    }

    #[tokio::test]
    async fn another_session_is_told_from_where_the_last_one_ended() {
        let mut stage = Stage::new();
        let (one, two) = (stage.path("one.jsonl"), stage.path("two.jsonl"));
        append(&one, &thought(2000, "one"));
        stage.tail.at(one.clone());
        assert_eq!(stage.next().await, "one");
        append(&one, &thought(2001, "the last of one"));
        // A branch begins with the lines of what it comes from.
        append(&two, &(thought(2000, "one") + &thought(2001, "the last of one") + &thought(3000, "two")));
        stage.tail.at(two.clone());
        assert_eq!(stage.next().await, "the last of one");
        assert_eq!(stage.next().await, "two");
        append(&one, &thought(4000, "back"));
        stage.tail.at(one);
        assert_eq!(stage.next().await, "back");
        append(&two, &thought(5000, "nobody looks here any more"));
        stage.tail.catch_up();
        assert_eq!(stage.rest(), []);
    }

    #[tokio::test]
    async fn a_replaced_file_tells_nothing_twice() {
        let mut stage = Stage::new();
        let path = stage.path("s.jsonl");
        append(&path, &(thought(2000, "one") + &thought(2001, "two")));
        stage.tail.at(path.clone());
        assert_eq!([stage.next().await, stage.next().await], ["one", "two"]);
        let new = stage.path("new");
        append(&new, &(thought(2001, "two") + &thought(2002, "three")));
        fs::rename(new, &path).unwrap();
        assert_eq!(stage.next().await, "three");
        fs::write(&path, thought(2003, "four")).unwrap();
        assert_eq!(stage.next().await, "four");
    }

    #[tokio::test]
    async fn subagents_are_followed() {
        let mut stage = Stage::new();
        let path = stage.path("s.jsonl");
        append(&path, &thought(2000, "main"));
        stage.tail.at(path.clone());
        assert_eq!(stage.next().await, "main");
        let folder = stage.path("s/subagents");
        fs::create_dir_all(&folder).unwrap();
        append(&folder.join("agent-1.jsonl"), &thought(2001, "sub"));
        append(&folder.join("agent-1.meta.json"), "{}\n");
        assert_eq!(stage.next().await, "sub");
        append(&folder.join("agent-1.jsonl"), &thought(2002, "more"));
        assert_eq!(stage.next().await, "more");
    }

    #[tokio::test]
    async fn the_last_look_takes_everything_and_ends_it() {
        let stage = Stage::new();
        let path = stage.path("s.jsonl");
        append(&path, &thought(2000, "in time"));
        stage.tail.at(path.clone());
        stage.tail.finish();
        append(&path, &thought(2001, "too late"));
        stage.tail.catch_up();
        let Stage { tail, mut told, .. } = stage;
        drop(tail);
        let Some(Activity::Thought { text, .. }) = told.recv().await else { panic!("nothing was told") };
        assert_eq!(text, "in time");
        assert_eq!(told.recv().await, None, "the task is gone");
    }
}
