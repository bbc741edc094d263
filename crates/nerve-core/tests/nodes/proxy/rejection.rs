//! Proxies that cannot be: nothing is started, and it is said why.

use nerve_core::command::{BackendKind, CommandLine, NodeSpec, PanePlace};
use nerve_core::error::ErrorKind;
use nerve_core::proxy::{ProxyKind, ProxySpec};

use super::harness::Scene;

async fn why(scene: &Scene, spec: NodeSpec) -> String {
    let error = scene.create(spec).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidRequest, "{error:?}");
    assert!(error.hint.is_some(), "{error:?}");
    error.message
}

#[tokio::test]
async fn nodes_that_run_no_agent_have_none() {
    let scene = Scene::new().await;
    let spec = || scene.spec("a", scene.proxy(ProxyKind::Anthropic));
    for backend in [BackendKind::Bash, BackendKind::Chat] {
        let said = why(&scene, NodeSpec { backend, command: CommandLine::Argv(Vec::new()), ..spec() }).await;
        assert!(said.contains("cannot have a proxy"), "{said}");
    }
    let place = PanePlace { pane: Some("%1".into()), ..PanePlace::default() };
    let none = CommandLine::Argv(Vec::new());
    let in_pane = NodeSpec { backend: BackendKind::Tmux, place, command: none, ..spec() };
    let said = why(&scene, in_pane).await;
    assert!(said.contains("pane '%1' is already running"), "{said}");
}

#[tokio::test]
async fn a_program_that_cannot_be_told_of_it_has_none() {
    let scene = Scene::new().await;
    let plain = NodeSpec { profile: None, ..scene.spec("a", scene.proxy(ProxyKind::Anthropic)) };
    let said = why(&scene, plain).await;
    assert!(said.contains("a 'shell' node cannot have a proxy"), "{said}");
    let mut set = scene.spec("a", scene.proxy(ProxyKind::Anthropic));
    set.env.insert("ANTHROPIC_BASE_URL".into(), "http://elsewhere".into());
    let said = why(&scene, set).await;
    assert!(said.contains("ANTHROPIC_BASE_URL is set for the node"), "{said}");
    // Without a key of its own there is no token to be set.
    let mut own = scene.spec("a", scene.proxy(ProxyKind::Anthropic));
    own.env.insert("ANTHROPIC_AUTH_TOKEN".into(), "theirs".into());
    scene.create(own).await.unwrap();
    scene.stage.stop("a").await;
    let mut both = scene.spec("b", scene.proxy(ProxyKind::Openai));
    both.env.insert("ANTHROPIC_AUTH_TOKEN".into(), "theirs".into());
    let said = why(&scene, both).await;
    assert!(said.contains("ANTHROPIC_AUTH_TOKEN is set") && !said.contains("theirs"), "{said}");
}

/// The agent's own key is for the host that the server's environment names, not for the vendor.
#[tokio::test]
async fn an_agent_whose_environment_names_another_host_has_none_that_goes_to_the_vendor() {
    let scene = Scene::new().await;
    // A variable that is there anyway, in every test.
    let caller = std::fs::read_to_string(scene.at("profiles/caller.toml")).unwrap();
    let caller = caller.replace("ANTHROPIC_BASE_URL", "CARGO_MANIFEST_DIR").replace("\"caller\"", "\"told\"");
    std::fs::write(scene.at("profiles/told.toml"), caller).unwrap();
    let spec = |proxy| NodeSpec { profile: Some("told".into()), ..scene.spec("a", proxy) };
    let said = why(&scene, spec(ProxySpec::new(ProxyKind::Anthropic))).await;
    assert!(said.contains("CARGO_MANIFEST_DIR is set in the server's environment"), "{said}");
    let value = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    assert!(said.contains("proxy.base_url") && !said.contains(&value), "{said}");
    let key = Some("CARGO_PKG_NAME".to_string());
    let with_key = ProxySpec { api_key_env: key, ..ProxySpec::new(ProxyKind::Anthropic) };
    assert!(why(&scene, spec(with_key)).await.contains("CARGO_MANIFEST_DIR is set"));
    scene.create(spec(scene.proxy(ProxyKind::Anthropic))).await.unwrap();
    scene.stage.stop("a").await;
}

#[tokio::test]
async fn settings_that_cannot_be() {
    let scene = Scene::new().await;
    let api_key_env = Some("NERVE_TEST_NO_SUCH_KEY".to_string());
    let missing = ProxySpec { api_key_env, ..scene.proxy(ProxyKind::Anthropic) };
    let said = why(&scene, scene.spec("a", missing)).await;
    assert!(said.contains("the variable 'NERVE_TEST_NO_SUCH_KEY' holds no key"), "{said}");
    let clear =
        ProxySpec { base_url: Some("http://far.example".into()), ..ProxySpec::new(ProxyKind::Anthropic) };
    let error = scene.create(scene.spec("a", clear)).await.unwrap_err();
    assert!(error.message.contains("unencrypted"), "{error:?}");
    // A program that does not start leaves nothing that listens, and nothing that is kept.
    let mut gone = scene.spec("a", scene.proxy(ProxyKind::Anthropic));
    gone.command = CommandLine::Argv(vec!["/no/such/program".into()]);
    assert_eq!(scene.create(gone).await.unwrap_err().kind, ErrorKind::Process);
    let left = std::fs::read_dir(scene.at("proxies/run/test")).map_or(0, Iterator::count);
    assert_eq!(left, 0);
}
