//! The official SDKs of both vendors, from PyPI, as clients. `official_sdks.py` contains the checks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_proxy::{Budget, Proxy, ProxyConfig, create_anthropic_proxy, create_openai_proxy};
use nerve_testkit::mock_model::{Answer, BodyEnd, MockModel, Script, ToolCall};
use nerve_testkit::{Hermetic, skip};
use serde_json::json;

use crate::harness::config;

/// Time limit for the script. Python and its packages take seconds to start on a busy machine.
const CLIENT: Duration = Duration::from_secs(90);

/// Returns the interpreter with the packages of `xtask/pypi/requirements.txt`, if they are installed.
fn python() -> Option<PathBuf> {
    let folder = match std::env::var_os("NERVE_TEST_PYPI") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/pypi"),
    };
    // Not canonicalized: the interpreter finds its packages relative to its own path.
    let python = std::path::absolute(folder.join("bin/python")).ok()?;
    let find = "from importlib.util import find_spec as f; assert f('anthropic') and f('openai')";
    let has_them = std::process::Command::new(&python).args(["-c", find]).output();
    has_them.is_ok_and(|output| output.status.success()).then_some(python)
}

fn script() -> Script {
    let own = |name: &str, input| ToolCall::Own { name: name.into(), input };
    let calls = [own("Bash", json!({ "command": "ls" })), own("Read", json!({ "file_path": "/x" }))];
    Script::default().rule("look", Answer::tools(calls))
}

/// Runs these cases against a proxy; false if the packages are not installed.
async fn run_clients(test: &str, proxy: &Proxy, cases: &[&str]) -> bool {
    let Some(python) = python() else {
        skip(test, "the packages anthropic and openai of PyPI are not installed (cargo xtask setup)");
        return false;
    };
    let home = Hermetic::new().unwrap();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/official_sdks.py");
    let mut command = tokio::process::Command::from(home.command(&python));
    command.env("PYTHONDONTWRITEBYTECODE", "1").arg(&program).arg(proxy.url()).args(cases).kill_on_drop(true);
    let output = tokio::time::timeout(CLIENT, command.output()).await.expect("client did not exit").unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let passed: Vec<&str> = out.lines().collect();
    assert!(output.status.success() && passed == cases, "{out}\n{err}");
    true
}

async fn start_upstream(script: Script) -> (MockModel, ProxyConfig) {
    let model = MockModel::start(script).await;
    let config = config(&model.url());
    (model, config)
}

#[tokio::test]
async fn sdks_with_the_anthropic_proxy() {
    let (_model, config) = start_upstream(script()).await;
    let proxy = create_anthropic_proxy(config).await.unwrap();
    run_clients("sdks_with_the_anthropic_proxy", &proxy, &["messages", "tools", "more", "errors", "openai"])
        .await;
}

#[tokio::test]
async fn sdks_with_the_openai_proxy() {
    let (model, config) = start_upstream(script()).await;
    let proxy = create_openai_proxy(ProxyConfig { model: Some("gpt-x".into()), ..config }).await.unwrap();
    run_clients("sdks_with_the_openai_proxy", &proxy, &["messages", "tools", "more", "errors"]).await;
    let requests = model.requests();
    assert!(requests.iter().all(|request| request.path == "/v1/chat/completions"));
    // Empty if the packages are not installed.
    for body in requests.iter().map(|request| &request.body).filter(|body| !body["stop"].is_null()) {
        assert_eq!((&body["stop"], &body["parallel_tool_calls"]), (&json!(["END"]), &json!(false)));
        assert_eq!(body["tool_choice"]["function"]["name"], "Bash");
        let image_url = &body["messages"][1]["content"][0]["image_url"]["url"];
        assert!(image_url.as_str().unwrap().starts_with("data:image/png;base64,"), "{image_url}");
    }
}

#[tokio::test]
async fn sdks_do_not_retry_an_exhausted_budget() {
    let (model, config) = start_upstream(script()).await;
    let budget = Budget { max_requests: Some(0), ..Budget::default() };
    let proxy = create_anthropic_proxy(ProxyConfig { budget, ..config }).await.unwrap();
    let test = "sdks_do_not_retry_an_exhausted_budget";
    let times = u64::from(run_clients(test, &proxy, &["refused"]).await);
    assert!(proxy.spent().refused == times && model.requests().is_empty(), "{:?}", proxy.spent());
}

#[tokio::test]
async fn sdks_detect_a_broken_answer() {
    let anthropic = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"model\":\"m\",\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n";
    let openai = "data: {\"id\":\"1\",\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n";
    let (_model, config) =
        start_upstream(Script::default().rule("break", Answer::stream(anthropic, BodyEnd::Broken))).await;
    let proxy = create_anthropic_proxy(config).await.unwrap();
    run_clients("sdks_detect_a_broken_answer", &proxy, &["broken"]).await;
    for ending in [BodyEnd::Broken, BodyEnd::Whole] {
        let (_model, config) =
            start_upstream(Script::default().rule("break", Answer::stream(openai, ending))).await;
        let proxy = create_openai_proxy(config).await.unwrap();
        run_clients("sdks_detect_a_broken_answer", &proxy, &["broken"]).await;
    }
}
