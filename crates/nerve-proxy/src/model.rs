//! The few members of a request that matter to a proxy, and the name of another model in the place of the first; not another byte of the
//! body changes.

use serde::Deserialize;
use serde_json::value::RawValue;

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Asked {
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

/// Looks into a body; `None` if it is no JSON object, or names its model twice.
pub(crate) fn asked(body: &[u8]) -> Option<Asked> {
    let members: Members<'_> = serde_json::from_slice(body).ok()?;
    let model = members.model.and_then(|raw| serde_json::from_str(raw.get()).ok());
    Some(Asked { model, stream: members.stream.is_some_and(|raw| raw.get() == "true") })
}

/// The body with another model; as it is if it names none.
pub(crate) fn replaced(body: &[u8], model: &str) -> Option<Vec<u8>> {
    let members: Members<'_> = serde_json::from_slice(body).ok()?;
    let Some(raw) = members.model else { return Some(body.to_vec()) };
    // The value is a piece of the body: it tells where it stands.
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
    fn one_value_changes_and_nothing_else() {
        let body = "{ \"max_tokens\":1e3,\n \"messages\":[{\"model\":\"inner\"}], \"model\" : \"a\\u0062\" ,\"stream\":true, \"ä\": 0.10}";
        assert_eq!(asked(body.as_bytes()), Some(Asked { model: Some("ab".into()), stream: true }));
        let expected = body.replace("\"a\\u0062\"", "\"x\\\"y\"");
        assert_eq!(replaced(body.as_bytes(), "x\"y").unwrap(), expected.as_bytes());
    }

    #[test]
    fn bodies_that_name_no_model() {
        assert_eq!(replaced(b"{\"a\":1}", "x").unwrap(), b"{\"a\":1}");
        assert_eq!(asked(b"{}"), Some(Asked::default()));
        for bad in ["", "[1]", "{\"model\":\"a\"", "{\"model\":\"a\",\"model\":\"b\"}", "\"model\""] {
            assert_eq!((asked(bad.as_bytes()), replaced(bad.as_bytes(), "x")), (None, None), "{bad}");
        }
        assert_eq!(asked(b"{\"model\":5,\"stream\":\"true\"}"), Some(Asked::default()));
    }
}
