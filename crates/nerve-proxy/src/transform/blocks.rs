//! Blocks of a message: what can be told to the other side.

use serde_json::{Value, json};

use crate::api_error::Fault;

/// The blocks of a content; a string is one of text.
pub(super) fn of(content: &Value, place: &str) -> Result<Vec<Value>, Fault> {
    match content {
        Value::String(text) => Ok(vec![json!({ "type": "text", "text": text })]),
        Value::Array(blocks) => Ok(blocks.clone()),
        Value::Null => Ok(Vec::new()),
        _ => Err(Fault::bad_request(format!("{place}: neither a text nor blocks"))),
    }
}

/// The text of a content that can be nothing else.
pub(super) fn text(content: &Value, place: &str) -> Result<String, Fault> {
    let mut texts = Vec::new();
    for (at, block) in of(content, place)?.iter().enumerate() {
        match block["text"].as_str() {
            Some(text) if !text.is_empty() => texts.push(text.to_string()),
            Some(_) => {}
            None => return Err(unknown(block, &format!("{place}[{at}]"))),
        }
    }
    Ok(texts.join("\n"))
}

/// A text, an image or a document as a part of a message of the user; `None` for a text without a letter.
pub(super) fn part(block: &Value, place: &str) -> Result<Option<Value>, Fault> {
    let source = &block["source"];
    let kinds = (block["type"].as_str().unwrap_or_default(), source["type"].as_str().unwrap_or_default());
    let data = || format!("data:{};base64,{}", word(source, "media_type"), word(source, "data"));
    let part = match kinds {
        ("text", _) => {
            let text = word(block, "text");
            return Ok((!text.is_empty()).then(|| json!({ "type": "text", "text": text })));
        }
        ("image", "base64") => json!({ "type": "image_url", "image_url": { "url": data() } }),
        ("image", "url") => json!({ "type": "image_url", "image_url": { "url": word(source, "url") } }),
        ("document", "text") => json!({ "type": "text", "text": word(source, "data") }),
        ("document", "base64") => {
            let name = block["title"].as_str().unwrap_or("document.pdf");
            json!({ "type": "file", "file": { "filename": name, "file_data": data() } })
        }
        // A kind that is not known here, with something to read in it.
        _ if block["text"].is_string() => json!({ "type": "text", "text": word(block, "text") }),
        _ => return Err(unknown(block, place)),
    };
    Ok(Some(part))
}

/// What cannot be told to the other side is not left out in silence.
pub(super) fn unknown(block: &Value, place: &str) -> Fault {
    let kind: String = block["type"].as_str().unwrap_or("?").chars().take(60).collect();
    let source = block["source"]["type"].as_str().map(|source| format!(" from {source}")).unwrap_or_default();
    Fault::bad_request(format!("{place}: '{kind}'{source} cannot be told to a Chat Completions API"))
}

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}
