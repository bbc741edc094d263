//! Replies of requests whose options decide the type of the reply.

use std::collections::HashMap;

use serde::de::{DeserializeOwned, Deserializer, Error, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Reply, RunEnded, RunInfo, Turn, TurnAccepted};

/// The empty reply `{}`. Decoding accepts any other value, including null.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Done {}

impl<'de> Deserialize<'de> for Done {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Done, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Done {})
    }
}

/// Reply to EXECUTE_INPUT.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ExecuteReply {
    /// The finished turn.
    Turn(Box<Turn>),
    /// Id of the result, with `async`.
    Accepted(TurnAccepted),
}

/// Reply to ANSWER_NODE.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum AnswerReply {
    /// The interrupted turn, with `wait`.
    Turn(Box<Turn>),
    /// Nothing, without `wait`: the dialog is closed.
    Done(Done),
}

/// Reply to EXECUTE_GRAPH, RUN_GRAPH and RESUME_RUN.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum RunReply {
    /// The run has ended.
    Ended(Box<RunEnded>),
    /// The started run, with `detach`.
    Started(Box<RunInfo>),
}

impl<'de> Deserialize<'de> for ExecuteReply {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ExecuteReply, D::Error> {
        let (is_accepted, json) = has(deserializer, "result_id")?;
        match is_accepted {
            true => read(&json).map(ExecuteReply::Accepted),
            false => read(&json).map(ExecuteReply::Turn),
        }
    }
}

impl<'de> Deserialize<'de> for AnswerReply {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AnswerReply, D::Error> {
        let (has_turn, json) = has(deserializer, "response")?;
        match has_turn {
            true => read(&json).map(AnswerReply::Turn),
            false => read(&json).map(AnswerReply::Done),
        }
    }
}

impl<'de> Deserialize<'de> for RunReply {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RunReply, D::Error> {
        let (has_ended, json) = has(deserializer, "results")?;
        match has_ended {
            true => read(&json).map(RunReply::Ended),
            false => read(&json).map(RunReply::Started),
        }
    }
}

/// Keeps the JSON as text. The flag is true if it is an object with the field.
fn has<'de, D: Deserializer<'de>>(deserializer: D, field: &str) -> Result<(bool, Box<RawValue>), D::Error> {
    let json = Box::<RawValue>::deserialize(deserializer)?;
    let fields: HashMap<String, &RawValue> = serde_json::from_str(json.get()).unwrap_or_default();
    Ok((fields.get(field).is_some_and(|field| field.get() != "null"), json))
}

fn read<T: DeserializeOwned, E: Error>(json: &RawValue) -> Result<T, E> {
    serde_json::from_str(json.get()).map_err(E::custom)
}

impl Reply for Done {}
impl Reply for ExecuteReply {}
impl Reply for AnswerReply {}

impl Reply for RunReply {
    fn run_mut(&mut self) -> Option<&mut RunEnded> {
        match self {
            RunReply::Ended(run) => Some(run),
            RunReply::Started(_) => None,
        }
    }
}

#[cfg(feature = "schema")]
mod schema {
    use std::borrow::Cow;

    use schemars::generate::SchemaGenerator;
    use schemars::{JsonSchema, Schema, json_schema};

    use super::{AnswerReply, Done, ExecuteReply, RunReply};
    use crate::reply::{RunEnded, RunInfo, Turn, TurnAccepted};

    /// Implements `JsonSchema` as "any of these".
    macro_rules! any_of {
        ($($reply:ident = $first:ty | $second:ty;)*) => {$(
            impl JsonSchema for $reply {
                fn inline_schema() -> bool {
                    true
                }

                fn schema_name() -> Cow<'static, str> {
                    stringify!($reply).into()
                }

                fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                    let (first, second) =
                        (generator.subschema_for::<$first>(), generator.subschema_for::<$second>());
                    json_schema!({ "anyOf": [first, second] })
                }
            }
        )*};
    }

    any_of! {
        ExecuteReply = Turn | TurnAccepted;
        // `TurnAccepted` is part of the published schema since the first version.
        AnswerReply = Turn | TurnAccepted;
        RunReply = RunEnded | RunInfo;
    }

    impl JsonSchema for Done {
        fn inline_schema() -> bool {
            true
        }

        fn schema_name() -> Cow<'static, str> {
            "Done".into()
        }

        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!({ "type": "object" })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json, to_value};

    use super::*;

    #[test]
    fn fields_tell_which_reply_it_is() {
        let accepted = json!({ "result_id": "r", "node_id": "a" });
        let reply: ExecuteReply = from_value(accepted.clone()).unwrap();
        assert!(matches!(&reply, ExecuteReply::Accepted(accepted) if accepted.result_id == "r"));
        assert_eq!(to_value(&reply).unwrap(), accepted);
        let reply: ExecuteReply = from_value(json!({ "response": { "text": "hi" } })).unwrap();
        assert!(matches!(reply, ExecuteReply::Turn(turn) if turn.response.text == "hi"));
        let missing = from_value::<ExecuteReply>(json!({})).unwrap_err().to_string();
        assert!(missing.starts_with("missing field `response`"), "{missing}");

        assert!(matches!(from_value(json!({})).unwrap(), AnswerReply::Done(Done {})));
        assert!(matches!(from_value(json!({ "response": {} })).unwrap(), AnswerReply::Turn(_)));
        assert_eq!(to_value(AnswerReply::Done(Done {})).unwrap(), json!({}));

        let run = json!({ "graph_id": "g", "run_id": "r", "state": "running" });
        assert!(matches!(from_value(run.clone()).unwrap(), RunReply::Started(_)));
        let mut ended = run;
        ended["results"] = json!({});
        assert!(matches!(from_value(ended).unwrap(), RunReply::Ended(_)));
    }
}
