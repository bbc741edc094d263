//! Values of the database: ids, numbers and kinds of documents.

use nerve_api::value::DocumentKind;

/// Bits of a document's id below its time.
const ID_COUNTER_BITS: u32 = 20;

/// Returns the lowest id of a document of this time.
pub(super) fn first_id(at_ms: u64) -> i64 {
    to_sql(at_ms).min(i64::MAX >> ID_COUNTER_BITS) << ID_COUNTER_BITS
}

/// Returns the kinds of documents that a screen has, or those of turns, for SQL.
pub(super) fn kinds(is_screen: bool) -> String {
    let all = (0..).map_while(DocumentKind::from_repr);
    let kinds = all.filter(|kind| (*kind == DocumentKind::Screen) == is_screen);
    kinds.map(|kind| (kind as i64).to_string()).collect::<Vec<_>>().join(", ")
}

/// Converts a number for the database, with `i64::MAX` for larger ones.
pub(super) fn to_sql(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Converts a number of the database, with 0 for negative ones.
pub(super) fn from_sql(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
