//! The configured template engine: strict, bounded, without escaping and file access.

use std::borrow::Cow;
use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, ValueOrKwargs};
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Expression, Output, State, UndefinedBehavior, Value,
    escape_formatter, filters,
};

use super::{instrument, limits};

/// Maximum number of instructions per evaluation, less than a second's worth.
const FUEL: u64 = 5_000_000;

/// The engine of all expressions. Templates are added to clones of it.
pub(super) static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(new);

/// The operators without checks.
static UNCHECKED: LazyLock<Environment<'static>> = LazyLock::new(Environment::empty);
static PRODUCT: LazyLock<Option<Expression<'static, 'static>>> =
    LazyLock::new(|| UNCHECKED.compile_expression("left * right").ok());

/// Creates an engine without templates.
fn new() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_fuel(Some(FUEL));
    environment.set_debug(true);
    environment.set_syntax(syntax());
    environment.set_formatter(write_value);
    add_checks(&mut environment);
    for (name, filter) in native_filters() {
        environment.add_filter(name, move |state: &mut State<'_, '_>, arguments: Rest<ValueOrKwargs>| {
            let arguments = arguments.into_values();
            limits::Budget::of(state).check_time()?;
            limits::check_arguments(name, &arguments)?;
            let result = filter.call(state, &arguments)?;
            limits::check_result(state, name, result)
        });
    }
    // Prints all variables, which are untrusted output of other programs.
    environment.remove_global("debug");
    environment
}

/// Returns all filters, without their checks.
fn native_filters() -> Vec<(&'static str, Value)> {
    macro_rules! builtin {
        ($($name:ident)*) => { vec![$((stringify!($name), Value::from_function(filters::$name))),*] };
    }
    let mut all = builtin! {
        safe escape lower upper title capitalize replace length dictsort items reverse trim join split lines default
        round abs int float attr first last min max sort list string bool batch slice sum indent select reject
        selectattr rejectattr map groupby unique chain zip pprint format
    };
    all.extend([
        ("e", Value::from_function(filters::escape)),
        ("count", Value::from_function(filters::length)),
        ("d", Value::from_function(filters::default)),
        ("sh", Value::from_function(shell)),
        ("json", Value::from_function(json)),
        // The built-in filter is for HTML: it writes `<` as \u003c.
        ("tojson", Value::from_function(json)),
        ("fromjson", Value::from_function(from_json)),
    ]);
    all
}

/// Adds the internal filters that compiled programs use.
fn add_checks(environment: &mut Environment<'static>) {
    environment.add_filter(instrument::CHECK_CREATED, |state: &mut State<'_, '_>, value: ValueOrKwargs| {
        limits::check_created(state, value.into_value())
    });
    environment.add_filter(instrument::CHECK_TIME, |state: &mut State<'_, '_>, value: ValueOrKwargs| {
        limits::Budget::of(state).check_time().map(|()| value.into_value())
    });
    environment.add_filter(instrument::CHECK_PLAIN, |value: ValueOrKwargs| {
        limits::reject_namespace(&value).map(|()| value.into_value())
    });
    environment.add_filter(instrument::MULTIPLY, |state: &mut State<'_, '_>, left: Value, right: Value| {
        let product = multiply(left, right)?;
        limits::check_created(state, product)
    });
}

fn multiply(left: Value, right: Value) -> Result<Value, Error> {
    limits::check_product(&left, &right)?;
    let product = PRODUCT.as_ref().ok_or_else(|| Error::from(ErrorKind::InvalidOperation))?;
    // The error gets the position of the operator in the template.
    product.eval(Value::from_pairs([("left", left), ("right", right)])).map_err(|error| {
        Error::new(error.kind(), error.detail().unwrap_or("the values cannot be multiplied").to_string())
    })
}

/// Writes a value to the output, which may be captured by the template.
fn write_value(output: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let escapes = !matches!(state.auto_escape(), AutoEscape::None);
    let budget = limits::Budget::of(state);
    let text = match value.as_str() {
        Some(text) => {
            budget.charge(text.len())?;
            Cow::Borrowed(text)
        }
        None => Cow::Owned(budget.display(value)?),
    };
    if escapes {
        // HTML escapes have up to six bytes.
        budget.charge(text.len().saturating_mul(5))?;
        return escape_formatter(output, state, value);
    }
    output.write_str(&text).map_err(|_| Error::from(ErrorKind::WriteFailure))
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
    let result = ENVIRONMENT.empty_state().apply_filter(name, &[]);
    !matches!(result, Err(error) if error.kind() == ErrorKind::UnknownFilter)
}

/// Returns true if the test exists.
pub(super) fn has_test(name: &str) -> bool {
    let result = ENVIRONMENT.empty_state().perform_test(name, &[]);
    !matches!(result, Err(error) if error.kind() == ErrorKind::UnknownTest)
}

/// Returns the names of all functions.
pub(super) fn functions() -> impl Iterator<Item = &'static str> {
    ENVIRONMENT.globals().map(|(name, _)| name)
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
