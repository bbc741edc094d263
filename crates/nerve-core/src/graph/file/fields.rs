//! Reads fields out of a tree, and says in words what is wrong with their shape.

use std::collections::BTreeMap;

use serde_json::Value;

use super::source_map::{Path, Report};
use super::suggestion::near;
use super::tree::{Key, Kind, Tree, quoted};

/// Something that can be read from a value of a file. Says what is wrong, and gives `None`, where it cannot.
pub(super) trait Read: Sized {
    fn read(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<Self>;
}

/// A mapping with fields of known names.
pub(super) struct Fields<'t, 'p> {
    /// `a step`, for messages.
    what: &'static str,
    entries: &'t [(Key, Tree)],
    path: &'p Path<'p>,
    known: Vec<&'static str>,
    used: usize,
}

impl<'t: 'p, 'p> Fields<'t, 'p> {
    /// `what` it should be: `a step`, `a budget`.
    pub(super) fn of(
        tree: &'t Tree,
        path: &'p Path<'p>,
        what: &'static str,
        report: &mut Report<'_>,
    ) -> Option<Fields<'t, 'p>> {
        match &tree.kind {
            Kind::Map(entries) => Some(Fields { what, entries, path, known: Vec::new(), used: 0 }),
            _ => {
                report.say(*path, format!("expected {what} (a mapping), found {}", tree.describe()));
                None
            }
        }
    }

    /// The value of a field under any of its names.
    pub(super) fn take(
        &mut self,
        names: &[&'static str],
        report: &mut Report<'_>,
    ) -> Option<(&'t Tree, Path<'p>)> {
        self.known.extend_from_slice(names);
        let mut found = None;
        for (key, value) in self.entries.iter().filter(|(key, _)| names.contains(&key.name.as_str())) {
            self.used += 1;
            match found {
                None => found = Some((key, value)),
                Some((first, _)) => {
                    let (first, second): (&Key, &Key) = (first, key);
                    let message = format!("{} and {} are the same field: keep one", first.name, second.name);
                    report.say(self.path.name(&second.name), message);
                }
            }
        }
        found.map(|(key, value)| (value, Path::Key(self.path, &key.name)))
    }

    /// A field that may be missing; one with nothing in it is.
    pub(super) fn optional<T: Read>(&mut self, name: &'static str, report: &mut Report<'_>) -> Option<T> {
        let (tree, at) = self.take(&[name], report)?;
        if matches!(tree.kind, Kind::Null) { None } else { T::read(tree, at, report) }
    }

    /// A field that may be missing, else its default.
    pub(super) fn or<T: Read>(&mut self, name: &'static str, default: T, report: &mut Report<'_>) -> T {
        self.optional(name, report).unwrap_or(default)
    }

    /// A field that must be there, under any of its names.
    pub(super) fn required<T: Read>(&mut self, names: &[&'static str], report: &mut Report<'_>) -> Option<T> {
        match self.take(names, report) {
            Some((tree, at)) => T::read(tree, at, report),
            None => {
                let name = names.first().copied().unwrap_or_default();
                report.say(*self.path, format!("{} needs `{name}`", self.what));
                None
            }
        }
    }

    /// Says which fields there are besides those that were asked for.
    pub(super) fn finish(self, report: &mut Report<'_>) {
        if self.used == self.entries.len() {
            return;
        }
        for (key, _) in self.entries.iter().filter(|(key, _)| !self.known.contains(&key.name.as_str())) {
            let message = format!("{} has no field {}", self.what, quoted(&key.name));
            let hint = match near(&key.name, self.known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("it has {}", self.known.join(", ")),
            };
            report.advise(self.path.name(&key.name), message, hint);
        }
    }
}

impl Read for String {
    fn read(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<String> {
        match &tree.kind {
            Kind::Text(text) => Some(text.clone()),
            Kind::Number(_) | Kind::Bool(_) => {
                let written = tree.to_value();
                let message = format!("expected a text, found {}", tree.describe());
                report.advise(at, message, format!("put it in quotes: \"{written}\""));
                None
            }
            // `{{ x }}` without quotes, in a place where that is YAML.
            Kind::Map(entries) if entries.iter().any(|(key, _)| key.name.starts_with('{')) => {
                report.advise(at, "expected a text, found a mapping", "put a text with {{ … }} in quotes");
                None
            }
            _ => expected("a text", tree, at, report),
        }
    }
}

/// A text that may be written as a number or a truth: `PORT: 8080`.
pub(super) struct Loose(pub(super) String);

impl Read for Loose {
    fn read(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<Loose> {
        match &tree.kind {
            Kind::Text(text) => Some(Loose(text.clone())),
            Kind::Number(number) => Some(Loose(number.to_string())),
            Kind::Bool(truth) => Some(Loose(truth.to_string())),
            _ => expected("a text", tree, at, report),
        }
    }
}

impl Read for bool {
    fn read(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<bool> {
        match &tree.kind {
            Kind::Bool(truth) => Some(*truth),
            _ => expected("true or false", tree, at, report),
        }
    }
}

impl Read for u64 {
    fn read(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<u64> {
        let number = match &tree.kind {
            // 1e3 and 5.0 are whole numbers too.
            Kind::Number(number) => number.as_u64().or_else(|| {
                let number = number.as_f64()?;
                (number >= 0.0 && number < 2.0_f64.powi(53) && number.fract() == 0.0).then_some(number as u64)
            }),
            _ => None,
        };
        number.or_else(|| expected("a whole number, not negative", tree, at, report))
    }
}

impl Read for u32 {
    fn read(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<u32> {
        narrow(tree, at, report)
    }
}

impl Read for u16 {
    fn read(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<u16> {
        narrow(tree, at, report)
    }
}

impl Read for f64 {
    fn read(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<f64> {
        match &tree.kind {
            Kind::Number(number) => number.as_f64(),
            _ => expected("a number", tree, at, report),
        }
    }
}

impl Read for Value {
    fn read(tree: &Tree, _: Path<'_>, _: &mut Report<'_>) -> Option<Value> {
        Some(tree.to_value())
    }
}

impl<T: Read> Read for Vec<T> {
    fn read(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<Vec<T>> {
        match &tree.kind {
            Kind::List(items) => {
                let read = |(index, item)| T::read(item, at.index(index), report);
                let read: Vec<Option<T>> = items.iter().enumerate().map(read).collect();
                read.into_iter().collect()
            }
            _ => expected("a list", tree, at, report),
        }
    }
}

impl<T: Read> Read for BTreeMap<String, T> {
    fn read(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<BTreeMap<String, T>> {
        match &tree.kind {
            Kind::Map(entries) => {
                let read = |(key, item): &(Key, Tree)| {
                    Some((key.name.clone(), T::read(item, at.key(&key.name), report)?))
                };
                let read: Vec<Option<(String, T)>> = entries.iter().map(read).collect();
                read.into_iter().collect()
            }
            _ => expected("a mapping", tree, at, report),
        }
    }
}

/// One of a few words.
pub(super) fn word<T: Copy>(
    words: &[(&'static str, T)],
    tree: &Tree,
    at: Path<'_>,
    report: &mut Report<'_>,
) -> Option<T> {
    let text = match &tree.kind {
        Kind::Text(text) => text.as_str(),
        _ => "",
    };
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
        return Some(*value);
    }
    let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let message = format!("expected {}, found {}", either(&names), tree.describe());
    match near(text, names) {
        Some(near) => report.advise(at, message, format!("did you mean `{near}`?")),
        None => report.say(at, message),
    }
    None
}

/// `a`, `a or b`, `a, b or c`.
pub(super) fn either(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_string(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

fn narrow<T: TryFrom<u64>>(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<T> {
    let number = u64::read(tree, at, report)?;
    let narrow = T::try_from(number).ok();
    if narrow.is_none() {
        report.say(at, format!("{number} is too large"));
    }
    narrow
}

pub(super) fn expected<T>(what: &str, tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<T> {
    report.say(at, format!("expected {what}, found {}", tree.describe()));
    None
}
