//! Formats the lines of the log. They contain no headers and no known keys.

use std::time::Duration;

use http::Uri;
use nerve_types::token_usage::TokenUsage;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::report::CallReport;
use crate::secret::Secret;

/// Maximum size of a body in a line, in bytes.
pub(crate) const MAX_BODY: usize = 1 << 20;
const REDACTED: &str = "[redacted]";
/// Fields of a body whose values are always redacted.
const SECRET_FIELDS: [&str; 7] =
    ["authorization", "proxy-authorization", "x-api-key", "api_key", "apikey", "cookie", "set-cookie"];

/// A line of the log: about a request, or about the reply to it.
#[derive(Debug, Serialize)]
pub(crate) struct LogLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: &'a str,
    time: String,
    method: &'a str,
    path: &'a str,
    model: Option<&'a str>,
    /// Only for a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    #[serde(flatten)]
    reply: Option<ReplyFields<'a>>,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Value>,
}

/// Fields that only a reply's line has.
#[derive(Debug, Serialize)]
struct ReplyFields<'a> {
    status: Option<u16>,
    outcome: &'static str,
    tokens: Option<TokenUsage>,
    duration_ms: f64,
    /// Time to the first byte of the body.
    ttft_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

impl<'a> LogLine<'a> {
    /// Creates the line for a request with a body of `bytes` bytes.
    pub(crate) fn request(report: &'a CallReport, bytes: u64, body: Option<Value>) -> LogLine<'a> {
        let stream = Some(report.stream);
        LogLine { stream, bytes, ..LogLine::new("request", report, body) }
    }

    /// Creates the line for the reply of an ended request.
    pub(crate) fn reply(report: &'a CallReport, body: Option<Value>) -> LogLine<'a> {
        let reply = ReplyFields {
            status: report.status,
            outcome: report.outcome.as_str(),
            tokens: report.usage,
            duration_ms: milliseconds(report.took),
            ttft_ms: report.first.map(milliseconds),
            cost_usd: report.cost_usd,
            error: report.error.as_deref(),
        };
        LogLine { reply: Some(reply), ..LogLine::new("reply", report, body) }
    }

    fn new(kind: &'static str, report: &'a CallReport, body: Option<Value>) -> LogLine<'a> {
        LogLine {
            kind,
            id: &report.id,
            time: jiff::Timestamp::now().to_string(),
            method: &report.method,
            path: &report.path,
            model: report.model.as_deref(),
            stream: None,
            reply: None,
            bytes: report.bytes,
            node: report.node.as_deref(),
            turn: report.turn,
            session_id: report.session.as_deref(),
            body,
        }
    }
}

/// Converts to milliseconds, rounded to microseconds.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// Returns foreign text without keys, cut to `max_chars`. Keys are removed first, otherwise part of a key could remain.
pub(crate) fn clean_text(text: &str, max_chars: usize, secrets: &[&Secret]) -> String {
    redact_text(text, secrets).chars().take(max_chars).collect()
}

/// Returns the path and the query without its keys.
pub(crate) fn clean_path(uri: &Uri, secrets: &[&Secret]) -> String {
    let secret = |pair: &str| {
        let name = pair.split('=').next().unwrap_or_default().to_ascii_lowercase();
        ["key", "token", "secret", "auth"].iter().any(|word| name.contains(word))
    };
    let query: Vec<&str> = uri.query().unwrap_or_default().split('&').filter(|pair| !secret(pair)).collect();
    let whole = match query.join("&") {
        query if query.is_empty() => uri.path().to_string(),
        query => format!("{}?{query}", uri.path()),
    };
    clean_text(&whole, 2000, secrets)
}

/// Returns a body without keys: JSON as JSON, anything else as text.
pub(crate) fn clean_body(bytes: &[u8], is_whole: bool, secrets: &[&Secret]) -> Value {
    if is_whole
        && bytes.len() <= MAX_BODY
        && let Ok(mut value) = serde_json::from_slice::<Value>(bytes)
    {
        redact(&mut value, secrets);
        return value;
    }
    if is_whole && bytes.len() <= MAX_BODY {
        return redact_text(&String::from_utf8_lossy(bytes), secrets).into();
    }
    let cut = &bytes[..cut_before_secret(bytes, secrets)];
    json!({ "begin": redact_text(&String::from_utf8_lossy(cut), secrets), "is_cut": true })
}

/// Returns where a body is cut: at [`MAX_BODY`], or before a key that continues there. Part of a key would not be recognized.
fn cut_before_secret(bytes: &[u8], secrets: &[&Secret]) -> usize {
    let end = bytes.len().min(MAX_BODY);
    let begins = |start: &usize| {
        let rest = &bytes[*start..end];
        secrets.iter().any(|secret| is_prefix(rest, secret.reveal().as_bytes()))
    };
    let longest = secrets.iter().map(|secret| secret.reveal().len()).max().unwrap_or(0);
    (end.saturating_sub(longest)..end).find(begins).unwrap_or(end)
}

/// Returns true if `rest` is the begin of a key and not all of it.
fn is_prefix(rest: &[u8], key: &[u8]) -> bool {
    rest.len() < key.len() && key.starts_with(rest)
}

fn redact(value: &mut Value, secrets: &[&Secret]) {
    match value {
        Value::String(text) => *text = redact_text(text, secrets),
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, secrets)),
        Value::Object(members) => redact_fields(members, secrets),
        _ => {}
    }
}

fn redact_fields(members: &mut Map<String, Value>, secrets: &[&Secret]) {
    let has_secret = |name: &String| redact_text(name, secrets) != *name;
    let named: Vec<String> = members.keys().filter(|name| has_secret(name)).cloned().collect();
    for name in named {
        if let Some(value) = members.remove(&name) {
            members.insert(redact_text(&name, secrets), value);
        }
    }
    for (name, value) in members {
        // A tool's schema may have a field of such a name; its value is an object.
        if value.is_string() && SECRET_FIELDS.contains(&name.to_ascii_lowercase().as_str()) {
            *value = REDACTED.into();
        } else {
            redact(value, secrets);
        }
    }
}

fn redact_text(text: &str, secrets: &[&Secret]) -> String {
    // Replacing a very short key would damage the text.
    let long = secrets.iter().filter(|secret| secret.reveal().len() >= 8);
    long.fold(text.to_string(), |text, secret| text.replace(secret.reveal(), REDACTED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_redacted() {
        let (key, short) = (Secret::new("sk-ant-hunter2"), Secret::new("k"));
        let body = json!({
            "messages": [{ "content": "my key is sk-ant-hunter2, ok" }],
            "metadata": { "Cookie": "a=b", "X-API-Key": "c" },
            "tools": [{ "input_schema": { "properties": { "authorization": { "type": "string" } } } }],
        });
        let logged = clean_body(body.to_string().as_bytes(), true, &[&key, &short]);
        assert_eq!(
            logged,
            json!({
                "messages": [{ "content": "my key is [redacted], ok" }],
                "metadata": { "Cookie": "[redacted]", "X-API-Key": "[redacted]" },
                "tools": [{ "input_schema": { "properties": { "authorization": { "type": "string" } } } }],
            })
        );
        assert_eq!(clean_body(b"data: sk-ant-hunter2\n", true, &[&key]), json!("data: [redacted]\n"));
        let uri = Uri::from_static("http://h/v1/m?beta=true&api_key=hunter2&Token=x");
        assert_eq!(clean_path(&uri, &[&key]), "/v1/m?beta=true");
        assert_eq!(clean_path(&Uri::from_static("/v1/m?key=hunter2"), &[&key]), "/v1/m");
        assert_eq!(
            clean_path(&Uri::from_static("/v1/sk-ant-hunter2?q=sk-ant-hunter2"), &[&key]),
            "/v1/[redacted]?q=[redacted]"
        );
        assert_eq!(clean_text("s-sk-ant-hunter2", 10, &[&key]), "s-[redacte", "no part of a key");
    }

    #[test]
    fn large_body_is_cut() {
        let logged = clean_body(&vec![b'x'; MAX_BODY + 1], true, &[]);
        assert_eq!(
            (logged["is_cut"].clone(), logged["begin"].as_str().unwrap().len()),
            (json!(true), MAX_BODY)
        );
        assert_eq!(clean_body(b"{\"a\":", false, &[]), json!({ "begin": "{\"a\":", "is_cut": true }));
    }

    #[test]
    fn no_part_of_a_key_is_left_at_the_cut() {
        let key = Secret::new("sk-ant-hunter2");
        for is_whole in [true, false] {
            for before in [MAX_BODY - 1, MAX_BODY - 5, MAX_BODY - 13] {
                let body = format!("{}sk-ant-hunter2 and more", "x".repeat(before));
                let logged = clean_body(body.as_bytes(), is_whole, &[&key]);
                assert_eq!(logged["begin"].as_str().unwrap().len(), before, "part of a key");
            }
        }
        // A key at the end of a stream that was cut by its limit.
        let logged = clean_body(b"xxsk-ant", false, &[&key]);
        assert_eq!(logged["begin"], "xx");
    }

    #[test]
    fn keys_in_member_names_are_redacted() {
        let key = Secret::new("sk-ant-hunter2");
        let body = json!({ "sk-ant-hunter2": { "a sk-ant-hunter2": 1 } }).to_string();
        let redacted = json!({ "[redacted]": { "a [redacted]": 1 } });
        assert_eq!(clean_body(body.as_bytes(), true, &[&key]), redacted);
    }
}
