//! The real Claude Code (pinned by xtask) as a model of OpenAI's API, with the scripted model API on loopback behind it: the
//! conversation that a client keeps is compared with the agent's own transcript.
#![expect(clippy::unwrap_used, reason = "a failed setup step panics and fails the test")]

use std::time::Duration;

use nerve_testkit::Renderer;
use nerve_testkit::harness::RealAgent;
use nerve_testkit::mock_model::Script;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const NERVE: &str = env!("CARGO_BIN_EXE_nerve");
/// Limit for a turn of a real agent.
const TURN: Duration = Duration::from_secs(120);

struct Api {
    agent: RealAgent,
    address: String,
    token: String,
}

impl Api {
    async fn start(agent: RealAgent) -> Api {
        let mut api = Api { agent, address: String::new(), token: String::new() };
        api.nerve(&["server", "start", "--http", "127.0.0.1:0"]).await;
        let status: Value = serde_json::from_str(&api.nerve(&["server", "status", "--json"]).await).unwrap();
        api.address = status["http"].as_str().unwrap().to_string();
        api.token = api.nerve(&["token", "show"]).await.trim().to_string();
        let command = api.agent.command_line();
        api.nerve(&["new", "me", "--command", &command]).await;
        api
    }

    async fn nerve(&self, arguments: &[&str]) -> String {
        RealAgent::run(self.agent.command(NERVE, arguments)).await.success()
    }

    /// Sends a conversation and returns the status and the body of the response.
    async fn send(&self, model: &str, texts: &[&str], stream: bool) -> (u16, String) {
        let roles = ["user", "assistant"].into_iter().cycle();
        let messages: Value =
            roles.zip(texts).map(|(role, text)| json!({ "role": role, "content": text })).collect();
        let options = json!({ "include_usage": true });
        let body =
            json!({ "model": model, "messages": messages, "stream": stream, "stream_options": options });
        let (address, token, body) = (&self.address, &self.token, body.to_string());
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Connection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut connection = TcpStream::connect(address).await.unwrap();
        connection.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        let mut response = String::new();
        let read = tokio::time::timeout(TURN, connection.read_to_string(&mut response)).await;
        read.unwrap_or_else(|_| panic!("no response: {response}")).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_string())
    }

    /// Sends a conversation and returns the answer.
    async fn answer(&self, model: &str, texts: &[&str]) -> String {
        let (status, body) = self.send(model, texts, false).await;
        assert_eq!(status, 200, "{body}");
        let completion: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(completion["choices"][0]["finish_reason"], "stop", "{completion}");
        completion["choices"][0]["message"]["content"].as_str().unwrap().to_string()
    }

    /// Sends a conversation and returns the events of the streamed answer.
    async fn stream(&self, model: &str, texts: &[&str]) -> Vec<Value> {
        let (status, body) = self.send(model, texts, true).await;
        assert_eq!(status, 200, "{body}");
        assert!(body.contains("data: [DONE]"), "{body}");
        let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter_map(|data| serde_json::from_str(data).ok()).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_keeps_a_conversation_with_a_client() {
    let script = Script::default();
    let Some(agent) = RealAgent::claude("real_agent_openai", Renderer::Classic, script).await else { return };
    let api = Api::start(agent).await;
    let one = api.answer("me", &["the first wordalpha"]).await;
    assert_eq!(one, "You said: the first wordalpha");
    let chunks = api.stream("me", &["the first wordalpha", &one, "LONG please"]).await;
    let contents = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
    let long: String = contents.collect();
    assert!(long.contains("END-OF-LONG"), "{long}");
    let usage = chunks.iter().find_map(|chunk| chunk["usage"]["total_tokens"].as_u64());
    assert!(usage.is_some_and(|total| total > 0), "{chunks:?}");
    // The streamed answer, which comes from the screen, is the one in the transcript.
    let texts = ["the first wordalpha", &one, "LONG please", &long, "the third wordgamma"];
    let three = api.answer("me", &texts).await;
    assert!(three.contains("wordgamma"), "{three}");
    assert_eq!(api.send("me", &["the first wordalpha", &one, "another"], false).await.0, 409);
    // A fork after the first turn, with an edited second prompt.
    let edited = api.answer("me:fork", &["the first wordalpha", &one, "the other worddelta"]).await;
    assert!(edited.contains("worddelta"), "{edited}");
    let (status, blocked) = api.send("me:node", &["TOUCHTOOL please"], false).await;
    assert_eq!(status, 409, "{blocked}");
    assert!(blocked.contains("nerve answer me"), "{blocked}");
    api.nerve(&["answer", "me", "1", "--wait"]).await;
    for arguments in [&["server", "stop", "--force", "--timeout", "5"][..], &["host", "stop", "--all"][..]] {
        let _ = api.agent.command(NERVE, arguments).output();
    }
}
