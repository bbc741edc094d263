//! The configured template engine: strict, bounded, without escaping and file access.

use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value};

/// Maximum number of instructions per rendering, a few seconds' worth.
const FUEL: u64 = 20_000_000;

/// The engine of all expressions.
pub(super) static EXPRESSIONS: LazyLock<Environment<'static>> = LazyLock::new(new);

/// Creates an engine without templates.
pub(super) fn new() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_fuel(Some(FUEL));
    environment.set_debug(true);
    environment.set_syntax(syntax());
    environment.add_filter("sh", shell);
    environment.add_filter("json", json);
    // The built-in filter is for HTML: it writes `<` as \u003c.
    environment.add_filter("tojson", json);
    environment.add_filter("fromjson", from_json);
    // Prints all variables, which are untrusted output of other programs.
    environment.remove_global("debug");
    environment
}

/// Returns the syntax: the default, with trailing newlines kept.
pub(super) fn syntax() -> SyntaxConfig {
    let mut syntax = SyntaxConfig::builder();
    syntax.keep_trailing_newline(true);
    // The default delimiters are always valid.
    syntax.build().unwrap_or_default()
}

/// Returns true if the filter exists.
pub(super) fn has_filter(name: &str) -> bool {
    let found = EXPRESSIONS.empty_state().apply_filter(name, &[]);
    !matches!(found, Err(error) if error.kind() == ErrorKind::UnknownFilter)
}

/// Returns true if the test exists.
pub(super) fn has_test(name: &str) -> bool {
    let found = EXPRESSIONS.empty_state().perform_test(name, &[]);
    !matches!(found, Err(error) if error.kind() == ErrorKind::UnknownTest)
}

/// Returns the names of all functions.
pub(super) fn functions() -> impl Iterator<Item = &'static str> {
    EXPRESSIONS.globals().map(|(name, _)| name)
}

/// Names of filters to suggest.
pub(super) const FILTERS: [&str; 24] = [
    "sh", "json", "tojson", "fromjson", "lower", "upper", "title", "replace", "length", "items", "reverse",
    "trim", "join", "split", "lines", "default", "round", "int", "float", "first", "last", "sort", "indent",
    "unique",
];

/// Quotes a value as one shell word, and a list as several.
fn shell(value: Value) -> Result<String, Error> {
    if value.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    let words: Vec<String> = if value.kind() == minijinja::value::ValueKind::Seq {
        value.try_iter()?.map(|item| item.to_string()).collect()
    } else {
        vec![value.to_string()]
    };
    if words.iter().any(|word| word.contains('\0')) {
        return Err(Error::new(ErrorKind::InvalidOperation, "a shell word cannot contain NUL"));
    }
    Ok(shell_words::join(words))
}

fn json(value: Value, indent: Option<bool>) -> Result<String, Error> {
    if value.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    let written = match indent {
        Some(true) => serde_json::to_string_pretty(&value),
        _ => serde_json::to_string(&value),
    };
    written.map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))
}

fn from_json(text: String) -> Result<Value, Error> {
    match serde_json::from_str(&text) {
        Ok(value) => Ok(super::values::whole(&value)),
        Err(error) => Err(Error::new(ErrorKind::InvalidOperation, format!("invalid JSON: {error}"))),
    }
}
