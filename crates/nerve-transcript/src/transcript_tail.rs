//! Follows an agent's transcript and reports new activities.
//!
//! Activities count if they are stamped no earlier than the node's start. This avoids repeats after a resume, in forks that copy
//! their parent's lines, and when a new server adopts the node. When the agent switches to another session (`/clear`, `/resume`),
//! activities there count if they are stamped later than the last reported one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nerve_agent::profile::TranscriptKind;
use nerve_host::clock::Clock;
use nerve_record::activity::{Activity, TsMs};
use nerve_types::os::FolderWatcher;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use crate::followed_session::{FollowedSession, Location, Report};
use crate::source::{SentPrompt, TranscriptSource};

/// Follows the transcripts of one node. Cheap to clone; ends with its last clone.
#[derive(Debug, Clone)]
pub struct TranscriptTail {
    shared: Arc<Shared>,
    _task: Arc<AbortOnDropHandle<()>>,
}

/// The state that a tail shares with its task. Lock order: `state` before `target`. `target` is never held while files are read.
struct Shared {
    kind: TranscriptKind,
    clock: Clock,
    target: Mutex<Target>,
    /// Notified when the target changes.
    target_changed: Notify,
    state: Mutex<State>,
    has_unknown: AtomicBool,
}

/// The conversation to follow.
#[derive(Debug, Default)]
struct Target {
    location: Option<Location>,
    /// The search for the conversation of the current turn.
    search: Option<Arc<SessionSearch>>,
}

/// A search for the conversation of a turn.
#[derive(Debug)]
struct SessionSearch {
    source: TranscriptSource,
    prompt: Option<SentPrompt>,
}

struct State {
    report: Report,
    /// Earlier activities are not reported.
    cutoff: TsMs,
    followed: Option<FollowedSession>,
    is_finished: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("target", &self.target).finish_non_exhaustive()
    }
}

impl TranscriptTail {
    /// Creates a tail that follows nothing yet. Activities stamped before `cutoff` are not reported. Must be called on a runtime.
    pub fn new(
        kind: TranscriptKind,
        clock: Clock,
        cutoff: TsMs,
        report: impl FnMut(Activity) + Send + 'static,
    ) -> TranscriptTail {
        let state = State { report: Box::new(report), cutoff, followed: None, is_finished: false };
        let shared = Arc::new(Shared {
            kind,
            clock,
            target: Mutex::new(Target::default()),
            target_changed: Notify::new(),
            state: Mutex::new(state),
            has_unknown: AtomicBool::new(false),
        });
        let task = tokio::spawn(run(shared.clone()));
        TranscriptTail { shared, _task: Arc::new(AbortOnDropHandle::new(task)) }
    }

    /// Follows this conversation from now on. Its file need not exist yet. Returns at once.
    pub fn follow(&self, location: Location) {
        *self.shared.target.lock() = Target { location: Some(location), search: None };
        self.shared.target_changed.notify_one();
    }

    /// Reports new activities in the transcript of a turn. If the transcript is not known yet, looks for it whenever files change. Reads
    /// files: call it on a blocking thread.
    pub fn begin_turn(&self, source: TranscriptSource, prompt: Option<SentPrompt>) {
        match source.locate(prompt.as_ref()) {
            Some(location) => self.follow(location),
            None if source.needs_prompt() && !source.is_alone() => {}
            None => self.start_search(source, prompt),
        }
        self.catch_up();
    }

    /// Reports the last activities of a turn that has ended. `found` is the conversation that contains the turn. Reads files: call it on
    /// a blocking thread.
    pub fn end_turn(&self, source: &TranscriptSource, found: Option<Location>) {
        self.shared.target.lock().search = None;
        if let Some(location) = found.or_else(|| source.path().map(Location::File)) {
            self.follow(location);
        }
        self.catch_up();
    }

    /// Starts a search for the conversation of a turn, repeated whenever files change. Until it succeeds, the previous conversation
    /// is followed. Returns at once.
    fn start_search(&self, source: TranscriptSource, prompt: Option<SentPrompt>) {
        self.shared.target.lock().search = Some(Arc::new(SessionSearch { source, prompt }));
        self.shared.target_changed.notify_one();
    }

    /// Returns the conversation that is followed.
    pub fn location(&self) -> Option<Location> {
        self.shared.target.lock().location.clone()
    }

    /// Returns true if a conversation has entries of unknown kinds.
    pub fn has_unknown_entries(&self) -> bool {
        self.shared.has_unknown.load(Ordering::Relaxed)
    }

    /// Reports all new activities now. Reads files: call it on a blocking thread.
    fn catch_up(&self) {
        self.shared.update(&mut self.shared.state.lock());
    }

    /// Reports all new activities for the last time.
    pub fn finish(&self) {
        let mut state = self.shared.state.lock();
        self.shared.update(&mut state);
        state.is_finished = true;
    }
}

/// Waits forever for the conversation or the files to change.
async fn run(shared: Arc<Shared>) {
    shared.target_changed.notified().await;
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
            () = shared.target_changed.notified() => {}
            () = wait_for_file_change(&mut watcher) => {}
        }
    }
}

/// Waits until a watched folder changes. Without a watcher it never returns.
async fn wait_for_file_change(watcher: &mut Option<Arc<FolderWatcher>>) {
    let Some(active) = watcher else { return std::future::pending().await };
    if let Err(error) = active.changed().await {
        tracing::warn!(%error, "the agent's transcript is no longer watched");
        *watcher = None;
    }
}

impl Shared {
    /// Watches the relevant folders. Called before they are read, so that no change is missed.
    fn watch(&self, watcher: &FolderWatcher) {
        let (location, search) = {
            let target = self.target.lock();
            (target.location.clone(), target.search.clone())
        };
        let mut folders =
            location.map(|location| FollowedSession::folders(self.kind, &location)).unwrap_or_default();
        folders.extend(search.map(|search| search.source.folders()).unwrap_or_default());
        for folder in folders {
            if let Err(error) = watcher.watch_folder(&folder) {
                tracing::debug!(folder = %folder.display(), %error, "cannot watch folder");
            }
        }
    }

    fn update(&self, state: &mut State) {
        if state.is_finished {
            return;
        }
        let now = TsMs::from(self.clock.now());
        state.read(now);
        self.advance_search();
        let Some(location) = self.target.lock().location.clone() else { return };
        if state.followed.as_ref().is_none_or(|followed| !followed.is_at(&location)) {
            state.cutoff = state.followed.as_ref().map_or(state.cutoff, FollowedSession::next_cutoff);
            state.followed = Some(FollowedSession::new(self.kind, location, state.cutoff));
            state.read(now);
        }
        if state.followed.as_ref().is_some_and(FollowedSession::has_unknown_entries) {
            self.has_unknown.store(true, Ordering::Relaxed);
        }
    }

    fn advance_search(&self) {
        let Some(search) = self.target.lock().search.clone() else { return };
        let Some(location) = search.source.locate(search.prompt.as_ref()) else { return };
        let mut target = self.target.lock();
        // The turn may have ended, or another one begun.
        if target.search.as_ref().is_some_and(|current| Arc::ptr_eq(current, &search)) {
            *target = Target { location: Some(location), search: None };
            // The task has to watch its folder.
            self.target_changed.notify_one();
        }
    }
}

impl State {
    fn read(&mut self, now: TsMs) {
        if let Some(followed) = &mut self.followed {
            followed.read(now, &mut self.report);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use serde_json::json;
    use tokio::sync::mpsc;

    use super::*;
    use crate::opencode_database as database;

    /// A tail and the activities that it reports.
    struct TestTail {
        dir: tempfile::TempDir,
        tail: TranscriptTail,
        reported: mpsc::UnboundedReceiver<Activity>,
    }

    impl TestTail {
        fn new() -> TestTail {
            TestTail::of(TranscriptKind::Claude)
        }

        fn of(kind: TranscriptKind) -> TestTail {
            let (sender, reported) = mpsc::unbounded_channel();
            let report = move |activity| drop(sender.send(activity));
            let tail = TranscriptTail::new(kind, Clock::start(), TsMs(1000), report);
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

        fn follow(&self, path: &Path) {
            self.tail.follow(Location::File(path.to_path_buf()));
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
        test.follow(&path);
        append(&path, &thought(2000, "first"));
        assert_eq!(test.next().await, "first");
        let (head, end) = (thought(2001, "second"), thought(2002, "third"));
        append(&path, &head[..20]);
        append(&path, &head[20..]);
        append(&path, &end);
        assert_eq!(test.next().await, "second");
        assert_eq!(test.next().await, "third");
        // Setting the same path again changes nothing.
        test.follow(&path);
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
        test.follow(&path);
        append(&path, &(thought(999, "a copy of an old line") + &thought(1000, "new")));
        assert_eq!(test.next().await, "new");
        test.tail.catch_up();
        assert_eq!(test.rest(), []);
    }

    #[tokio::test]
    async fn folder_may_be_created_later() {
        let mut test = TestTail::new();
        let path = test.path("a/b/c/s.jsonl");
        test.follow(&path);
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
        test.follow(&one);
        assert_eq!(test.next().await, "one");
        append(&one, &thought(2001, "the last of one"));
        // A branch begins with the lines of its source.
        append(&two, &(thought(2000, "one") + &thought(2001, "the last of one") + &thought(3000, "two")));
        test.follow(&two);
        assert_eq!(test.next().await, "the last of one");
        assert_eq!(test.next().await, "two");
        append(&one, &thought(4000, "back"));
        test.follow(&one);
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
        test.follow(&path);
        assert_eq!([test.next().await, test.next().await], ["one", "two"]);
        let new = test.path("new");
        append(&new, &(thought(2001, "two") + &thought(2002, "three")));
        fs::rename(new, &path).unwrap();
        assert_eq!(test.next().await, "three");
        fs::write(&path, thought(2003, "four")).unwrap();
        assert_eq!(test.next().await, "four");
    }

    #[tokio::test]
    async fn session_switch_after_reset_repeats_nothing() {
        let mut test = TestTail::new();
        let (one, two) = (test.path("one.jsonl"), test.path("two.jsonl"));
        let copied = thought(2000, "one") + &thought(2001, "two");
        append(&one, &copied);
        test.follow(&one);
        assert_eq!([test.next().await, test.next().await], ["one", "two"]);
        let new = test.path("new");
        append(&new, &thought(2000, "one"));
        fs::rename(new, &one).unwrap();
        test.tail.catch_up();
        append(&two, &(copied + &thought(3000, "three")));
        test.follow(&two);
        assert_eq!(test.next().await, "three");
        test.tail.catch_up();
        assert_eq!(test.rest(), []);
    }

    #[tokio::test]
    async fn subagents_are_followed() {
        let mut test = TestTail::new();
        let path = test.path("s.jsonl");
        append(&path, &thought(2000, "main"));
        test.follow(&path);
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
    async fn unknown_entries_of_subagents_are_noticed() {
        let mut test = TestTail::new();
        let path = test.path("s.jsonl");
        append(&path, &(thought(2000, "main") + "{\"type\":\"last-prompt\"}\n"));
        test.follow(&path);
        assert_eq!(test.next().await, "main");
        test.tail.catch_up();
        assert!(!test.tail.has_unknown_entries());
        let folder = test.path("s/subagents");
        fs::create_dir_all(&folder).unwrap();
        append(&folder.join("agent-1.jsonl"), "{\"type\":\"novelty\"}\n");
        test.tail.catch_up();
        assert!(test.tail.has_unknown_entries());
    }

    #[tokio::test]
    async fn finish_reports_the_rest_and_ends_the_tail() {
        let test = TestTail::new();
        let path = test.path("s.jsonl");
        append(&path, &thought(2000, "in time"));
        test.follow(&path);
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

    #[tokio::test]
    async fn lines_of_other_agents_are_reported_at_once() {
        for (kind, line) in [
            (
                TranscriptKind::Codex,
                r#"{"timestamp":"1970-01-01T00:00:02Z","type":"response_item","payload":{"type":"reasoning","summary":"hm"}}"#,
            ),
            (
                TranscriptKind::Gemini,
                r#"{"timestamp":"1970-01-01T00:00:02Z","id":"m","type":"gemini","thoughts":[{"subject":"hm"}]}"#,
            ),
        ] {
            let mut test = TestTail::of(kind);
            let path = test.path("s.jsonl");
            test.follow(&path);
            append(&path, &format!("{line}\n"));
            assert_eq!(test.next().await, "hm");
        }
    }

    #[tokio::test]
    async fn rows_of_a_database_are_reported_once_and_of_one_session_only() {
        let mut test = TestTail::of(TranscriptKind::Opencode);
        let (path, writer) = database::tests::example(test.dir.path());
        let part = |id: &str, message: &str, ms: i64, text: &str| {
            let data = json!({ "type": "reasoning", "text": text, "time": { "start": ms, "end": ms } });
            let info = json!({ "role": "assistant", "time": { "created": ms } });
            let update = "UPDATE message SET data = ?1 WHERE id = ?2";
            writer.execute(update, (info.to_string(), message)).unwrap();
            let insert = "INSERT INTO part VALUES (?1, ?2, ?3, ?4)";
            writer.execute(insert, (id, message, ms, data.to_string())).unwrap();
        };
        test.tail.follow(Location::Database { path, session: "a".to_string() });
        part("q1", "m2", 2000, "first");
        assert_eq!(test.next().await, "first");
        part("q1", "m3", 2001, "of another session");
        part("q2", "m2", 2002, "second");
        assert_eq!(test.next().await, "second");
        part("q1", "m4", 2003, "of a subagent");
        assert_eq!(test.next().await, "of a subagent");
        test.tail.catch_up();
        assert_eq!(test.rest(), []);
    }
}
