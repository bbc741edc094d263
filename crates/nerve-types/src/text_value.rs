//! Enums that are text in JSON.

/// Implements `as_str`, `Display`, serde and JSON Schema for an enum, from the names that `strum` derives. The enum derives
/// `EnumString`, `IntoStaticStr` and `VariantNames`.
///
/// * `closed E: "noun"` – decoding fails on another text. For requests; the error lists the values.
/// * `open E` – another text, for example from a newer server, becomes `E::default()`, whose name is `unknown`. For replies.
///
/// The calling crate depends on serde, and has a feature `schema` that depends on schemars.
#[macro_export]
macro_rules! text_value {
    (closed $name:ident: $noun:literal) => {
        $crate::text_value!(common $name);

        impl $name {
            /// Returns all values.
            pub fn names() -> impl Iterator<Item = &'static str> {
                <$name as ::strum::VariantNames>::VARIANTS.iter().copied()
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let text = <String as ::serde::Deserialize>::deserialize(deserializer)?;
                ::std::str::FromStr::from_str(&text).map_err(|_| {
                    let known = $name::names().collect::<Vec<_>>().join(", ");
                    // The text may be of any length.
                    let shown: String = text.chars().take(40).collect();
                    let message = format!("unknown {} {shown:?}: there are {known}", $noun);
                    <D::Error as ::serde::de::Error>::custom(message)
                })
            }
        }
    };
    (open $name:ident) => {
        $crate::text_value!(common $name);

        impl $name {
            /// Returns all known values.
            pub fn names() -> impl Iterator<Item = &'static str> {
                let unknown = $name::default().as_str();
                <$name as ::strum::VariantNames>::VARIANTS.iter().copied().filter(move |name| *name != unknown)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let text = <String as ::serde::Deserialize>::deserialize(deserializer)?;
                Ok(::std::str::FromStr::from_str(&text).unwrap_or_default())
            }
        }
    };
    (common $name:ident) => {
        impl $name {
            /// Returns the name in JSON.
            pub fn as_str(self) -> &'static str {
                self.into()
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        #[cfg(feature = "schema")]
        impl ::schemars::JsonSchema for $name {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                let names: Vec<&str> = $name::names().collect();
                ::schemars::json_schema!({ "type": "string", "enum": names })
            }
        }
    };
}
