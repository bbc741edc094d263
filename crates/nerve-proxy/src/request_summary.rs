//! Reads the fields of a request that a proxy needs, and replaces the model's name without changing any other byte.

use serde::Deserialize;
use serde_json::value::RawValue;

/// The fields of a request that a proxy needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RequestSummary {
    pub(crate) model: Option<String>,
    pub(crate) stream: bool,
}

#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    stream: Option<&'a RawValue>,
}

/// Parses a body; `None` if it is not a JSON object or names its model twice.
pub(crate) fn parse(body: &[u8]) -> Option<RequestSummary> {
    let members: Members<'_> = serde_json::from_slice(body).ok()?;
    let model = members.model.and_then(|raw| serde_json::from_str(raw.get()).ok());
    Some(RequestSummary { model, stream: members.stream.is_some_and(|raw| raw.get() == "true") })
}

/// Returns the body with another model, or unchanged if it has no model.
pub(crate) fn replace_model(body: &[u8], model: &str) -> Option<Vec<u8>> {
    let members: Members<'_> = serde_json::from_slice(body).ok()?;
    let Some(raw) = members.model else { return Some(body.to_vec()) };
    // The raw value borrows from the body: its pointer gives its position.
    let start = (raw.get().as_ptr() as usize).checked_sub(body.as_ptr() as usize)?;
    let (before, rest) = body.split_at_checked(start)?;
    let after = rest.get(raw.get().len()..)?;
    let name = serde_json::to_vec(model).ok()?;
    Some([before, &name, after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_model_changes() {
        let body = "{ \"max_tokens\":1e3,\n \"messages\":[{\"model\":\"inner\"}], \"model\" : \"a\\u0062\" ,\"stream\":true, \"ä\": 0.10}";
        assert_eq!(parse(body.as_bytes()), Some(RequestSummary { model: Some("ab".into()), stream: true }));
        let expected = body.replace("\"a\\u0062\"", "\"x\\\"y\"");
        assert_eq!(replace_model(body.as_bytes(), "x\"y").unwrap(), expected.as_bytes());
    }

    #[test]
    fn bodies_without_a_model() {
        assert_eq!(replace_model(b"{\"a\":1}", "x").unwrap(), b"{\"a\":1}");
        assert_eq!(parse(b"{}"), Some(RequestSummary::default()));
        for bad in ["", "[1]", "{\"model\":\"a\"", "{\"model\":\"a\",\"model\":\"b\"}", "\"model\""] {
            assert_eq!((parse(bad.as_bytes()), replace_model(bad.as_bytes(), "x")), (None, None), "{bad}");
        }
        assert_eq!(parse(b"{\"model\":5,\"stream\":\"true\"}"), Some(RequestSummary::default()));
    }
}
