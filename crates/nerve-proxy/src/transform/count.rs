//! How many tokens a request may have. Nobody but the model's maker knows.

use serde_json::Value;

/// Tokens of an image or a document, whatever is in it.
const PICTURE: u64 = 1600;

/// An estimate: a token for each four bytes of text, names and schemas; 1,600 for an image.
pub fn count_tokens(asked: &Value) -> u64 {
    let (mut bytes, mut pictures) = (0, 0);
    for part in ["system", "messages", "tools"] {
        weigh(&asked[part], &mut bytes, &mut pictures);
    }
    u64::try_from(bytes).unwrap_or(u64::MAX).div_ceil(4).saturating_add(pictures * PICTURE).max(1)
}

fn weigh(value: &Value, bytes: &mut usize, pictures: &mut u64) {
    match value {
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) => *bytes += 2,
        Value::String(text) => *bytes += text.len(),
        Value::Array(items) => items.iter().for_each(|item| weigh(item, bytes, pictures)),
        Value::Object(members)
            if members.get("type").is_some_and(|kind| kind == "base64" || kind == "url") =>
        {
            *pictures += 1;
        }
        Value::Object(members) => {
            for (name, member) in members {
                *bytes += name.len();
                weigh(member, bytes, pictures);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_counts_and_base64_does_not() {
        let text = |text: &str| count_tokens(&json!({ "messages": [{ "role": "user", "content": text }] }));
        assert_eq!(text(&"x".repeat(4000)) - text(""), 1000);
        let image = json!({ "type": "image", "source": { "type": "base64", "data": "A".repeat(1_000_000) } });
        let with = count_tokens(&json!({ "messages": [{ "role": "user", "content": [image] }] }));
        assert!((1600..1700).contains(&with), "{with}");
        assert_eq!(count_tokens(&json!({})), 1);
    }
}
