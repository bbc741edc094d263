//! Parameters of a request, before they are read into its type.

use std::fmt;
use std::ops::{Deref, DerefMut};

use indexmap::IndexMap;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Parameters by name, in the order in which they came. The last value of a repeated name counts.
///
/// The values in a line or a body remain text until [`crate::request::read`] reads them into the fields of the request.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Params<'a>(IndexMap<String, Param<'a>>);

/// Value of a parameter.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Param<'a> {
    /// JSON in a line or a body.
    Json(&'a RawValue),
    /// A value from elsewhere, such as the path of a URL.
    Value(Value),
}

impl<'a> Params<'a> {
    /// Parses a JSON object.
    ///
    /// # Errors
    /// Fails for the same input and with the same errors as the conversion to a [`Map`] of [`Value`]s. The category is `Data` only if the
    /// input is JSON but not an object.
    pub fn parse(json: &'a [u8]) -> serde_json::Result<Params<'a>> {
        serde_json::from_slice::<ValidJson>(json)?;
        serde_json::from_slice(json).map(Params)
    }

    /// Parses a JSON object that this process has encoded.
    pub(crate) fn parse_valid(json: &'a str) -> serde_json::Result<Params<'a>> {
        serde_json::from_str(json).map(Params)
    }

    /// Converts the parameters to values.
    pub fn into_map(self) -> Map<String, Value> {
        self.0.into_iter().map(|(name, param)| (name, param.into_value())).collect()
    }
}

impl From<Map<String, Value>> for Params<'_> {
    fn from(values: Map<String, Value>) -> Self {
        Params(values.into_iter().map(|(name, value)| (name, Param::Value(value))).collect())
    }
}

impl<'a> Deref for Params<'a> {
    type Target = IndexMap<String, Param<'a>>;

    fn deref(&self) -> &IndexMap<String, Param<'a>> {
        &self.0
    }
}

impl<'a> DerefMut for Params<'a> {
    fn deref_mut(&mut self) -> &mut IndexMap<String, Param<'a>> {
        &mut self.0
    }
}

impl<'a> Param<'a> {
    /// Returns true for `null`, which means absent.
    pub fn is_null(&self) -> bool {
        match self {
            Param::Json(json) => json.get() == "null",
            Param::Value(value) => value.is_null(),
        }
    }

    /// Converts the parameter to a value.
    pub fn into_value(self) -> Value {
        match self {
            // It was parsed before, so this cannot fail.
            Param::Json(json) => serde_json::from_str(json.get()).unwrap_or_default(),
            Param::Value(value) => value,
        }
    }

    /// Returns the fields of an object; `None` for other values.
    pub(crate) fn fields(&self) -> Option<Params<'a>> {
        match self {
            Param::Json(json) => Params::parse_valid(json.get()).ok(),
            Param::Value(value) => value.as_object().cloned().map(Params::from),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Param<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Param<'a>, D::Error> {
        <&RawValue>::deserialize(deserializer).map(Param::Json)
    }
}

/// Validates JSON as strictly as the conversion to a [`Value`]. [`RawValue`] alone limits no nesting, and accepts numbers and escapes that
/// cannot be read.
struct ValidJson;

impl<'de> Deserialize<'de> for ValidJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ValidJson, D::Error> {
        deserializer.deserialize_any(ValidJson)
    }
}

impl<'de> Visitor<'de> for ValidJson {
    type Value = ValidJson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<ValidJson, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<ValidJson, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<ValidJson, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<ValidJson, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<ValidJson, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<ValidJson, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ValidJson, A::Error> {
        while list.next_element::<ValidJson>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<ValidJson, A::Error> {
        while object.next_entry::<IgnoredAny, ValidJson>()?.is_some() {}
        Ok(self)
    }
}
