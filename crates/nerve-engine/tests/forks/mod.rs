//! Forks of real agents. The requests at the scripted model show that source and fork diverge.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nerve_api::reply::NodeInfo;
use nerve_api::request::{ForkNode, RunCommand};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_testkit::harness::{EngineHarness, RealAgent, assert_error};
use nerve_testkit::mock_model::{MockModel, RecordedRequest, Script};
use nerve_testkit::{AgentRecipe, Hermetic, Renderer, wait_until};

/// Timeout of one turn. A loaded machine makes agents ten times slower.
const TURN: Duration = Duration::from_secs(90);

struct Harness {
    nodes: EngineHarness,
    model: MockModel,
    home: Hermetic,
    recipe: AgentRecipe,
}

impl Harness {
    /// Creates an engine and a model for an agent; `None` if the agent is not installed.
    async fn new(agent: &str) -> Option<Harness> {
        let configure = |home: &Hermetic, url: &str| match agent {
            "claude" => home.claude(&home.work(), url, Renderer::Classic),
            "codex" => home.codex(url, Renderer::Classic),
            "gemini" => home.gemini(url),
            "kilo" => home.kilo(url),
            _ => home.opencode(url),
        };
        let test = format!("forks of {agent}");
        let prepared = RealAgent::new(&test, agent, Script::default(), configure).await?;
        let RealAgent { home, recipe, model } = prepared;
        let nodes = EngineHarness::new(EngineHarness::config(home.root()), TURN);
        Some(Harness { nodes, model, home, recipe })
    }

    async fn create(&self, node: &str, more: &[&str]) -> NodeInfo {
        let mut recipe = self.recipe.clone();
        recipe.argv.extend(more.iter().map(ToString::to_string));
        self.nodes.create(self.nodes.agent_spec(node, &self.home, &recipe)).await
    }

    async fn wait_ready(&self, node: &str) {
        self.nodes.wait_ready(node).await;
    }

    async fn ask(&self, node: &str, text: &str) -> String {
        let response = self.nodes.ask(node, text).await;
        assert!(response.is_complete, "{response:?}");
        response.text
    }

    /// Sends a prompt and waits until the model has received it.
    async fn send_prompt(&self, node: &str, text: &str) {
        let reply = self.nodes.send(node, text).await;
        let is_requested = || self.model.requests().iter().any(|request| contains_prompt(request, text));
        assert!(wait_until(TURN, is_requested), "{reply:?}\n{}", self.nodes.screen(node).await);
        self.wait_ready(node).await;
    }

    async fn fork(&self, source: &str, target: &str, turn: Option<u64>) -> Result<NodeInfo, EngineError> {
        let request =
            ForkNode { source_id: source.into(), target_id: target.into(), at: turn, session_id: None };
        let forked = self.nodes.engine.fork_node(request, Default::default()).await?;
        Ok(self.nodes.info(&forked.node_id))
    }

    /// Forks a node and waits until the fork is ready. Some agents become busy again after an answer, to generate a title.
    async fn fork_when_ready(&self, source: &str, target: &str, turn: Option<u64>) -> NodeInfo {
        let deadline = Instant::now() + TURN;
        loop {
            self.wait_ready(source).await;
            match self.fork(source, target, turn).await {
                Ok(info) => {
                    self.wait_ready(target).await;
                    return info;
                }
                Err(error) if error.kind == ErrorKind::Busy && Instant::now() < deadline => {}
                Err(error) => panic!("{error}\n{}", self.nodes.screen(source).await),
            }
        }
    }

    /// Returns the last request that contains the prompt.
    fn request(&self, text: &str) -> RecordedRequest {
        let requests = self.model.requests();
        let found = requests.into_iter().rev().find(|request| contains_prompt(request, text));
        found.unwrap_or_else(|| panic!("no request contains '{text}'"))
    }

    /// Checks that the request of `prompt` contains the words in `known` and none in `unknown`.
    #[track_caller]
    fn assert_context(&self, prompt: &str, known: &[&str], unknown: &[&str]) {
        let body = self.request(prompt).body.to_string();
        for word in known {
            assert!(body.contains(word), "'{prompt}' was sent without '{word}': {body}");
        }
        for word in unknown {
            assert!(!body.contains(word), "'{prompt}' was sent with '{word}': {body}");
        }
    }

    fn transcript(&self, id: &str) -> PathBuf {
        let projects = fs::read_dir(self.home.home().join(".claude/projects")).unwrap().flatten();
        let name = format!("{id}.jsonl");
        projects.map(|project| project.path().join(&name)).find(|path| path.exists()).unwrap()
    }

    async fn shut_down(&self) {
        self.nodes.engine.shut_down(false).await;
    }
}

/// Returns true if the request contains the prompt and is not one that generates a title.
fn contains_prompt(request: &RecordedRequest, text: &str) -> bool {
    let body = request.body.to_string();
    body.contains(text) && !body.contains("You are a title generator")
}

fn session_id(info: &NodeInfo) -> String {
    info.metadata.text("conversation_id").to_string()
}

fn header(request: &RecordedRequest, name: &str) -> String {
    let found = request.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.clone()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_fork_diverges() {
    let Some(harness) = Harness::new("claude").await else { return };
    let source = harness.create("c", &[]).await;
    harness.wait_ready("c").await;
    let early = harness.fork("c", "d", None).await.unwrap_err();
    assert_error(&early, ErrorKind::InvalidRequest, &["'c'", "turn"]);
    harness.ask("c", "the shared wordalpha").await;
    assert_eq!(session_id(&harness.nodes.info("c")), session_id(&source), "the session id changed");
    let path = harness.transcript(&session_id(&source));
    let is_whole = || fs::read_to_string(&path).is_ok_and(|text| text.contains("turn_duration"));
    assert!(wait_until(TURN, is_whole));
    // Records the source adds on its own appear only after its turns.
    harness.fork_when_ready("c", "early", None).await;
    let before = fs::read(&path).unwrap();

    let begin = Instant::now();
    let forked = harness.fork("c", "d", None).await.unwrap();
    let started = begin.elapsed();
    harness.wait_ready("d").await;
    eprintln!("fork: program started after {started:?}, ready after {:?}", begin.elapsed());

    assert_eq!(harness.ask("d", "in the fork wordgamma").await, "You said: in the fork wordgamma");
    assert!(fs::read(&path).unwrap() == before, "the source's transcript changed");
    harness.ask("c", "in the source wordbeta").await;
    harness.ask("d", "again the fork worddelta").await;
    harness.assert_context("wordgamma", &["wordalpha"], &["wordbeta"]);
    harness.assert_context("wordbeta", &["wordalpha"], &["wordgamma", "worddelta"]);
    harness.assert_context("worddelta", &["wordalpha", "wordgamma"], &["wordbeta"]);
    let session = |prompt| header(&harness.request(prompt), "X-Claude-Code-Session-Id");
    assert_eq!(session("wordbeta"), session_id(&source));
    assert_eq!(session("worddelta"), session_id(&forked));
    assert_ne!(session_id(&source), session_id(&forked));
    harness.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_forks_at_an_earlier_turn() {
    let Some(harness) = Harness::new("claude").await else { return };
    let source = harness.create("c", &[]).await;
    harness.ask("c", "first wordalpha").await;
    let notes = harness.home.work().join("notes.txt");
    fs::write(&notes, "a note\n").unwrap();
    harness.ask("c", &format!("READTOOL FILE={} second wordbeta", notes.display())).await;
    harness.ask("c", "third wordgamma").await;
    let before = fs::read(harness.transcript(&session_id(&source))).unwrap();
    let error = harness.fork("c", "x", Some(4)).await.unwrap_err();
    assert_error(&error, ErrorKind::InvalidRequest, &["turn 4", "3"]);

    let forked = harness.fork_when_ready("c", "d", Some(1)).await;
    assert_eq!(harness.ask("d", "from the first worddelta").await, "You said: from the first worddelta");
    harness.assert_context("worddelta", &["wordalpha"], &["wordbeta", "wordgamma"]);
    assert_eq!(header(&harness.request("worddelta"), "X-Claude-Code-Session-Id"), session_id(&forked));
    harness.fork_when_ready("c", "e", Some(2)).await;
    harness.ask("e", "from the second wordepsilon").await;
    harness.assert_context("wordepsilon", &["wordalpha", "wordbeta"], &["wordgamma", "worddelta"]);
    assert!(fs::read(harness.transcript(&session_id(&source))).unwrap() == before);
    // The turns of a fork include those of its source.
    harness.fork_when_ready("d", "f", Some(2)).await;
    harness.ask("f", "again wordzeta").await;
    harness.assert_context("wordzeta", &["wordalpha", "worddelta"], &["wordbeta"]);
    harness.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_fork_after_clear_uses_new_conversation() {
    let Some(harness) = Harness::new("claude").await else { return };
    let source = harness.create("c", &[]).await;
    harness.ask("c", "before wordalpha").await;
    let clear = RunCommand { node_id: "c".into(), command: "/clear".into(), ..RunCommand::default() };
    harness.nodes.engine.run_command(clear, Default::default()).await.unwrap();
    let status =
        harness.home.home().join(format!(".claude/sessions/{}.json", source.metadata.display("pid")));
    // Claude Code rewrites this file in place: it may be read empty or half written.
    let is_new = || {
        let status = fs::read(&status).ok().and_then(|status| serde_json::from_slice(&status).ok());
        let id = status.as_ref().and_then(|status: &serde_json::Value| status["sessionId"].as_str());
        id.is_some_and(|id| id != session_id(&source))
    };
    assert!(wait_until(TURN, is_new), "the session id did not change: {}", harness.nodes.screen("c").await);
    harness.wait_ready("c").await;
    let error = harness.fork("c", "x", None).await.unwrap_err();
    assert_error(&error, ErrorKind::InvalidRequest, &[]);
    harness.ask("c", "after wordbeta").await;
    let forked = harness.fork_when_ready("c", "d", None).await;
    assert!(!forked.metadata.text("command").contains(&session_id(&source)), "{forked:?}");
    harness.ask("d", "the fork wordgamma").await;
    harness.assert_context("wordgamma", &["wordbeta"], &["wordalpha"]);
    assert_ne!(
        session_id(&harness.nodes.info("c")),
        session_id(&source),
        "the node reports the old session id"
    );
    harness.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_fork_diverges() {
    let Some(harness) = Harness::new("codex").await else { return };
    harness.create("c", &[]).await;
    harness.wait_ready("c").await;
    let error = harness.fork("c", "d", None).await.unwrap_err();
    assert_error(&error, ErrorKind::InvalidRequest, &["'c'", "turn"]);
    harness.ask("c", "the shared wordalpha").await;
    let forked = harness.fork_when_ready("c", "d", None).await;
    assert!(forked.metadata.text("command").contains(" fork "), "{forked:?}");
    harness.ask("d", "in the fork wordgamma").await;
    harness.ask("c", "in the source wordbeta").await;
    harness.ask("d", "again the fork worddelta").await;
    harness.assert_context("wordgamma", &["wordalpha"], &["wordbeta"]);
    harness.assert_context("wordbeta", &["wordalpha"], &["wordgamma"]);
    harness.assert_context("worddelta", &["wordalpha", "wordgamma"], &["wordbeta"]);
    assert_ne!(
        session_id(&harness.nodes.info("c")),
        session_id(&harness.nodes.info("d")),
        "both nodes have the same session id"
    );
    let error = harness.fork("c", "e", Some(1)).await.unwrap_err();
    assert!(error.message.contains("only Claude Code"), "{error}");
    harness.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gemini_forks_after_its_first_turn() {
    let Some(harness) = Harness::new("gemini").await else { return };
    let id = "44444444-4444-4444-8444-444444444444";
    harness.create("c", &["--session-id", id]).await;
    harness.wait_ready("c").await;
    let error = harness.fork("c", "d", None).await.unwrap_err();
    assert_error(&error, ErrorKind::InvalidRequest, &["'c'", "turn"]);
    harness.ask("c", "the shared wordalpha").await;
    let forked = harness.fork_when_ready("c", "d", None).await;
    assert!(forked.metadata.text("command").contains("--session-file"), "{forked:?}");
    harness.ask("d", "in the fork wordgamma").await;
    harness.ask("c", "in the source wordbeta").await;
    harness.ask("d", "again the fork worddelta").await;
    harness.assert_context("wordbeta", &["wordalpha"], &["wordgamma"]);
    harness.assert_context("worddelta", &["wordalpha", "wordgamma"], &["wordbeta"]);
    // The fork's own id is known since its first turn.
    harness.fork_when_ready("d", "e", None).await;
    harness.ask("e", "in the second fork wordepsilon").await;
    harness.assert_context("wordepsilon", &["wordalpha", "wordgamma", "worddelta"], &["wordbeta"]);
    harness.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode_forks_after_its_first_turn_or_if_started_with_a_session() {
    forks_after_first_turn_or_with_session("opencode").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kilo_forks_after_its_first_turn_or_if_started_with_a_session() {
    forks_after_first_turn_or_with_session("kilo").await;
}

async fn forks_after_first_turn_or_with_session(agent: &str) {
    let Some(harness) = Harness::new(agent).await else { return };
    harness.create("c", &[]).await;
    harness.ask("c", "the shared wordalpha").await;
    let mut list = harness.home.recipe_command(&harness.recipe, &harness.home.work());
    list.args(["session", "list", "--format", "json"]);
    let listed = tokio::task::spawn_blocking(move || list.output().unwrap()).await.unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let id = listed[0]["id"].as_str().unwrap();
    // The id is known since the first turn.
    harness.fork_when_ready("c", "early", None).await;
    harness.nodes.stop("early").await;
    harness.nodes.stop("c").await;

    // The start page does not count as ready: a prompt there would start a new conversation.
    harness.create("c", &["--session", id]).await;
    harness.send_prompt("c", "in the source wordbeta").await;
    harness.fork_when_ready("c", "d", None).await;
    harness.send_prompt("d", "in the fork wordgamma").await;
    harness.send_prompt("c", "again the source worddelta").await;
    harness.assert_context("wordgamma", &["wordalpha", "wordbeta"], &["worddelta"]);
    harness.assert_context("worddelta", &["wordalpha", "wordbeta"], &["wordgamma"]);
    harness.shut_down().await;
}
