//! The key of a result: a digest of a step's definition and input. A result can be reused if the key is the same.

use std::io::{self, Write};

use serde_json::Value;

/// Computes the key of a step from its `definition` (a digest), its `parser` and its `input`. The key is the 64-bit FNV-1a digest
/// of the definition, the parser and the input's JSON with sorted object keys. Keys are stored in journals, so this function must
/// never change.
pub fn key(definition: u64, parser: Option<&str>, input: &Value) -> u64 {
    let mut digest = Fnv::new();
    digest.update(&definition.to_le_bytes());
    if let Some(parser) = parser {
        digest.update(parser.as_bytes());
    }
    // 0xff does not occur in UTF-8, so parser and input stay distinguishable.
    digest.update(&[0xff]);
    digest.value(input);
    digest.0
}

/// FNV-1a, 64 bits (draft-eastlake-fnv §2).
pub(super) struct Fnv(u64);

impl Fnv {
    pub(super) fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    pub(super) fn hash(bytes: &[u8]) -> u64 {
        let mut digest = Fnv::new();
        digest.update(bytes);
        digest.0
    }

    fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Array(items) => {
                self.update(b"[");
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        self.update(b",");
                    }
                    self.value(item);
                }
                self.update(b"]");
            }
            Value::Object(fields) => {
                self.update(b"{");
                if fields.keys().is_sorted() {
                    self.fields(fields.iter());
                } else {
                    let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
                    sorted.sort_unstable_by_key(|(name, _)| *name);
                    self.fields(sorted.into_iter());
                }
                self.update(b"}");
            }
            Value::String(text) => self.scalar(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => self.scalar(value),
        }
    }

    fn fields<'a>(&mut self, fields: impl Iterator<Item = (&'a String, &'a Value)>) {
        for (index, (name, value)) in fields.enumerate() {
            if index > 0 {
                self.update(b",");
            }
            self.scalar(name);
            self.update(b":");
            self.value(value);
        }
    }

    fn scalar(&mut self, value: &(impl serde::Serialize + ?Sized)) {
        // These values always have JSON, and writing to a digest cannot fail.
        let _ = serde_json::to_writer(self, value);
    }
}

impl Write for Fnv {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Fnv, key};
    use serde_json::{Value, json};

    #[test]
    fn digest_is_fnv_1a() {
        // Test vectors of draft-eastlake-fnv, appendix C.
        assert_eq!(Fnv::hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(Fnv::hash(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(Fnv::hash(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn key_is_digest_of_canonical_text() {
        let mut text = 7_u64.to_le_bytes().to_vec();
        text.extend_from_slice(b"claude\xff{\"a\":[1,null,{}],\"b\":{\"x\":1.5,\"y\":\"q\\\"\"}}");
        let input = json!({"b": {"y": "q\"", "x": 1.5}, "a": [1, null, {}]});
        assert_eq!(key(7, Some("claude"), &input), Fnv::hash(&text));
    }

    #[test]
    fn order_matters_in_lists_but_not_in_objects() {
        let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let one = key(1, None, &parse(r#"{"b":[{"z":1,"y":2}],"a":1}"#));
        assert_eq!(one, key(1, None, &parse(r#"{"a":1,"b":[{"y":2,"z":1}]}"#)));
        assert_ne!(key(1, None, &parse("[1,2]")), key(1, None, &parse("[2,1]")));
    }

    #[test]
    fn different_inputs_have_different_keys() {
        let inputs = [
            json!(null),
            json!(""),
            json!("null"),
            json!(0),
            json!(false),
            json!([]),
            json!({}),
            json!([[]]),
        ];
        let mut keys: Vec<u64> = inputs.iter().map(|input| key(0, None, input)).collect();
        keys.push(key(1, None, &json!(null)));
        keys.push(key(0, Some("none"), &json!(null)));
        keys.push(key(0, Some("claude"), &json!(null)));
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }
}
