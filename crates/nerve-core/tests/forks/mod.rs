//! Forks of the real agents: the requests at the scripted model show that both conversations go on apart.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nerve_api::request::{ExecuteInput, ForkNode, WaitNode};
use nerve_core::command::{BackendKind, CommandLine, NodeInfo, NodeRef, NodeSpec};
use nerve_core::engine::{Engine, EngineConfig};
use nerve_core::error::{EngineError, ErrorKind};
use nerve_core::node::factory::FactoryConfig;
use nerve_testkit::mock_model::{MockModel, RecordedRequest, Script, serve};
use nerve_testkit::{AgentRecipe, Hermetic, Renderer, find_agent, skip, wait_until};
use nerve_types::Size;

/// A loaded machine makes agents ten times slower.
const TURN: Duration = Duration::from_secs(90);

struct Stage {
    engine: Engine,
    model: MockModel,
    home: Hermetic,
    recipe: AgentRecipe,
}

fn at(node: &str) -> NodeRef {
    NodeRef { session: None, node: node.into() }
}

impl Stage {
    /// An engine and a model for an agent; `None` where it is not installed.
    async fn new(agent: &str) -> Option<Stage> {
        if find_agent(agent).is_none() {
            skip(&format!("forks of {agent}"), "the pinned agent is not installed (cargo xtask setup)");
            return None;
        }
        let home = Hermetic::new().unwrap();
        let model = serve("127.0.0.1:0".parse().unwrap(), Script::default()).await.unwrap();
        let recipe = match agent {
            "claude" => home.claude(&home.work(), &model.url(), Renderer::Classic),
            "codex" => home.codex(&model.url(), Renderer::Classic),
            "gemini" => home.gemini(&model.url()),
            _ => home.opencode(&model.url()),
        };
        let engine = Engine::new(EngineConfig {
            nodes: FactoryConfig {
                server: "test".into(),
                history_dir: Some(home.root().join("history")),
                ..FactoryConfig::default()
            },
            ..EngineConfig::default()
        });
        Some(Stage { engine, model, home, recipe: recipe.unwrap() })
    }

    async fn create(&self, node: &str, more: &[&str]) -> NodeInfo {
        let argv = self.recipe.argv.iter().cloned().chain(more.iter().map(ToString::to_string)).collect();
        let spec = NodeSpec {
            cwd: Some(self.home.work()),
            env: self.home.env().into_iter().chain(self.recipe.env.clone()).collect(),
            size: Size::new(120, 40),
            record: false,
            ready_timeout: TURN,
            response_timeout: TURN,
            ..NodeSpec::new(at(node), BackendKind::Pty, CommandLine::Argv(argv))
        };
        match self.engine.create(spec).await {
            Ok(info) => info,
            other => panic!("{other:?}"),
        }
    }

    async fn ready(&self, node: &str) {
        let request = WaitNode { node_id: node.into(), timeout: Some(TURN.into()), ..WaitNode::default() };
        let reached = self.engine.wait_node(request, Default::default()).await;
        assert!(reached.is_ok(), "{reached:?}\n{}", self.screen(node).await);
    }

    async fn ask(&self, node: &str, text: &str) -> String {
        let execute = ExecuteInput { timeout: Some(TURN.into()), ..ExecuteInput::new(node, text) };
        match self.engine.run_turn(execute, Default::default()).await {
            Ok(response) => {
                assert!(response.is_complete, "{response:?}");
                response.text
            }
            other => panic!("{text:?}: {other:?}\n{}", self.screen(node).await),
        }
    }

    /// Sends a prompt and waits until the model was asked.
    async fn say(&self, node: &str, text: &str) {
        let execute = ExecuteInput { timeout: Some(TURN.into()), ..ExecuteInput::new(node, text) };
        let reply = self.engine.run_turn(execute, Default::default()).await;
        let asked = || self.model.requests().iter().any(|request| says(request, text));
        assert!(wait_until(TURN, asked), "{reply:?}\n{}", self.screen(node).await);
        self.ready(node).await;
    }

    async fn screen(&self, node: &str) -> String {
        match self.engine.explain_node(at(node).into(), Default::default()).await {
            Ok(explained) => {
                format!("{}: {}\n{}", explained.source, explained.evidence, explained.screen)
            }
            other => format!("{other:?}"),
        }
    }

    async fn fork(&self, source: &str, target: &str, turn: Option<u64>) -> Result<NodeInfo, EngineError> {
        let request =
            ForkNode { source_id: source.into(), target_id: target.into(), at: turn, session_id: None };
        let forked = self.engine.fork_node(request, Default::default()).await?;
        self.engine.node_info(&at(&forked.node_id))
    }

    /// A fork that is ready. Some agents are busy once more after their answer, to think of a title.
    async fn forked(&self, source: &str, target: &str, turn: Option<u64>) -> NodeInfo {
        let deadline = Instant::now() + TURN;
        loop {
            self.ready(source).await;
            match self.fork(source, target, turn).await {
                Ok(info) => {
                    self.ready(target).await;
                    return info;
                }
                Err(error) if error.kind == ErrorKind::Busy && Instant::now() < deadline => {}
                Err(error) => panic!("{error}\n{}", self.screen(source).await),
            }
        }
    }

    async fn info(&self, node: &str) -> NodeInfo {
        self.engine.node_info(&at(node)).unwrap()
    }

    /// The last request in which this was said.
    fn request(&self, text: &str) -> RecordedRequest {
        let requests = self.model.requests();
        let found = requests.into_iter().rev().find(|request| says(request, text));
        found.unwrap_or_else(|| panic!("nobody said '{text}'"))
    }

    /// Did that request hold these words, and not those?
    #[track_caller]
    fn knew(&self, said: &str, known: &[&str], unknown: &[&str]) {
        let body = self.request(said).body.to_string();
        for word in known {
            assert!(body.contains(word), "'{said}' was said without '{word}': {body}");
        }
        for word in unknown {
            assert!(!body.contains(word), "'{said}' was said with '{word}': {body}");
        }
    }

    fn transcript(&self, id: &str) -> PathBuf {
        let projects = fs::read_dir(self.home.home().join(".claude/projects")).unwrap().flatten();
        let name = format!("{id}.jsonl");
        projects.map(|project| project.path().join(&name)).find(|path| path.exists()).unwrap()
    }

    async fn end(&self) {
        self.engine.shut_down(false).await;
    }
}

/// It was said in the conversation: some agents also have a title made for it, by a request that holds the last words only.
fn says(request: &RecordedRequest, text: &str) -> bool {
    let body = request.body.to_string();
    body.contains(text) && !body.contains("You are a title generator")
}

fn id_of(info: &NodeInfo) -> String {
    info.metadata["agent_session"].clone()
}

fn header(request: &RecordedRequest, name: &str) -> String {
    let found = request.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.clone()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_goes_on_apart_after_a_fork() {
    let Some(stage) = Stage::new("claude").await else { return };
    let source = stage.create("c", &[]).await;
    stage.ready("c").await;
    let early = stage.fork("c", "d", None).await.unwrap_err();
    assert_eq!(early.kind, ErrorKind::InvalidRequest);
    assert!(early.message.contains("never had a turn"), "{early}");
    stage.ask("c", "the shared wordalpha").await;
    assert_eq!(id_of(&stage.info("c").await), id_of(&source), "the id that was put in is the one it has");
    let path = stage.transcript(&id_of(&source));
    let is_whole = || fs::read_to_string(&path).is_ok_and(|text| text.contains("turn_duration"));
    assert!(wait_until(TURN, is_whole));
    // What the source writes down of itself comes after its turns only.
    stage.forked("c", "early", None).await;
    let before = fs::read(&path).unwrap();

    let begun = Instant::now();
    let forked = stage.fork("c", "d", None).await.unwrap();
    let started = begun.elapsed();
    stage.ready("d").await;
    eprintln!("fork: program started after {started:?}, ready after {:?}", begun.elapsed());

    assert_eq!(stage.ask("d", "in the fork wordgamma").await, "You said: in the fork wordgamma");
    assert!(fs::read(&path).unwrap() == before, "the source's transcript is the same to the byte");
    stage.ask("c", "in the source wordbeta").await;
    stage.ask("d", "again the fork worddelta").await;
    stage.knew("wordgamma", &["wordalpha"], &["wordbeta"]);
    stage.knew("wordbeta", &["wordalpha"], &["wordgamma", "worddelta"]);
    stage.knew("worddelta", &["wordalpha", "wordgamma"], &["wordbeta"]);
    let session = |said| header(&stage.request(said), "X-Claude-Code-Session-Id");
    assert_eq!(session("wordbeta"), id_of(&source));
    assert_eq!(session("worddelta"), id_of(&forked));
    assert_ne!(id_of(&source), id_of(&forked));
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_goes_on_from_an_earlier_turn() {
    let Some(stage) = Stage::new("claude").await else { return };
    let source = stage.create("c", &[]).await;
    stage.ask("c", "first wordalpha").await;
    let notes = stage.home.work().join("notes.txt");
    fs::write(&notes, "a note\n").unwrap();
    stage.ask("c", &format!("READTOOL FILE={} second wordbeta", notes.display())).await;
    stage.ask("c", "third wordgamma").await;
    let before = fs::read(stage.transcript(&id_of(&source))).unwrap();
    let error = stage.fork("c", "x", Some(4)).await.unwrap_err();
    assert!(error.message.contains("no turn 4: the conversation has 3"), "{error}");

    let forked = stage.forked("c", "d", Some(1)).await;
    assert_eq!(stage.ask("d", "from the first worddelta").await, "You said: from the first worddelta");
    stage.knew("worddelta", &["wordalpha"], &["wordbeta", "wordgamma"]);
    assert_eq!(header(&stage.request("worddelta"), "X-Claude-Code-Session-Id"), id_of(&forked));
    stage.forked("c", "e", Some(2)).await;
    stage.ask("e", "from the second wordepsilon").await;
    stage.knew("wordepsilon", &["wordalpha", "wordbeta"], &["wordgamma", "worddelta"]);
    assert!(fs::read(stage.transcript(&id_of(&source))).unwrap() == before);
    // A fork has turns of its own, and its past ones.
    stage.forked("d", "f", Some(2)).await;
    stage.ask("f", "again wordzeta").await;
    stage.knew("wordzeta", &["wordalpha", "worddelta"], &["wordbeta"]);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_clear_the_new_conversation_of_claude_is_forked() {
    let Some(stage) = Stage::new("claude").await else { return };
    let source = stage.create("c", &[]).await;
    stage.ask("c", "before wordalpha").await;
    stage
        .engine
        .run_command(
            nerve_api::request::RunCommand {
                node_id: "c".into(),
                command: "/clear".into(),
                ..Default::default()
            },
            Default::default(),
        )
        .await
        .unwrap();
    let status = stage.home.home().join(format!(".claude/sessions/{}.json", source.metadata["pid"]));
    let is_new = || fs::read_to_string(&status).is_ok_and(|status| !status.contains(&id_of(&source)));
    assert!(wait_until(TURN, is_new), "its id is the same: {}", stage.screen("c").await);
    stage.ready("c").await;
    let error = stage.fork("c", "x", None).await.unwrap_err();
    assert!(error.message.contains("never had a turn"), "{error}");
    stage.ask("c", "after wordbeta").await;
    let forked = stage.forked("c", "d", None).await;
    assert!(!forked.metadata["command"].contains(&id_of(&source)), "{forked:?}");
    stage.ask("d", "the fork wordgamma").await;
    stage.knew("wordgamma", &["wordbeta"], &["wordalpha"]);
    assert_ne!(id_of(&stage.info("c").await), id_of(&source), "and the node tells it");
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_goes_on_apart_after_a_fork() {
    let Some(stage) = Stage::new("codex").await else { return };
    stage.create("c", &[]).await;
    stage.ready("c").await;
    let error = stage.fork("c", "d", None).await.unwrap_err();
    assert!(error.message.contains("never had a turn"), "{error}");
    stage.ask("c", "the shared wordalpha").await;
    let forked = stage.forked("c", "d", None).await;
    assert!(forked.metadata["command"].contains(" fork "), "{forked:?}");
    stage.ask("d", "in the fork wordgamma").await;
    stage.ask("c", "in the source wordbeta").await;
    stage.ask("d", "again the fork worddelta").await;
    stage.knew("wordgamma", &["wordalpha"], &["wordbeta"]);
    stage.knew("wordbeta", &["wordalpha"], &["wordgamma"]);
    stage.knew("worddelta", &["wordalpha", "wordgamma"], &["wordbeta"]);
    assert_ne!(
        id_of(&stage.info("c").await),
        id_of(&stage.info("d").await),
        "learnt from what they have open"
    );
    let error = stage.fork("c", "e", Some(1)).await.unwrap_err();
    assert!(error.message.contains("only Claude Code"), "{error}");
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gemini_goes_on_apart_after_a_fork_where_its_id_is_known() {
    let Some(stage) = Stage::new("gemini").await else { return };
    let id = "44444444-4444-4444-8444-444444444444";
    stage.create("c", &["--session-id", id]).await;
    stage.ready("c").await;
    let error = stage.fork("c", "d", None).await.unwrap_err();
    assert!(error.message.contains("never had a turn"), "{error}");
    stage.ask("c", "the shared wordalpha").await;
    let forked = stage.forked("c", "d", None).await;
    assert!(forked.metadata["command"].contains("--session-file"), "{forked:?}");
    stage.ask("d", "in the fork wordgamma").await;
    stage.ask("c", "in the source wordbeta").await;
    stage.ask("d", "again the fork worddelta").await;
    stage.knew("wordbeta", &["wordalpha"], &["wordgamma"]);
    stage.knew("worddelta", &["wordalpha", "wordgamma"], &["wordbeta"]);
    let error = stage.fork("d", "e", None).await.unwrap_err();
    assert!(error.message.contains("id of its conversation is not known"), "{error}");
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode_is_forked_where_its_command_names_the_conversation() {
    let Some(stage) = Stage::new("opencode").await else { return };
    stage.create("c", &[]).await;
    stage.ask("c", "the shared wordalpha").await;
    let deadline = Instant::now() + TURN;
    let error = loop {
        stage.ready("c").await;
        match stage.fork("c", "d", None).await.unwrap_err() {
            // It thinks of a title.
            error if error.kind == ErrorKind::Busy && Instant::now() < deadline => {}
            error => break error,
        }
    };
    assert!(error.message.contains("id of its conversation is not known"), "{error}");
    let mut list = stage.home.recipe_command(&stage.recipe, &stage.home.work());
    list.args(["session", "list", "--format", "json"]);
    let listed = tokio::task::spawn_blocking(move || list.output().unwrap()).await.unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let id = listed[0]["id"].as_str().unwrap();
    stage.engine.stop_node(at("c").into(), Default::default()).await.unwrap();

    // Not ready on its first page: a prompt there begins a conversation of its own.
    stage.create("c", &["--session", id]).await;
    stage.say("c", "in the source wordbeta").await;
    stage.forked("c", "d", None).await;
    stage.say("d", "in the fork wordgamma").await;
    stage.say("c", "again the source worddelta").await;
    stage.knew("wordgamma", &["wordalpha", "wordbeta"], &["worddelta"]);
    stage.knew("worddelta", &["wordalpha", "wordbeta"], &["wordgamma"]);
    stage.end().await;
}
