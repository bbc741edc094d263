//! Limits of one evaluation: its time, the size of its values and its output.

use std::fmt::{self, Write};
use std::time::{Duration, Instant};

use minijinja::value::ObjectRepr;
use minijinja::{Error, ErrorKind, State, Value};

use super::values::Response;

/// Maximum size of one value, in bytes of its text.
const MAX_VALUE: usize = 16 << 20;

/// Maximum size of all values that an evaluation creates, and of its output.
const MAX_TOTAL: usize = 32 << 20;

/// Maximum number of items of a value, at all levels.
const MAX_ITEMS: usize = 200_000;

/// Maximum number of levels of a value.
const MAX_DEPTH: usize = 64;

/// Maximum duration of an evaluation.
const MAX_TIME: Duration = Duration::from_secs(1);

/// Estimated memory of an item of a list.
const ITEM: usize = 32;

/// Maximum number of bytes that a filter with a test for each item compares.
const MAX_COMPARED: usize = 256 << 20;

/// The time and memory that are left to an evaluation.
pub(super) struct Budget {
    deadline: Instant,
    bytes: usize,
}

impl Budget {
    /// Returns the budget of the current evaluation. Its time begins with the first call.
    pub(super) fn of<'s>(state: &'s mut State<'_, '_>) -> &'s mut Budget {
        state
            .get_or_insert_extension_with(|| Budget { deadline: Instant::now() + MAX_TIME, bytes: MAX_TOTAL })
    }

    /// Checks the time.
    ///
    /// # Errors
    /// OutOfFuel: the time is over.
    pub(super) fn check_time(&self) -> Result<(), Error> {
        if Instant::now() < self.deadline { Ok(()) } else { Err(Error::from(ErrorKind::OutOfFuel)) }
    }

    /// Takes memory from the budget.
    ///
    /// # Errors
    /// OutOfFuel: the time is over, or the memory is used up.
    pub(super) fn charge(&mut self, bytes: usize) -> Result<(), Error> {
        self.check_time()?;
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.ok_or_else(|| exceeded(format!("values and output exceed {MAX_TOTAL} bytes")))?;
        Ok(())
    }

    /// Formats a value, at most as long as the budget.
    pub(super) fn display(&mut self, value: &Value) -> Result<String, Error> {
        let mut text = BoundedText { text: String::new(), left: self.bytes };
        let fits = write!(text, "{value}").is_ok();
        self.charge(if fits { text.text.len() } else { usize::MAX })?;
        Ok(text.text)
    }
}

/// Returns an error about an exceeded limit.
pub(super) fn exceeded(detail: impl Into<String>) -> Error {
    Error::new(ErrorKind::OutOfFuel, format!("template limit exceeded: {}", detail.into()))
}

struct BoundedText {
    text: String,
    left: usize,
}

impl Write for BoundedText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.left = self.left.checked_sub(part.len()).ok_or(fmt::Error)?;
        self.text.push_str(part);
        Ok(())
    }
}

/// The size of a value. Values that it contains several times count several times.
#[derive(Debug, Default)]
pub(super) struct Size {
    items: usize,
    text: usize,
}

impl Size {
    /// Measures a value.
    ///
    /// # Errors
    /// OutOfFuel: a limit is exceeded. InvalidOperation: the value contains a namespace, which could contain itself.
    pub(super) fn of(value: &Value) -> Result<Size, Error> {
        let mut size = Size::default();
        size.add(value, 0)?;
        Ok(size)
    }

    /// Returns the estimated memory.
    pub(super) fn bytes(&self) -> usize {
        self.text.saturating_add(self.items.saturating_mul(ITEM))
    }

    fn add(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.items += 1;
        if self.items > MAX_ITEMS {
            return Err(exceeded(format!("a value has more than {MAX_ITEMS} items")));
        }
        if let Some(text) = value.as_str() {
            self.text += text.len();
        } else if let Some(response) = value.downcast_object_ref::<Response>() {
            self.text += response.text().len();
        } else if let Some(object) = value.as_object() {
            reject_namespace(value)?;
            if depth == MAX_DEPTH {
                return Err(exceeded(format!("a value has more than {MAX_DEPTH} levels")));
            }
            match object.repr() {
                ObjectRepr::Map => {
                    for (key, item) in object.try_iter_pairs().into_iter().flatten() {
                        self.add(&key, depth + 1)?;
                        self.add(&item, depth + 1)?;
                    }
                }
                ObjectRepr::Seq | ObjectRepr::Iterable => {
                    for item in object.try_iter().into_iter().flatten() {
                        self.add(&item, depth + 1)?;
                    }
                }
                _ => {}
            }
        }
        check_bytes(self.text)
    }
}

/// Checks the size of one value.
fn check_bytes(bytes: usize) -> Result<(), Error> {
    if bytes <= MAX_VALUE {
        return Ok(());
    }
    Err(exceeded(format!("a value exceeds {MAX_VALUE} bytes")))
}

/// Checks the number of items of one value.
fn check_items(items: usize) -> Result<(), Error> {
    if items <= MAX_ITEMS {
        return Ok(());
    }
    Err(exceeded(format!("a value has more than {MAX_ITEMS} items")))
}

/// Rejects a namespace as a value: only its attributes can be used.
pub(super) fn reject_namespace(value: &Value) -> Result<(), Error> {
    if value.as_object().is_some_and(|object| object.type_name().ends_with("::Namespace")) {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "only the attributes of a namespace can be used",
        ));
    }
    Ok(())
}

/// Checks a value that an operator, a literal or a function has created. Lazy lists become real ones.
pub(super) fn check_created(state: &mut State<'_, '_>, value: Value) -> Result<Value, Error> {
    let budget = Budget::of(state);
    budget.check_time()?;
    Size::of(&value)?;
    let own = value.as_str().map_or_else(|| value.len().unwrap_or(0).saturating_mul(ITEM), str::len);
    budget.charge(own)?;
    materialize(value)
}

/// Checks the result of a filter.
pub(super) fn check_result(state: &mut State<'_, '_>, filter: &str, value: Value) -> Result<Value, Error> {
    let budget = Budget::of(state);
    budget.check_time()?;
    let size = Size::of(&value)?;
    let copies_text = value.as_str().is_some() || matches!(filter, "split" | "lines" | "fromjson");
    budget.charge(if copies_text { size.bytes() } else { size.items.saturating_mul(ITEM) })?;
    materialize(value)
}

/// Collects a lazy list or merged mapping. A chain of lazy values would be evaluated recursively.
fn materialize(value: Value) -> Result<Value, Error> {
    match value.as_object() {
        Some(object) if object.repr() == ObjectRepr::Iterable => {
            let items: Vec<Value> = object.try_iter().into_iter().flatten().collect();
            Ok(Value::from(items))
        }
        Some(object) if object.type_name().ends_with("::MergeDict") => {
            Ok(Value::from_pairs(object.try_iter_pairs().into_iter().flatten()))
        }
        _ => Ok(value),
    }
}

/// Estimates the size of a product, and returns 0 for a product of numbers.
pub(super) fn product_size(left: &Value, right: &Value) -> Result<usize, Error> {
    let (repeated, times) = match (left.as_usize(), right.as_usize()) {
        (None, Some(times)) => (left, times),
        (Some(times), None) => (right, times),
        _ => return Ok(0),
    };
    if repeated.is_number() {
        return Ok(0);
    }
    Ok(Size::of(repeated)?.bytes().saturating_mul(times))
}

/// Checks the size of a product before it exists.
pub(super) fn check_product(left: &Value, right: &Value) -> Result<(), Error> {
    check_bytes(product_size(left, right)?)
}

/// Checks the arguments of a filter whose result can be much larger than they are.
pub(super) fn check_arguments(filter: &str, arguments: &[Value]) -> Result<(), Error> {
    let Some((input, rest)) = arguments.split_first() else { return Ok(()) };
    let rest = flatten(rest);
    let largest = rest.iter().filter_map(Value::as_usize).max().unwrap_or(0);
    let text = input.as_str().unwrap_or_default();
    match filter {
        "format" => check_bytes(formatted_size(text, &rest, largest)?),
        "indent" => {
            check_bytes((text.matches('\n').count() + 1).saturating_mul(largest).saturating_add(text.len()))
        }
        "replace" => check_replacement(input, &rest),
        "join" => {
            let size = Size::of(input)?;
            let items = if input.as_str().is_some() { text.chars().count() } else { size.items };
            check_bytes(items.saturating_mul(longest(&rest)?).saturating_add(size.bytes()))
        }
        "lines" => check_items(text.matches('\n').count()),
        "split" => match rest.first().and_then(Value::as_str) {
            Some(separator) => check_items(text.matches(separator).count()),
            None => check_items(text.split_whitespace().count()),
        },
        "fromjson" => check_items(text.matches([',', '[', '{']).count() / 2),
        "sum" if rest.iter().skip(1).any(|value| !value.is_number() && value.as_str().is_some()) => {
            Err(Error::new(ErrorKind::InvalidOperation, "only numbers can be added"))
        }
        "select" | "reject" | "selectattr" | "rejectattr" => {
            let items = if input.as_str().is_some() { text.chars().count() } else { Size::of(input)?.items };
            check_items(items)?;
            let compared = items.saturating_mul(longest(&rest)?);
            if compared > MAX_COMPARED { Err(exceeded("too much text to compare")) } else { Ok(()) }
        }
        "batch" | "slice" => check_items(largest.max(text.chars().count())),
        "list" | "map" | "sort" | "unique" | "zip" | "chain" | "groupby" | "min" | "max" | "sum"
        | "items" => rest
            .iter()
            .chain([input])
            .filter_map(Value::as_str)
            .try_for_each(|text| check_items(text.chars().count())),
        _ => Ok(()),
    }
}

/// Returns positional and named arguments.
fn flatten(arguments: &[Value]) -> Vec<Value> {
    let mut all = Vec::new();
    for argument in arguments {
        match argument.as_object().filter(|_| argument.is_kwargs()) {
            Some(named) => all.extend(named.try_iter_pairs().into_iter().flatten().map(|(_, value)| value)),
            None => all.push(argument.clone()),
        }
    }
    all
}

/// Returns the size of the largest argument.
fn longest(arguments: &[Value]) -> Result<usize, Error> {
    arguments.iter().try_fold(0, |most, argument| Ok(most.max(Size::of(argument)?.text)))
}

/// Estimates the result of the filter `format`: each number in the text can be a width.
fn formatted_size(text: &str, arguments: &[Value], largest: usize) -> Result<usize, Error> {
    let widths = text
        .split(|c: char| !c.is_ascii_digit())
        .filter(|digits| !digits.is_empty())
        .fold(0_usize, |sum, digits| sum.saturating_add(digits.parse().unwrap_or(usize::MAX)));
    let mut each = if text.contains('*') { largest } else { 0 };
    for argument in arguments {
        each = each.max(Size::of(argument)?.bytes());
    }
    let fields = text.matches('%').count().saturating_mul(each);
    Ok(text.len().saturating_add(widths).saturating_add(fields))
}

fn check_replacement(input: &Value, rest: &[Value]) -> Result<(), Error> {
    let [from, to, ..] = rest else { return Ok(()) };
    let (text, from, to) = (input.to_string(), from.to_string(), to.to_string());
    check_bytes(text.len().saturating_add(text.matches(from.as_str()).count().saturating_mul(to.len())))
}
