//! Follows an agent's transcript and reports new activities.
//!
//! Lines count if they are stamped no earlier than the start of the node. So nothing is reported twice for a resumed
//! session, a fork that begins with a copy of its parent's lines, or a node that a new server takes over. When the agent switches
//! to another session (`/clear`, `/resume`), lines there count if they are stamped later than the last reported one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nerve_agent::activity::claude::ClaudeReader;
use nerve_host::clock::Clock;
use nerve_host::folder_watcher::FolderWatcher;
use nerve_host::line_reader::{LineEvent, LineReader};
use nerve_record::activity::{Activity, TsMs};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

/// Maximum number of subagents' transcripts that are followed in one session.
const MAX_SUBAGENTS: usize = 256;

/// Follows the transcripts of one node. Cheap to clone; ends with its last clone.
#[derive(Debug, Clone)]
pub(crate) struct TranscriptTail {
    shared: Arc<Shared>,
    _task: Arc<AbortOnDropHandle<()>>,
}

type Report = Box<dyn FnMut(Activity) + Send>;

struct Shared {
    clock: Clock,
    /// The transcript's path as last set.
    named: Mutex<Option<PathBuf>>,
    renamed: Notify,
    state: Mutex<State>,
}

struct State {
    report: Report,
    /// Earlier lines are not reported.
    since: TsMs,
    followed: Option<FollowedSession>,
    is_over: bool,
}

/// The files of one session.
struct FollowedSession {
    since: TsMs,
    main: Conversation,
    /// `<session>/subagents`, next to the transcript.
    subagents: PathBuf,
    others: BTreeMap<PathBuf, Conversation>,
}

struct Conversation {
    lines: LineReader,
    reader: ClaudeReader,
    /// Earlier lines are not reported.
    since: TsMs,
    /// The time of the last reported line.
    latest: Option<TsMs>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("named", &self.named).finish_non_exhaustive()
    }
}

impl TranscriptTail {
    /// Creates a tail that follows nothing yet. Lines stamped before `since` are not reported. Must be called on a runtime.
    pub(crate) fn new(
        clock: Clock,
        since: TsMs,
        report: impl FnMut(Activity) + Send + 'static,
    ) -> TranscriptTail {
        let state = State { report: Box::new(report), since, followed: None, is_over: false };
        let shared = Arc::new(Shared {
            clock,
            named: Mutex::new(None),
            renamed: Notify::new(),
            state: Mutex::new(state),
        });
        let task = tokio::spawn(run(shared.clone()));
        TranscriptTail { shared, _task: Arc::new(AbortOnDropHandle::new(task)) }
    }

    /// Follows this file from now on. It need not exist yet. Returns at once.
    pub(crate) fn follow(&self, path: PathBuf) {
        *self.shared.named.lock() = Some(path);
        self.shared.renamed.notify_one();
    }

    /// Reports all new activities now. Reads files: call it on a blocking thread.
    pub(crate) fn catch_up(&self) {
        self.shared.update(&mut self.shared.state.lock());
    }

    /// Reports all new activities for the last time.
    pub(crate) fn finish(&self) {
        let mut state = self.shared.state.lock();
        self.shared.update(&mut state);
        state.is_over = true;
    }
}

/// Waits forever for the path or the files to change.
async fn run(shared: Arc<Shared>) {
    shared.renamed.notified().await;
    let watcher = FolderWatcher::new().inspect_err(|error| {
        tracing::warn!(%error, "cannot watch the agent's transcript: it is read when a turn begins and ends");
    });
    let mut watcher = watcher.ok().map(Arc::new);
    loop {
        let (reader, active) = (shared.clone(), watcher.clone());
        let update = tokio::task::spawn_blocking(move || {
            if let Some(active) = active {
                reader.watch(&active);
            }
            reader.update(&mut reader.state.lock());
        });
        if update.await.is_err() {
            return;
        }
        tokio::select! {
            () = shared.renamed.notified() => {}
            () = changed(&mut watcher) => {}
        }
    }
}

async fn changed(watcher: &mut Option<Arc<FolderWatcher>>) {
    let Some(active) = watcher else { return std::future::pending().await };
    if let Err(error) = active.changed().await {
        tracing::warn!(%error, "the agent's transcript is no longer watched");
        *watcher = None;
    }
}

impl Shared {
    /// Watches the relevant folders. Called before they are read, so that no change is missed.
    fn watch(&self, watcher: &FolderWatcher) {
        let Some(path) = self.named.lock().clone() else { return };
        for folder in [path.parent(), Some(subagents_folder(&path).as_path())].into_iter().flatten() {
            if let Err(error) = watcher.watch_folder(folder) {
                tracing::debug!(folder = %folder.display(), %error, "cannot watch folder");
            }
        }
    }

    fn update(&self, state: &mut State) {
        if state.is_over {
            return;
        }
        let now = TsMs::from(self.clock.now());
        state.read(now);
        let Some(named) = self.named.lock().clone() else { return };
        if state.followed.as_ref().is_none_or(|followed| followed.main.lines.path() != named) {
            state.since = state.followed.as_ref().map_or(state.since, FollowedSession::end);
            state.followed = Some(FollowedSession::new(named, state.since));
            state.read(now);
        }
    }
}

impl State {
    fn read(&mut self, now: TsMs) {
        let Some(followed) = &mut self.followed else { return };
        followed.find_subagents();
        for conversation in std::iter::once(&mut followed.main).chain(followed.others.values_mut()) {
            conversation.read(now, &mut self.report);
        }
    }
}

impl FollowedSession {
    fn new(transcript: PathBuf, since: TsMs) -> FollowedSession {
        let subagents = subagents_folder(&transcript);
        FollowedSession {
            since,
            main: Conversation::new(transcript, since),
            subagents,
            others: BTreeMap::new(),
        }
    }

    /// Returns a time later than everything reported here.
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
        Conversation { lines: LineReader::new(path), reader: ClaudeReader::default(), since, latest: None }
    }

    fn read(&mut self, now: TsMs, report: &mut Report) {
        let Conversation { lines, reader, since, latest } = self;
        let read = lines.read(|found| match found {
            LineEvent::Reset => {
                *reader = ClaudeReader::default();
                *since = latest.map_or(*since, |latest| TsMs(latest.0 + 1));
            }
            LineEvent::Line(line) => {
                for activity in reader.read(line, now) {
                    if activity.at() >= *since {
                        *latest = (*latest).max(Some(activity.at()));
                        report(activity);
                    }
                }
            }
        });
        if let Err(error) = read {
            tracing::debug!(path = %lines.path().display(), %error, "cannot read transcript");
        }
    }
}

fn subagents_folder(transcript: &Path) -> PathBuf {
    transcript.with_extension("").join("subagents")
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use serde_json::json;
    use tokio::sync::mpsc;

    use super::*;

    /// A tail and the activities that it reports.
    struct TestTail {
        dir: tempfile::TempDir,
        tail: TranscriptTail,
        reported: mpsc::UnboundedReceiver<Activity>,
    }

    impl TestTail {
        fn new() -> TestTail {
            let (sender, reported) = mpsc::unbounded_channel();
            let tail =
                TranscriptTail::new(Clock::start(), TsMs(1000), move |activity| drop(sender.send(activity)));
            TestTail { dir: tempfile::tempdir().unwrap(), tail, reported }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        async fn next(&mut self) -> String {
            let next = tokio::time::timeout(Duration::from_secs(20), self.reported.recv()).await;
            match next.unwrap().unwrap() {
                Activity::Thought { text, .. } => text,
                other => panic!("{other:?}"),
            }
        }

        fn rest(&mut self) -> Vec<Activity> {
            std::iter::from_fn(|| self.reported.try_recv().ok()).collect()
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
    async fn new_lines_are_reported_at_once_and_once() {
        let mut test = TestTail::new();
        let path = test.path("s.jsonl");
        test.tail.follow(path.clone());
        append(&path, &thought(2000, "first"));
        assert_eq!(test.next().await, "first");
        let (head, end) = (thought(2001, "second"), thought(2002, "third"));
        append(&path, &head[..20]);
        append(&path, &head[20..]);
        append(&path, &end);
        assert_eq!(test.next().await, "second");
        assert_eq!(test.next().await, "third");
        // Setting the same path again changes nothing.
        test.tail.follow(path.clone());
        append(&path, &thought(2003, "fourth"));
        assert_eq!(test.next().await, "fourth");
        test.tail.catch_up();
        assert_eq!(test.rest(), []);
    }

    #[tokio::test]
    async fn old_and_copied_lines_are_not_reported() {
        let mut test = TestTail::new();
        let path = test.path("s.jsonl");
        append(&path, &thought(500, "before the node began"));
        test.tail.follow(path.clone());
        append(&path, &(thought(999, "a copy of an old line") + &thought(1000, "new")));
        assert_eq!(test.next().await, "new");
        test.tail.catch_up();
        assert_eq!(test.rest(), []);
    }

    #[tokio::test]
    async fn folder_may_be_created_later() {
        let mut test = TestTail::new();
        let path = test.path("a/b/c/s.jsonl");
        test.tail.follow(path.clone());
        // Another folder is created first, so that the watcher is active when the rest follows.
        let other = test.path("a");
        fs::create_dir(other).unwrap();
        tokio::task::yield_now().await;
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        append(&path, &thought(2000, "here"));
        assert_eq!(test.next().await, "here");
    }

    #[tokio::test]
    async fn next_session_is_reported_from_the_end_of_the_last() {
        let mut test = TestTail::new();
        let (one, two) = (test.path("one.jsonl"), test.path("two.jsonl"));
        append(&one, &thought(2000, "one"));
        test.tail.follow(one.clone());
        assert_eq!(test.next().await, "one");
        append(&one, &thought(2001, "the last of one"));
        // A branch begins with the lines of its source.
        append(&two, &(thought(2000, "one") + &thought(2001, "the last of one") + &thought(3000, "two")));
        test.tail.follow(two.clone());
        assert_eq!(test.next().await, "the last of one");
        assert_eq!(test.next().await, "two");
        append(&one, &thought(4000, "back"));
        test.tail.follow(one);
        assert_eq!(test.next().await, "back");
        append(&two, &thought(5000, "not followed any more"));
        test.tail.catch_up();
        assert_eq!(test.rest(), []);
    }

    #[tokio::test]
    async fn replaced_file_is_not_reported_twice() {
        let mut test = TestTail::new();
        let path = test.path("s.jsonl");
        append(&path, &(thought(2000, "one") + &thought(2001, "two")));
        test.tail.follow(path.clone());
        assert_eq!([test.next().await, test.next().await], ["one", "two"]);
        let new = test.path("new");
        append(&new, &(thought(2001, "two") + &thought(2002, "three")));
        fs::rename(new, &path).unwrap();
        assert_eq!(test.next().await, "three");
        fs::write(&path, thought(2003, "four")).unwrap();
        assert_eq!(test.next().await, "four");
    }

    #[tokio::test]
    async fn subagents_are_followed() {
        let mut test = TestTail::new();
        let path = test.path("s.jsonl");
        append(&path, &thought(2000, "main"));
        test.tail.follow(path.clone());
        assert_eq!(test.next().await, "main");
        let folder = test.path("s/subagents");
        fs::create_dir_all(&folder).unwrap();
        append(&folder.join("agent-1.jsonl"), &thought(2001, "sub"));
        append(&folder.join("agent-1.meta.json"), "{}\n");
        assert_eq!(test.next().await, "sub");
        append(&folder.join("agent-1.jsonl"), &thought(2002, "more"));
        assert_eq!(test.next().await, "more");
    }

    #[tokio::test]
    async fn finish_reports_the_rest_and_ends_the_tail() {
        let test = TestTail::new();
        let path = test.path("s.jsonl");
        append(&path, &thought(2000, "in time"));
        test.tail.follow(path.clone());
        test.tail.finish();
        append(&path, &thought(2001, "too late"));
        test.tail.catch_up();
        let TestTail { tail, mut reported, .. } = test;
        drop(tail);
        let Some(Activity::Thought { text, .. }) = reported.recv().await else {
            panic!("nothing was reported")
        };
        assert_eq!(text, "in time");
        assert_eq!(reported.recv().await, None, "the task has ended");
    }
}
