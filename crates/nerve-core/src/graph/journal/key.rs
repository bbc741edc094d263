//! The key of a result: what a step was, and what it was given. The same key means that the result can be used again.

use std::io::{self, Write};

use serde_json::Value;

/// The key of a step with `definition` (digest of how the graph defines it), a `parser` and an `input`: FNV-1a, 64 bits, over the
/// definition, the parser and the input's JSON with the keys of objects in order. The order in which an object was written does not
/// matter. Journals hold keys, so this function never changes.
pub fn key(definition: u64, parser: Option<&str>, input: &Value) -> u64 {
    let mut digest = Fnv::new();
    digest.take(&definition.to_le_bytes());
    if let Some(parser) = parser {
        digest.take(parser.as_bytes());
    }
    // No byte of UTF-8 is 0xff: the parser's end and the input's start cannot be taken for each other.
    digest.take(&[0xff]);
    digest.value(input);
    digest.0
}

/// FNV-1a, 64 bits (draft-eastlake-fnv §2).
pub(super) struct Fnv(u64);

impl Fnv {
    pub(super) fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    pub(super) fn of(bytes: &[u8]) -> u64 {
        let mut digest = Fnv::new();
        digest.take(bytes);
        digest.0
    }

    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Array(items) => {
                self.take(b"[");
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        self.take(b",");
                    }
                    self.value(item);
                }
                self.take(b"]");
            }
            Value::Object(fields) => {
                self.take(b"{");
                if fields.keys().is_sorted() {
                    self.fields(fields.iter());
                } else {
                    let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
                    sorted.sort_unstable_by_key(|(name, _)| *name);
                    self.fields(sorted.into_iter());
                }
                self.take(b"}");
            }
            Value::String(text) => self.scalar(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => self.scalar(value),
        }
    }

    fn fields<'a>(&mut self, fields: impl Iterator<Item = (&'a String, &'a Value)>) {
        for (index, (name, value)) in fields.enumerate() {
            if index > 0 {
                self.take(b",");
            }
            self.scalar(name);
            self.take(b":");
            self.value(value);
        }
    }

    fn scalar(&mut self, value: &(impl serde::Serialize + ?Sized)) {
        // A text, number, bool or null always has JSON, and a digest always takes it.
        let _ = serde_json::to_writer(self, value);
    }
}

impl Write for Fnv {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.take(bytes);
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
    fn the_digest_is_fnv_1a() {
        // The test values of draft-eastlake-fnv, appendix C.
        assert_eq!(Fnv::of(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(Fnv::of(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(Fnv::of(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_key_is_the_digest_of_the_canonical_text() {
        let mut text = 7_u64.to_le_bytes().to_vec();
        text.extend_from_slice(b"claude\xff{\"a\":[1,null,{}],\"b\":{\"x\":1.5,\"y\":\"q\\\"\"}}");
        let input = json!({"b": {"y": "q\"", "x": 1.5}, "a": [1, null, {}]});
        assert_eq!(key(7, Some("claude"), &input), Fnv::of(&text));
    }

    #[test]
    fn the_order_of_an_object_does_not_matter_and_of_a_list_does() {
        let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let one = key(1, None, &parse(r#"{"b":[{"z":1,"y":2}],"a":1}"#));
        assert_eq!(one, key(1, None, &parse(r#"{"a":1,"b":[{"y":2,"z":1}]}"#)));
        assert_ne!(key(1, None, &parse("[1,2]")), key(1, None, &parse("[2,1]")));
    }

    #[test]
    fn whatever_differs_gives_another_key() {
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
