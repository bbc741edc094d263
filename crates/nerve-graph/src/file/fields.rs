//! Decodes values from a tree, and reports type mismatches, missing and unknown fields.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde_json::Value;
use strum::VariantNames;

use super::source_map::{Path, Report};
use super::tree::{Key, Kind, Tree, quoted};
use nerve_types::suggestion::nearest;

/// A type that can be decoded from a tree. Reports problems and returns `None` if the tree does not fit.
pub(super) trait Decode: Sized {
    fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<Self>;
}

/// The fields of a mapping.
pub(super) struct Fields<'t, 'p> {
    /// Noun phrase for messages, such as `a step`.
    what: &'static str,
    entries: &'t [(Key, Tree)],
    path: &'p Path<'p>,
    known: Vec<&'static str>,
    used: usize,
}

impl<'t: 'p, 'p> Fields<'t, 'p> {
    /// Expects a mapping. `what` names it in messages: `a step`, `a budget`.
    pub(super) fn expect(
        tree: &'t Tree,
        path: &'p Path<'p>,
        what: &'static str,
        report: &mut Report<'_>,
    ) -> Option<Fields<'t, 'p>> {
        match &tree.kind {
            Kind::Map(entries) => Some(Fields { what, entries, path, known: Vec::new(), used: 0 }),
            _ => {
                report.error(*path, format!("expected {what} (a mapping), found {}", tree.describe()));
                None
            }
        }
    }

    /// Returns the value of a field under any of its names.
    pub(super) fn take(
        &mut self,
        names: &[&'static str],
        report: &mut Report<'_>,
    ) -> Option<(&'t Tree, Path<'p>)> {
        self.known.extend_from_slice(names);
        let mut entry = None;
        for (key, value) in self.entries.iter().filter(|(key, _)| names.contains(&key.name.as_str())) {
            self.used += 1;
            match entry {
                None => entry = Some((key, value)),
                Some((first, _)) => {
                    let (first, second): (&Key, &Key) = (first, key);
                    let message = format!("{} and {} are the same field: keep one", first.name, second.name);
                    report.error(self.path.name(&second.name), message);
                }
            }
        }
        entry.map(|(key, value)| (value, Path::Key(self.path, &key.name)))
    }

    /// Decodes an optional field; null counts as missing.
    pub(super) fn optional<T: Decode>(&mut self, name: &'static str, report: &mut Report<'_>) -> Option<T> {
        self.optional_under(&[name], report)
    }

    /// Decodes an optional field under any of its names.
    pub(super) fn optional_under<T: Decode>(
        &mut self,
        names: &[&'static str],
        report: &mut Report<'_>,
    ) -> Option<T> {
        let (tree, at) = self.take(names, report)?;
        if matches!(tree.kind, Kind::Null) { None } else { T::decode(tree, at, report) }
    }

    /// Decodes an optional field with a default.
    pub(super) fn optional_or<T: Decode>(
        &mut self,
        name: &'static str,
        default: T,
        report: &mut Report<'_>,
    ) -> T {
        self.optional(name, report).unwrap_or(default)
    }

    /// Decodes a required field under any of its names.
    pub(super) fn required<T: Decode>(
        &mut self,
        names: &[&'static str],
        report: &mut Report<'_>,
    ) -> Option<T> {
        match self.take(names, report) {
            Some((tree, at)) => T::decode(tree, at, report),
            None => {
                let name = names.first().copied().unwrap_or_default();
                report.error(*self.path, format!("{} needs `{name}`", self.what));
                None
            }
        }
    }

    /// Reports unknown fields.
    pub(super) fn finish(self, report: &mut Report<'_>) {
        if self.used == self.entries.len() {
            return;
        }
        for (key, _) in self.entries.iter().filter(|(key, _)| !self.known.contains(&key.name.as_str())) {
            let message = format!("{} has no field {}", self.what, quoted(&key.name));
            let hint = match nearest(&key.name, self.known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known fields: {}", self.known.join(", ")),
            };
            report.error_with_hint(self.path.name(&key.name), message, hint);
        }
    }
}

/// Decodes the named fields of a struct. `$default` has the values of missing fields. A field can have an expression of its own.
macro_rules! decode_fields {
    ($fields:ident, $report:ident, $default:expr, $type:ident { $($field:ident $(: $value:expr)?),* $(,)? }) => {{
        let default = $default;
        #[allow(clippy::needless_update, reason = "some uses name every field")]
        let decoded =
            $type { $($field: decode_fields!(@field $fields, $report, default, $field $(, $value)?),)* ..default };
        decoded
    }};
    (@field $fields:ident, $report:ident, $default:ident, $field:ident) => {
        $fields.optional_or(stringify!($field), $default.$field, $report)
    };
    (@field $fields:ident, $report:ident, $default:ident, $field:ident, $value:expr) => {
        $value
    };
}

/// Decodes structs without required fields. `$what` names them in messages.
macro_rules! decode_mappings {
    ($($what:literal $type:ident { $($field:ident),* $(,)? })*) => {$(
        impl Decode for $type {
            fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<$type> {
                let mut fields = Fields::expect(tree, &at, $what, report)?;
                let decoded = decode_fields!(fields, report, $type::default(), $type { $($field),* });
                fields.finish(report);
                Some(decoded)
            }
        }
    )*};
}

pub(super) use {decode_fields, decode_mappings};

impl<T: Decode> Decode for Option<T> {
    fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<Option<T>> {
        if matches!(tree.kind, Kind::Null) { Some(None) } else { T::decode(tree, at, report).map(Some) }
    }
}

impl Decode for String {
    fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<String> {
        match &tree.kind {
            Kind::Text(text) => Some(text.clone()),
            Kind::Number(_) | Kind::Bool(_) => {
                let written = tree.to_value();
                let message = format!("expected a text, found {}", tree.describe());
                report.error_with_hint(at, message, format!("put it in quotes: \"{written}\""));
                None
            }
            // `{{ x }}` without quotes, where YAML reads it as a mapping.
            Kind::Map(entries) if entries.iter().any(|(key, _)| key.name.starts_with('{')) => {
                report.error_with_hint(
                    at,
                    "expected a text, found a mapping",
                    "put texts with {{ … }} in quotes",
                );
                None
            }
            _ => type_mismatch("a text", tree, at, report),
        }
    }
}

/// A text that may be written as a number or boolean: `PORT: 8080`.
pub(super) struct ScalarText(pub(super) String);

impl Decode for ScalarText {
    fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<ScalarText> {
        match &tree.kind {
            Kind::Text(text) => Some(ScalarText(text.clone())),
            Kind::Number(number) => Some(ScalarText(number.to_string())),
            Kind::Bool(truth) => Some(ScalarText(truth.to_string())),
            _ => type_mismatch("a text", tree, at, report),
        }
    }
}

impl Decode for bool {
    fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<bool> {
        match &tree.kind {
            Kind::Bool(truth) => Some(*truth),
            _ => type_mismatch("true or false", tree, at, report),
        }
    }
}

impl Decode for u64 {
    fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<u64> {
        let number = match &tree.kind {
            // 1e3 and 5.0 are integers, too.
            Kind::Number(number) => number.as_u64().or_else(|| {
                let number = number.as_f64()?;
                (number >= 0.0 && number < 2.0_f64.powi(53) && number.fract() == 0.0).then_some(number as u64)
            }),
            _ => None,
        };
        number.or_else(|| type_mismatch("a non-negative integer", tree, at, report))
    }
}

impl Decode for u32 {
    fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<u32> {
        narrow(tree, at, report)
    }
}

impl Decode for u16 {
    fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<u16> {
        narrow(tree, at, report)
    }
}

impl Decode for f64 {
    fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<f64> {
        match &tree.kind {
            Kind::Number(number) => number.as_f64(),
            _ => type_mismatch("a number", tree, at, report),
        }
    }
}

impl Decode for Value {
    fn decode(tree: &Tree, _: Path<'_>, _: &mut Report<'_>) -> Option<Value> {
        Some(tree.to_value())
    }
}

impl<T: Decode> Decode for Vec<T> {
    fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<Vec<T>> {
        match &tree.kind {
            Kind::List(items) => {
                let decode = |(index, item)| T::decode(item, at.index(index), report);
                let decoded: Vec<Option<T>> = items.iter().enumerate().map(decode).collect();
                decoded.into_iter().collect()
            }
            _ => type_mismatch("a list", tree, at, report),
        }
    }
}

impl<T: Decode> Decode for BTreeMap<String, T> {
    fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<BTreeMap<String, T>> {
        match &tree.kind {
            Kind::Map(entries) => {
                let decode = |(key, item): &(Key, Tree)| {
                    Some((key.name.clone(), T::decode(item, at.key(&key.name), report)?))
                };
                let decoded: Vec<Option<(String, T)>> = entries.iter().map(decode).collect();
                decoded.into_iter().collect()
            }
            _ => type_mismatch("a mapping", tree, at, report),
        }
    }
}

/// Decodes one of the keywords of an enum.
pub(super) fn keyword<T: FromStr + VariantNames>(
    tree: &Tree,
    at: Path<'_>,
    report: &mut Report<'_>,
) -> Option<T> {
    let text = match &tree.kind {
        Kind::Text(text) => text.as_str(),
        _ => "",
    };
    if let Ok(value) = text.parse() {
        return Some(value);
    }
    let message = format!("expected {}, found {}", join_or(T::VARIANTS), tree.describe());
    match nearest(text, T::VARIANTS.iter().copied()) {
        Some(near) => report.error_with_hint(at, message, format!("did you mean `{near}`?")),
        None => report.error(at, message),
    }
    None
}

/// Joins names: `a`, `a or b`, `a, b or c`.
pub(super) fn join_or(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_string(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

fn narrow<T: TryFrom<u64>>(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<T> {
    let number = u64::decode(tree, at, report)?;
    let narrow = T::try_from(number).ok();
    if narrow.is_none() {
        report.error(at, format!("{number} is too large"));
    }
    narrow
}

pub(super) fn type_mismatch<T>(what: &str, tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<T> {
    report.error(at, format!("expected {what}, found {}", tree.describe()));
    None
}
