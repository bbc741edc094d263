//! Lines of the log. Headers are never in them, and of bodies no key that is known.

use std::time::Duration;

use http::Uri;
use serde_json::{Map, Value, json};

use crate::secret::Secret;
use crate::usage::Usage;

/// The largest body in a line, in bytes.
pub(crate) const BODY: usize = 1 << 20;
const REDACTED: &str = "[redacted]";
/// Members of a body that are keys, whoever put them there.
const SECRET_MEMBERS: [&str; 7] =
    ["authorization", "proxy-authorization", "x-api-key", "api_key", "apikey", "cookie", "set-cookie"];

/// A request as it came.
#[derive(Debug)]
pub(crate) struct Asking<'a> {
    pub(crate) id: &'a str,
    pub(crate) time: String,
    pub(crate) node: Option<&'a str>,
    pub(crate) turn: Option<u64>,
    pub(crate) session: Option<&'a str>,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) model: Option<&'a str>,
    pub(crate) stream: bool,
    pub(crate) bytes: u64,
    pub(crate) body: Option<Value>,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Answering<'a> {
    pub(crate) id: &'a str,
    pub(crate) time: String,
    pub(crate) node: Option<&'a str>,
    pub(crate) turn: Option<u64>,
    pub(crate) session: Option<&'a str>,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) status: Option<u16>,
    pub(crate) outcome: &'a str,
    pub(crate) error: Option<&'a str>,
    pub(crate) model: Option<&'a str>,
    pub(crate) usage: Option<Usage>,
    pub(crate) cost_usd: Option<f64>,
    pub(crate) took: Duration,
    pub(crate) first: Option<Duration>,
    pub(crate) bytes: u64,
    pub(crate) body: Option<Value>,
}

impl Asking<'_> {
    pub(crate) fn to_json(&self) -> Value {
        let mut line = json!({
            "type": "request", "id": self.id, "time": self.time, "method": self.method, "path": self.path,
            "model": self.model, "stream": self.stream, "bytes": self.bytes,
        });
        add(&mut line, "node", self.node.map(Value::from));
        add(&mut line, "turn", self.turn.map(Value::from));
        add(&mut line, "session_id", self.session.map(Value::from));
        add(&mut line, "body", self.body.clone());
        line
    }
}

impl Answering<'_> {
    pub(crate) fn to_json(&self) -> Value {
        let ms = |time: Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
        let usage = self.usage.map(|usage| {
            json!({
                "input": usage.input, "output": usage.output, "cache_read": usage.cache_read, "cache_write": usage.cache_write,
            })
        });
        let mut line = json!({
            "type": "reply", "id": self.id, "time": self.time, "method": self.method, "path": self.path, "status": self.status,
            "outcome": self.outcome, "model": self.model, "tokens": usage, "duration_ms": ms(self.took),
            "ttft_ms": self.first.map(ms), "bytes": self.bytes,
        });
        add(&mut line, "node", self.node.map(Value::from));
        add(&mut line, "turn", self.turn.map(Value::from));
        add(&mut line, "session_id", self.session.map(Value::from));
        add(&mut line, "cost_usd", self.cost_usd.map(Value::from));
        add(&mut line, "error", self.error.map(Value::from));
        add(&mut line, "body", self.body.clone());
        line
    }
}

fn add(line: &mut Value, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        line[name] = value;
    }
}

/// A text of somebody else as it is logged: without keys, and cut. Cut first, a part of a key could be left.
pub(crate) fn text(text: &str, most: usize, secrets: &[&Secret]) -> String {
    without(text, secrets).chars().take(most).collect()
}

/// A path with its query; keys in the query are taken out.
pub(crate) fn path(uri: &Uri, secrets: &[&Secret]) -> String {
    let secret = |pair: &str| {
        let name = pair.split('=').next().unwrap_or_default().to_ascii_lowercase();
        ["key", "token", "secret", "auth"].iter().any(|word| name.contains(word))
    };
    let query: Vec<&str> = uri.query().unwrap_or_default().split('&').filter(|pair| !secret(pair)).collect();
    let whole = match query.join("&") {
        query if query.is_empty() => uri.path().to_string(),
        query => format!("{}?{query}", uri.path()),
    };
    text(&whole, 2000, secrets)
}

/// A body as it is logged: JSON as JSON, anything else as text, without keys.
pub(crate) fn body(bytes: &[u8], is_whole: bool, secrets: &[&Secret]) -> Value {
    let cut = &bytes[..bytes.len().min(BODY)];
    if is_whole
        && bytes.len() <= BODY
        && let Ok(mut value) = serde_json::from_slice::<Value>(cut)
    {
        redact(&mut value, secrets);
        return value;
    }
    let text = without(&String::from_utf8_lossy(cut), secrets);
    match is_whole && cut.len() == bytes.len() {
        true => text.into(),
        false => json!({ "begin": text, "is_cut": true }),
    }
}

fn redact(value: &mut Value, secrets: &[&Secret]) {
    match value {
        Value::String(text) => *text = without(text, secrets),
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, secrets)),
        Value::Object(members) => redact_members(members, secrets),
        _ => {}
    }
}

fn redact_members(members: &mut Map<String, Value>, secrets: &[&Secret]) {
    for (name, value) in members {
        // The schema of a tool may well have a member of such a name: it is an object.
        if value.is_string() && SECRET_MEMBERS.contains(&name.to_ascii_lowercase().as_str()) {
            *value = REDACTED.into();
        } else {
            redact(value, secrets);
        }
    }
}

fn without(text: &str, secrets: &[&Secret]) -> String {
    // A very short key would take half of a text with it.
    let long = secrets.iter().filter(|secret| secret.reveal().len() >= 8);
    long.fold(text.to_string(), |text, secret| text.replace(secret.reveal(), REDACTED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_nowhere() {
        let (key, short) = (Secret::new("sk-ant-hunter2"), Secret::new("k"));
        let asked = json!({
            "messages": [{ "content": "my key is sk-ant-hunter2, ok" }],
            "metadata": { "Cookie": "a=b", "X-API-Key": "c" },
            "tools": [{ "input_schema": { "properties": { "authorization": { "type": "string" } } } }],
        });
        let logged = body(asked.to_string().as_bytes(), true, &[&key, &short]);
        assert_eq!(
            logged,
            json!({
                "messages": [{ "content": "my key is [redacted], ok" }],
                "metadata": { "Cookie": "[redacted]", "X-API-Key": "[redacted]" },
                "tools": [{ "input_schema": { "properties": { "authorization": { "type": "string" } } } }],
            })
        );
        assert_eq!(body(b"data: sk-ant-hunter2\n", true, &[&key]), json!("data: [redacted]\n"));
        let asked = Uri::from_static("http://h/v1/m?beta=true&api_key=hunter2&Token=x");
        assert_eq!(path(&asked, &[&key]), "/v1/m?beta=true");
        assert_eq!(path(&Uri::from_static("/v1/m?key=hunter2"), &[&key]), "/v1/m");
        assert_eq!(
            path(&Uri::from_static("/v1/sk-ant-hunter2?q=sk-ant-hunter2"), &[&key]),
            "/v1/[redacted]?q=[redacted]"
        );
        assert_eq!(text("s-sk-ant-hunter2", 10, &[&key]), "s-[redacte", "no piece of a key");
    }

    #[test]
    fn a_large_body_is_cut() {
        let logged = body(&vec![b'x'; BODY + 1], true, &[]);
        assert_eq!((logged["is_cut"].clone(), logged["begin"].as_str().unwrap().len()), (json!(true), BODY));
        assert_eq!(body(b"{\"a\":", false, &[]), json!({ "begin": "{\"a\":", "is_cut": true }));
    }
}
