//! Examples of requests and their replies, for the OpenAPI document and the documentation page. `examples.json` contains them by the
//! name of the request.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use super::RequestName;

/// A request and its reply.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Example {
    /// Parameters of the request.
    pub params: Value,
    /// Reply to it.
    pub reply: Value,
}

impl RequestName {
    /// Returns an example of the request.
    pub fn example(self) -> Example {
        static EXAMPLES: LazyLock<HashMap<String, Example>> =
            LazyLock::new(|| serde_json::from_str(include_str!("examples.json")).unwrap_or_default());
        EXAMPLES.get(self.as_str()).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true if everything in `part` is in `whole`. A request without an optional field has its default.
    fn contains(whole: &Value, part: &Value) -> bool {
        match (whole, part) {
            (Value::Object(whole), Value::Object(part)) => {
                part.iter().all(|(name, value)| whole.get(name).is_some_and(|found| contains(found, value)))
            }
            _ => whole == part,
        }
    }

    #[test]
    fn every_request_has_an_example_that_decodes_without_loss() {
        for &name in RequestName::ALL {
            let example = name.example();
            assert_ne!(example, Example::default(), "{name} has no example");
            let [params, reply] = name.round_trip(&example.params, &example.reply);
            assert!(contains(&params, &example.params), "{name}: {params}");
            assert_eq!(reply, example.reply, "{name}");
        }
    }
}
