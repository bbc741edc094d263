//! Prints entries of an audit log.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};

use crate::clock::local_time_of;
use crate::out;

/// Maximum printed length of a prompt, an answer and typed data, in characters.
const MAX_INPUT: usize = 50;
const MAX_ANSWER: usize = 100;
const MAX_TYPED: usize = 80;

/// Prints entries, separated by blank lines.
pub fn print(entries: &[Value]) -> Result<()> {
    for (number, entry) in entries.iter().enumerate() {
        if number > 0 {
            out::line("")?;
        }
        out::line(headline(entry))?;
        for detail in details(entry) {
            out::line(format_args!("    {detail}"))?;
        }
    }
    Ok(())
}

/// Counts the entries by operation.
pub fn count(entries: &[Value]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for entry in entries {
        *counts.entry(op(entry).to_string()).or_insert(0) += 1;
    }
    counts
}

/// Prints the counts.
pub(crate) fn print_summary(node: &str, server: &str, entries: &[Value], is_json: bool) -> Result<()> {
    let counts = count(entries);
    if is_json {
        return out::json(&json!({
            "node_id": node, "server_name": server, "total": entries.len(), "operations": counts,
        }));
    }
    out::line(format_args!("Node: {node}"))?;
    out::line(format_args!("Server: {server}"))?;
    out::line(format_args!("Total entries: {}", entries.len()))?;
    out::line("\nOperations:")?;
    for (op, count) in counts {
        out::line(format_args!("  {op}: {count}"))?;
    }
    Ok(())
}

fn headline(entry: &Value) -> String {
    let seq = entry.get("seq").map_or_else(|| "?".to_string(), Value::to_string);
    let op = out::preview(&op(entry).to_uppercase(), 20);
    let time = text(entry, "ts").or_else(|| text(entry, "ts_start")).unwrap_or("?");
    let note = match op.as_str() {
        "READ" => entry.get("lines").map(|lines| format!(" ({lines} lines)")),
        "INTERRUPT" => Some(" (Ctrl+C)".to_string()),
        "CLOSE" | "DELETE" => {
            let reason = text(entry, "reason").filter(|reason| !reason.is_empty());
            Some(format!(" (reason: {})", out::preview(reason.unwrap_or("normal"), MAX_TYPED)))
        }
        _ => None,
    };
    format!("[{seq}] {op} @ {}{}", out::preview(&local_time_of(time), 40), note.unwrap_or_default())
}

fn details(entry: &Value) -> Vec<String> {
    let input = text(entry, "input").unwrap_or_default();
    match op(entry) {
        "send" => {
            let mut lines = vec![format!("Input: {}", out::preview(input, MAX_INPUT))];
            let sections = entry.pointer("/response/sections").and_then(Value::as_array);
            if let Some((first, all)) = sections.and_then(|all| Some((all.first()?, all))) {
                let content = out::preview(text(first, "content").unwrap_or_default(), MAX_ANSWER);
                lines.push(format!("Response ({} sections): {content}", all.len()));
            }
            lines
        }
        "send_stream" => {
            let shown = out::preview(text(entry, "final_buffer").unwrap_or_default(), MAX_ANSWER);
            vec![format!("Input: {}", out::preview(input, MAX_INPUT)), format!("Final buffer: {shown}")]
        }
        "answer" | "cancel" | "unsent" => decision(entry),
        "write" | "run" => vec![out::preview(&visible(input), MAX_TYPED)],
        _ => Vec::new(),
    }
}

/// Returns the decision about a dialog or a prompt, and the client that made it.
fn decision(entry: &Value) -> Vec<String> {
    let names = ["dialog", "choice", "input", "reason"];
    let field = |name: &str| Some(format!("{name}: {}", out::preview(text(entry, name)?, MAX_TYPED)));
    let by =
        [text(entry, "client"), text(entry, "transport")].map(|text| out::preview(text.unwrap_or("?"), 40));
    let fields: Vec<String> = names.into_iter().filter_map(field).collect();
    vec![fields.join(", "), format!("By: {} ({})", by[0], by[1])]
}

/// Escapes the control characters in typed data.
fn visible(input: &str) -> String {
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    input.chars().map(escape).collect()
}

fn op(entry: &Value) -> &str {
    text(entry, "op").unwrap_or("unknown")
}

fn text<'a>(entry: &'a Value, key: &str) -> Option<&'a str> {
    entry.get(key)?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(entry: Value) -> String {
        let mut lines = vec![headline(&entry)];
        lines.extend(details(&entry));
        lines.join("|")
    }

    #[test]
    fn formats_entries() {
        let long = "x".repeat(60);
        let cases = [
            (
                json!({"seq": 3, "op": "send", "ts_start": "2025-12-22T10:30:05.000Z", "input": "Hello!",
                    "response": {"sections": [{"type": "text", "content": "Hi!\nthere"}]}}),
                format!(
                    "[3] SEND @ {}|Input: Hello!|Response (1 sections): Hi! there",
                    local_time_of("2025-12-22T10:30:05Z")
                ),
            ),
            (
                json!({"seq": 5, "op": "send_stream", "ts_start": "t", "input": long, "final_buffer": "def"}),
                format!("[5] SEND_STREAM @ t|Input: {}…|Final buffer: def", "x".repeat(50)),
            ),
            (json!({"seq": 2, "op": "read", "ts": "t", "lines": 50}), "[2] READ @ t (50 lines)".to_string()),
            (json!({"seq": 7, "op": "interrupt", "ts": "t"}), "[7] INTERRUPT @ t (Ctrl+C)".to_string()),
            (
                json!({"seq": 1, "op": "write", "ts": "t", "input": "\u{3}"}),
                "[1] WRITE @ t|\\u{3}".to_string(),
            ),
            (
                json!({"seq": 9, "op": "close", "ts": "t", "reason": null}),
                "[9] CLOSE @ t (reason: normal)".to_string(),
            ),
            (
                json!({"seq": 4, "op": "answer", "ts": "t", "dialog": "permission", "choice": "Yes",
                    "client": "uid 1 pid 2", "transport": "unix"}),
                "[4] ANSWER @ t|dialog: permission, choice: Yes|By: uid 1 pid 2 (unix)".to_string(),
            ),
            (json!({"op": 4}), "[?] UNKNOWN @ ?".to_string()),
        ];
        for (entry, expected) in cases {
            assert_eq!(shown(entry), expected);
        }
    }

    #[test]
    fn counts_operations() {
        let entries = [json!({"op": "run"}), json!({"op": "run"}), json!({})];
        assert_eq!(count(&entries), BTreeMap::from([("run".to_string(), 2), ("unknown".to_string(), 1)]));
    }
}
