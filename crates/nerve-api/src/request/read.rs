//! Reads the parameters of a request into its type. Errors name the field.

use std::cell::RefCell;

use indexmap::map;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, IntoDeserializer, MapAccess};
use serde_json::Value;

use crate::params::{Param, Params};
use crate::request::RequestName;

/// Maximum length of a message in characters. An error quotes the value, which may be megabytes long.
const MAX_MESSAGE_CHARS: usize = 300;

/// Reads the parameters of a request.
///
/// # Errors
/// Returns a message for the client, which names the field that is missing or of the wrong type.
pub fn read<P: DeserializeOwned>(command: RequestName, params: &Params<'_>) -> Result<P, String> {
    // Reading from text fails at a name that is repeated within a field, and its errors contain positions. Values have neither problem.
    read_fields(command, params).or_else(|_| read_fields(command, &params.clone().into_map().into()))
}

fn read_fields<P: DeserializeOwned>(command: RequestName, params: &Params<'_>) -> Result<P, String> {
    let field = RefCell::new(None);
    let fields = Fields { rest: params.iter(), value: None, field: &field };
    P::deserialize(MapAccessDeserializer::new(fields)).map_err(|error| {
        let message = error.to_string();
        let (field, message) = match (field.take(), split_field(&message)) {
            (Some(field), _) => (Some(field), message.as_str()),
            (None, Some((field, message))) => (Some(field.to_string()), message),
            (None, None) => (None, message.as_str()),
        };
        let message = shorten(&describe(message));
        match field {
            Some(field) => format!("params.{field}: {message}"),
            None => match message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
                Some(missing) => format!("params.{missing} is missing: {command} needs it"),
                None => format!("params: {message}"),
            },
        }
    })
}

/// Returns an error that names the field, for fields that are read after the whole map, as those of a flattened struct.
pub(super) fn field_error<E: serde::de::Error>(field: &str, error: &E) -> E {
    E::custom(format_args!("field `{field}`: {error}"))
}

/// Splits the message of [`field_error`] into field and error.
fn split_field(message: &str) -> Option<(&str, &str)> {
    message.strip_prefix("field `")?.split_once("`: ")
}

/// Replaces names of Rust types in an error of serde by JSON terms.
fn describe(message: &str) -> String {
    // The quoted value may contain any text: the expected type follows the last occurrence.
    let Some((found, expected)) = message.rsplit_once(", expected ") else { return message.to_string() };
    let expected = match expected {
        "u16" => "a whole number from 0 to 65535",
        "u64" | "usize" => "a whole number, not negative",
        "a boolean" => "true or false",
        "a map" => "an object",
        "a sequence" => "a list",
        other => other,
    };
    let found = match found {
        "invalid type: map" => "invalid type: object",
        "invalid type: sequence" => "invalid type: list",
        other => other,
    };
    format!("{found}, expected {expected}")
}

fn shorten(message: &str) -> String {
    let chars = message.chars().count();
    if chars <= MAX_MESSAGE_CHARS {
        return message.to_string();
    }
    let head: String = message.chars().take(MAX_MESSAGE_CHARS / 2).collect();
    let tail: String = message.chars().skip(chars - MAX_MESSAGE_CHARS / 2).collect();
    format!("{head} … {tail}")
}

/// A map access that remembers the field being read.
struct Fields<'a> {
    rest: map::Iter<'a, String, Param<'a>>,
    value: Option<&'a Param<'a>>,
    field: &'a RefCell<Option<String>>,
}

impl<'a> MapAccess<'a> for Fields<'a> {
    type Error = serde_json::Error;

    fn next_key_seed<K: DeserializeSeed<'a>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, serde_json::Error> {
        let Some((key, value)) = self.rest.find(|(_, value)| !value.is_null()) else { return Ok(None) };
        self.value = Some(value);
        self.field.replace(Some(key.clone()));
        seed.deserialize(key.as_str().into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> Result<V::Value, serde_json::Error> {
        let value = match self.value.take() {
            Some(Param::Json(json)) => seed.deserialize(*json)?,
            Some(Param::Value(value)) => seed.deserialize(value)?,
            None => seed.deserialize(&Value::Null)?,
        };
        self.field.replace(None);
        Ok(value)
    }
}
