//! Invalid proxies: nothing is started, and the error gives the reason.

use nerve_api::request::{CommandLine, NodeSpec};
use nerve_api::value::BackendKind;
use nerve_node::error::ErrorKind;
use nerve_node::proxy::{Provider, ProxySettings};

use super::harness::ProxyHarness;

async fn rejection(harness: &ProxyHarness, spec: NodeSpec) -> String {
    let error = harness.create(spec).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidRequest, "{error:?}");
    assert!(error.hint.is_some(), "{error:?}");
    error.message
}

#[tokio::test]
async fn only_agent_nodes_can_have_a_proxy() {
    let harness = ProxyHarness::new().await;
    let spec = || harness.spec("a", harness.proxy(Provider::Anthropic));
    for backend in [BackendKind::Bash, BackendKind::Chat] {
        let message = rejection(&harness, NodeSpec { backend, command: None, ..spec() }).await;
        assert!(message.contains(&format!("a {} node", backend.as_str())), "{message}");
    }
    let pane_id = Some("%1".to_string());
    let in_pane = NodeSpec { backend: BackendKind::Tmux, pane_id, command: None, ..spec() };
    let message = rejection(&harness, in_pane).await;
    assert!(message.contains("'%1'"), "{message}");
}

#[tokio::test]
async fn proxy_needs_settable_url_and_token() {
    let harness = ProxyHarness::new().await;
    let without_profile = NodeSpec { profile: None, ..harness.spec("a", harness.proxy(Provider::Anthropic)) };
    let message = rejection(&harness, without_profile).await;
    assert!(message.contains("'shell'"), "{message}");
    let mut with_url = harness.spec("a", harness.proxy(Provider::Anthropic));
    with_url.env.insert("ANTHROPIC_BASE_URL".into(), "http://elsewhere".into());
    let message = rejection(&harness, with_url).await;
    assert!(message.contains("ANTHROPIC_BASE_URL"), "{message}");
    // A proxy without its own key sets no token.
    let mut with_token = harness.spec("a", harness.proxy(Provider::Anthropic));
    with_token.env.insert("ANTHROPIC_AUTH_TOKEN".into(), "theirs".into());
    harness.create(with_token).await.unwrap();
    harness.nodes.stop("a").await;
    let mut openai = harness.spec("b", harness.proxy(Provider::Openai));
    openai.env.insert("ANTHROPIC_AUTH_TOKEN".into(), "theirs".into());
    let message = rejection(&harness, openai).await;
    assert!(message.contains("ANTHROPIC_AUTH_TOKEN") && !message.contains("theirs"), "{message}");
}

/// The agent's own key belongs to the host named in the server's environment and must not go to the vendor.
#[tokio::test]
async fn inherited_base_url_requires_an_explicit_upstream() {
    let harness = ProxyHarness::new().await;
    // Uses a variable that cargo sets.
    let caller = std::fs::read_to_string(harness.path("profiles/caller.toml")).unwrap();
    let caller =
        caller.replace("ANTHROPIC_BASE_URL", "CARGO_MANIFEST_DIR").replace("\"caller\"", "\"inherited\"");
    std::fs::write(harness.path("profiles/inherited.toml"), caller).unwrap();
    let spec = |proxy| NodeSpec { profile: Some("inherited".into()), ..harness.spec("a", proxy) };
    let message = rejection(&harness, spec(ProxySettings::new(Provider::Anthropic))).await;
    assert!(message.contains("CARGO_MANIFEST_DIR"), "{message}");
    let value = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    assert!(message.contains("proxy.base_url") && !message.contains(&value), "{message}");
    let key = Some("CARGO_PKG_NAME".to_string());
    let with_key = ProxySettings { api_key_env: key, ..ProxySettings::new(Provider::Anthropic) };
    assert!(rejection(&harness, spec(with_key)).await.contains("CARGO_MANIFEST_DIR"));
    harness.create(spec(harness.proxy(Provider::Anthropic))).await.unwrap();
    harness.nodes.stop("a").await;
}

#[tokio::test]
async fn invalid_proxy_settings_are_rejected() {
    let harness = ProxyHarness::new().await;
    let api_key_env = Some("NERVE_TEST_NO_SUCH_KEY".to_string());
    let missing = ProxySettings { api_key_env, ..harness.proxy(Provider::Anthropic) };
    let message = rejection(&harness, harness.spec("a", missing)).await;
    assert!(message.contains("NERVE_TEST_NO_SUCH_KEY"), "{message}");
    let unencrypted = ProxySettings {
        base_url: Some("http://far.example".into()),
        ..ProxySettings::new(Provider::Anthropic)
    };
    let error = harness.create(harness.spec("a", unencrypted)).await.unwrap_err();
    assert!(error.message.contains("unencrypted"), "{error:?}");
    // A program that fails to start leaves no proxy and no files.
    let mut unstartable = harness.spec("a", harness.proxy(Provider::Anthropic));
    unstartable.command = Some(CommandLine::Argv(vec!["/no/such/program".into()]));
    assert_eq!(harness.create(unstartable).await.unwrap_err().kind, ErrorKind::Process);
    let leftover = std::fs::read_dir(harness.path("proxies/run/test")).map_or(0, Iterator::count);
    assert_eq!(leftover, 0);
}
