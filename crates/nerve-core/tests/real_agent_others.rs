//! Codex, Gemini CLI and opencode, really, against the scripted model API on loopback: ready, prompts, answers, exit.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::collections::BTreeMap;
use std::time::Duration;

use nerve_core::command::{
    BackendKind, Choice, Command, CommandLine, EngineEvent, EventKind, Execute, NodeRef, NodeSpec, Reply,
    Response, StateName,
};
use nerve_core::engine::{Engine, EngineConfig};
use nerve_core::error::ErrorKind;
use nerve_core::node::factory::FactoryConfig;
use nerve_record::activity::Activity;
use nerve_term::event::Size;
use nerve_testkit::mock_model::{Script, serve};
use nerve_testkit::{AgentRecipe, Hermetic, Renderer, find_agent, skip};
use tokio::sync::broadcast;

const TURN: Duration = Duration::from_secs(90);

/// Drives an agent through `prompts`, each with what its answer must hold, and then through one that asks a permission.
async fn drive(
    agent: &str,
    recipe: impl FnOnce(&Hermetic, &str) -> AgentRecipe,
    prompts: &[(&str, &str)],
    permission: Option<&str>,
) {
    if find_agent(agent).is_none() {
        return skip(&format!("real_agent_{agent}"), "the pinned agent is not installed (cargo xtask setup)");
    }
    let home = Hermetic::new().unwrap();
    let model = serve("127.0.0.1:0".parse().unwrap(), Script::default()).await.unwrap();
    let recipe = recipe(&home, &model.url());
    let engine = Engine::new(EngineConfig {
        nodes: FactoryConfig {
            server: "test".into(),
            history_dir: Some(home.root().join("history")),
            profile_dir: None,
            hook_relay: None,
            hosting: None,
            panes: Default::default(),
        },
        ..EngineConfig::default()
    });
    let node = NodeRef { session: None, node: agent.into() };
    let mut events = engine.subscribe();
    let env: BTreeMap<String, String> = home.env().into_iter().chain(recipe.env).collect();
    let spec = NodeSpec {
        cwd: Some(home.work()),
        env,
        size: Size::new(120, 40),
        record: false,
        ready_timeout: TURN,
        response_timeout: TURN,
        ..NodeSpec::new(node.clone(), BackendKind::Pty, CommandLine::Argv(recipe.argv))
    };
    engine.execute(Command::CreateNode(spec)).await.unwrap();
    for (prompt, answer) in prompts {
        let response = ask(&engine, &node, prompt).await;
        assert!(response.text.contains(answer) || response.raw.contains(answer), "{prompt:?}: {response:?}");
        assert_eq!(response.delivery, "started", "{prompt:?}: {response:?}");
        assert!(response.is_ready, "{prompt:?}");
    }
    if let Some(prompt) = permission {
        let answered = permit(&engine, &node, prompt).await;
        assert!(answered.raw.contains("END-OF-TOOL"), "{answered:?}");
        assert_eq!(tools_told(&mut events), [true, false], "the tool is told once, when its turn is over");
    }
    let states = vec![StateName::Ready];
    engine
        .execute(Command::WaitNode { node: node.clone(), until: states, timeout: Some(TURN) })
        .await
        .unwrap();
    engine.execute(Command::StopNode(node)).await.unwrap();
}

/// Tools that were told so far: `true` for a start, `false` for an end, which has the name and the run of its start.
fn tools_told(events: &mut broadcast::Receiver<EngineEvent>) -> Vec<bool> {
    let (mut told, mut run) = (Vec::new(), None);
    while let Ok(event) = events.try_recv() {
        let EventKind::Activity(activity) = event.kind else { continue };
        match *activity {
            Activity::ToolStart { name, execution, .. } => {
                run = Some((name, execution));
                told.push(true);
            }
            Activity::ToolOutput { name, execution, .. } => {
                assert_eq!(run.take(), Some((name, execution)));
                told.push(false);
            }
            _ => {}
        }
    }
    told
}

/// The dialog is told with its own choices only, and the first is taken.
async fn permit(engine: &Engine, node: &NodeRef, prompt: &str) -> Response {
    let blocked = engine.execute(Command::ExecuteInput(execute(node, prompt))).await.unwrap_err();
    assert_eq!(blocked.kind, ErrorKind::Blocked, "{blocked:?}");
    assert!(blocked.choices.len() >= 2 && blocked.choices.len() <= 5, "{blocked:?}");
    let (choice, timeout) = (Choice::Number(1), Some(TURN));
    let answer = Command::AnswerNode { node: node.clone(), choice, wait: true, timeout };
    match engine.execute(answer).await {
        Ok(Reply::Response(response)) => *response,
        other => panic!("{other:?}\n{:#?}", engine.execute(Command::ExplainNode(node.clone())).await),
    }
}

fn execute(node: &NodeRef, text: &str) -> Execute {
    Execute {
        node: node.clone(),
        text: text.into(),
        parser: None,
        stream: false,
        timeout: Some(TURN),
        fail_if_busy: false,
        detach_on_timeout: false,
    }
}

async fn ask(engine: &Engine, node: &NodeRef, text: &str) -> Response {
    match engine.execute(Command::ExecuteInput(execute(node, text))).await {
        Ok(Reply::Response(response)) => *response,
        other => {
            let why = engine.execute(Command::ExplainNode(node.clone())).await;
            panic!("{text:?}: {other:?}\n{why:#?}");
        }
    }
}

const PROMPTS: [(&str, &str); 4] = [
    ("hello there", "You said: hello there"),
    ("LONG answer please", "END-OF-LONG"),
    ("Please answer SLOW number one", "END-OF-SLOW"),
    ("and once more", "You said: and once more"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_inline_takes_turns() {
    drive("codex", |home, url| home.codex(url, Renderer::Classic).unwrap(), &PROMPTS, Some("ESCTOOL please"))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_full_screen_takes_turns() {
    drive("codex", |home, url| home.codex(url, Renderer::FullScreen).unwrap(), &PROMPTS, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gemini_takes_turns() {
    drive("gemini", |home, url| home.gemini(url).unwrap(), &PROMPTS, Some("TOUCHTOOL please")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode_takes_turns() {
    drive("opencode", |home, url| home.opencode(url).unwrap(), &PROMPTS, None).await;
}
