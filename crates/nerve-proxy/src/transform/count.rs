//! Estimates the tokens of a request. Only the vendor knows the exact number.

use serde_json::Value;

/// Estimate for an image or a document of any size.
const TOKENS_PER_IMAGE: u64 = 1600;

/// Returns an estimate: one token per four bytes of text, names and schemas, and 1,600 per image.
pub fn count_tokens(request: &Value) -> u64 {
    let (mut bytes, mut images) = (0, 0);
    for part in ["system", "messages", "tools"] {
        add_size(&request[part], &mut bytes, &mut images);
    }
    u64::try_from(bytes).unwrap_or(u64::MAX).div_ceil(4).saturating_add(images * TOKENS_PER_IMAGE).max(1)
}

fn add_size(value: &Value, bytes: &mut usize, images: &mut u64) {
    match value {
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) => *bytes += 2,
        Value::String(text) => *bytes += text.len(),
        Value::Array(items) => items.iter().for_each(|item| add_size(item, bytes, images)),
        Value::Object(members)
            if members.get("type").is_some_and(|kind| kind == "base64" || kind == "url") =>
        {
            *images += 1;
        }
        Value::Object(members) => {
            for (name, member) in members {
                *bytes += name.len();
                add_size(member, bytes, images);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn base64_size_does_not_count() {
        let text = |text: &str| count_tokens(&json!({ "messages": [{ "role": "user", "content": text }] }));
        assert_eq!(text(&"x".repeat(4000)) - text(""), 1000);
        let image = json!({ "type": "image", "source": { "type": "base64", "data": "A".repeat(1_000_000) } });
        let with = count_tokens(&json!({ "messages": [{ "role": "user", "content": [image] }] }));
        assert!((1600..1700).contains(&with), "{with}");
        assert_eq!(count_tokens(&json!({})), 1);
    }
}
