//! Content blocks as the text of a prompt.

use percent_encoding::percent_decode_str;

use crate::rpc_error::RpcError;
use crate::types::ContentBlock;

/// Returns the text of a prompt. A link to a file becomes its path, another link its URI.
///
/// # Errors
/// There is no text, or a block is neither text nor a resource link.
pub(crate) fn prompt_text(blocks: &[ContentBlock]) -> Result<String, RpcError> {
    let mut prompt = String::new();
    for block in blocks {
        match block {
            ContentBlock::Text { text } => prompt.push_str(text),
            ContentBlock::ResourceLink { uri, .. } => push_word(&mut prompt, &location(uri)),
            ContentBlock::Unsupported => {
                let error = RpcError::invalid_params("unsupported content: neither text nor a resource link");
                return Err(error.with("hint", "save it to a file and link to the file"));
            }
        }
    }
    match prompt.trim().is_empty() {
        true => {
            let error = RpcError::invalid_params("the prompt is empty");
            Err(error.with("hint", "send a text block with text"))
        }
        false => Ok(prompt),
    }
}

/// Appends a word, separated by a space.
fn push_word(prompt: &mut String, word: &str) {
    if prompt.chars().last().is_some_and(|last| !last.is_whitespace()) {
        prompt.push(' ');
    }
    prompt.push_str(word);
    prompt.push(' ');
}

fn location(uri: &str) -> String {
    match uri.strip_prefix("file://") {
        Some(path) => percent_decode_str(path).decode_utf8_lossy().into_owned(),
        None => uri.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn text(blocks: serde_json::Value) -> Result<String, i64> {
        let blocks: Vec<ContentBlock> = from_value(blocks).unwrap();
        prompt_text(&blocks).map_err(|error| error.code)
    }

    #[test]
    fn text_and_links_are_joined() {
        let blocks = json!([
            { "type": "text", "text": "Compare" },
            { "type": "resource_link", "name": "a b.rs", "uri": "file:///src/a%20b.rs", "size": 3 },
            { "type": "text", "text": "with" },
            { "type": "resource_link", "name": "x", "uri": "https://example.com/x" },
        ]);
        assert_eq!(text(blocks).unwrap(), "Compare /src/a b.rs with https://example.com/x ");
    }

    #[test]
    fn images_and_empty_prompts_are_invalid() {
        let image = json!([{ "type": "text", "text": "see" }, { "type": "image", "data": "", "mimeType": "image/png" }]);
        for blocks in [json!([]), json!([{ "type": "text", "text": " \n" }]), image] {
            assert_eq!(text(blocks), Err(crate::rpc_error::INVALID_PARAMS));
        }
    }
}
