//! Translates the content blocks of a message.

use serde_json::{Value, json};

use crate::api_error::ApiError;

/// Returns the blocks of a message's content; a string is a single text block.
pub(super) fn to_blocks(content: &Value, path: &str) -> Result<Vec<Value>, ApiError> {
    match content {
        Value::String(text) => Ok(vec![json!({ "type": "text", "text": text })]),
        Value::Array(blocks) => Ok(blocks.clone()),
        Value::Null => Ok(Vec::new()),
        _ => Err(ApiError::bad_request(format!("{path}: neither text nor blocks"))),
    }
}

/// Returns the text of content that may only contain text.
pub(super) fn text(content: &Value, path: &str) -> Result<String, ApiError> {
    let mut texts = Vec::new();
    for (at, block) in to_blocks(content, path)?.iter().enumerate() {
        match block["text"].as_str() {
            Some(text) if !text.is_empty() => texts.push(text.to_string()),
            Some(_) => {}
            None => return Err(unsupported(block, &format!("{path}[{at}]"))),
        }
    }
    Ok(texts.join("\n"))
}

/// Translates a text, image or document to a part of a user message; `None` for an empty text.
pub(super) fn translate(block: &Value, path: &str) -> Result<Option<Value>, ApiError> {
    let source = &block["source"];
    let kinds = (block["type"].as_str().unwrap_or_default(), source["type"].as_str().unwrap_or_default());
    let data = || format!("data:{};base64,{}", str_field(source, "media_type"), str_field(source, "data"));
    let part = match kinds {
        ("text", _) => {
            let text = str_field(block, "text");
            return Ok((!text.is_empty()).then(|| json!({ "type": "text", "text": text })));
        }
        ("image", "base64") => json!({ "type": "image_url", "image_url": { "url": data() } }),
        ("image", "url") => json!({ "type": "image_url", "image_url": { "url": str_field(source, "url") } }),
        ("document", "text") => json!({ "type": "text", "text": str_field(source, "data") }),
        ("document", "base64") => {
            let name = block["title"].as_str().unwrap_or("document.pdf");
            json!({ "type": "file", "file": { "filename": name, "file_data": data() } })
        }
        // An unknown type with readable text.
        _ if block["text"].is_string() => json!({ "type": "text", "text": str_field(block, "text") }),
        _ => return Err(unsupported(block, path)),
    };
    Ok(Some(part))
}

/// Returns the error for a block that cannot be translated. Omitting it silently would change the conversation.
pub(super) fn unsupported(block: &Value, path: &str) -> ApiError {
    let kind: String = block["type"].as_str().unwrap_or("?").chars().take(60).collect();
    let source = block["source"]["type"].as_str().map(|source| format!(" from {source}")).unwrap_or_default();
    ApiError::bad_request(format!("{path}: '{kind}'{source} cannot be translated to Chat Completions"))
}

fn str_field<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}
