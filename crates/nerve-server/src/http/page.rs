//! Pagination of lists. A page begins after the last item of the previous one, so that concurrent changes
//! neither repeat nor skip other items.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::problem::Problem;
use super::query::{Kind, Query, short};

/// Default number of items on a page.
const DEFAULT_LIMIT: u64 = 100;
/// Maximum number of items on a page.
const MAX_LIMIT: u64 = 1000;
/// Maximum length of a cursor in bytes: a time and an id.
const MAX_CURSOR_BYTES: usize = 256;

pub(crate) const LIMIT: Query =
    Query::same("limit", Kind::Number, "Items of the page, from 1 to 1000; 100 if absent.");
pub(crate) const CURSOR: Query =
    Query::same("cursor", Kind::Text, "Where the page begins: next of the page before.");

/// Place of a list in a reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    /// The field with the items.
    items: &'static str,
    /// The field with the ids only, if there is one.
    ids: Option<&'static str>,
    /// The field of an item with its id.
    id: &'static str,
    /// The field of an item with its time: newest first. Without it, items are ordered by id.
    time: Option<&'static str>,
}

pub(crate) const NODES: List = List { items: "nodes_info", ids: Some("nodes"), id: "id", time: None };
pub(crate) const SESSIONS: List = List { items: "sessions", ids: None, id: "name", time: None };
pub(crate) const GRAPHS: List =
    List { items: "graphs_info", ids: Some("graphs"), id: "graph_id", time: None };
pub(crate) const RUNS: List = List { items: "runs", ids: None, id: "run_id", time: Some("started_at") };
pub(crate) const RESULTS: List =
    List { items: "results", ids: None, id: "result_id", time: Some("created_at") };
pub(crate) const RECORDINGS: List =
    List { items: "recordings", ids: None, id: "id", time: Some("started_at") };

/// The requested page.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Page {
    limit: usize,
    after: Option<Position>,
}

/// The position of an item in its list.
#[derive(Debug, Clone, PartialEq)]
struct Position {
    /// Seconds since the Unix epoch; 0 in lists without times.
    time: f64,
    id: String,
}

impl Position {
    fn cursor(&self) -> String {
        format!("{}~{}", self.time, self.id)
    }

    fn parse(cursor: &str) -> Option<Position> {
        let (time, id) = cursor.split_once('~')?;
        let time = time.parse::<f64>().ok().filter(|time| time.is_finite())?;
        (cursor.len() <= MAX_CURSOR_BYTES).then(|| Position { time, id: id.to_string() })
    }

    /// Orders by time, newest first, then by id.
    fn cmp(&self, other: &Position) -> Ordering {
        other.time.total_cmp(&self.time).then_with(|| self.id.cmp(&other.id))
    }
}

impl Page {
    /// Removes the page from the parameters, since commands do not know it.
    ///
    /// # Errors
    /// Returns a problem if the limit is out of range or the cursor is invalid.
    pub(crate) fn from_params(params: &mut Map<String, Value>) -> Result<Page, Problem> {
        let limit = params.shift_remove("limit").as_ref().and_then(Value::as_u64).unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(Problem::invalid(format!(
                "query parameter limit: {limit} is not from 1 to {MAX_LIMIT}"
            )));
        }
        let after = match params.shift_remove("cursor") {
            Some(Value::String(cursor)) => Some(Position::parse(&cursor).ok_or_else(|| {
                Problem::invalid(format!("query parameter cursor: invalid value {:?}", short(&cursor)))
                    .hint("use the value of 'next' from the previous page")
            })?),
            _ => None,
        };
        Ok(Page { limit: usize::try_from(limit).unwrap_or(usize::MAX), after })
    }

    /// Reduces a list to the page, and sets `next` to the cursor of the next page, or null.
    pub(crate) fn apply(&self, list: List, data: &mut Map<String, Value>) {
        let Some(Value::Array(items)) = data.get_mut(list.items).map(Value::take) else { return };
        let mut items: Vec<(Position, Value)> =
            items.into_iter().map(|item| (list.position(&item), item)).collect();
        items.sort_by(|(a, _), (b, _)| a.cmp(b));
        if let Some(after) = &self.after {
            items.retain(|(position, _)| position.cmp(after) == Ordering::Greater);
        }
        let more = items.len() > self.limit;
        items.truncate(self.limit);
        let next = items.last().filter(|_| more).map(|(position, _)| position.cursor());
        if let Some(ids) = list.ids {
            data.insert(ids.to_string(), items.iter().map(|(position, _)| position.id.as_str()).collect());
        }
        data.insert(list.items.to_string(), items.into_iter().map(|(_, item)| item).collect());
        data.insert("next".to_string(), next.map_or(Value::Null, Value::from));
    }
}

impl List {
    fn position(self, item: &Value) -> Position {
        let time = self.time.and_then(|field| item.get(field)?.as_f64()).unwrap_or(0.0);
        let id = item.get(self.id).and_then(Value::as_str).unwrap_or_default();
        Position { time, id: id.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    fn page(limit: u64, cursor: &Value) -> Page {
        Page::from_params(&mut object(json!({ "limit": limit, "cursor": cursor }))).unwrap()
    }

    #[test]
    fn pages_are_complete_despite_changes() {
        let all = |n: u32| -> Vec<Value> {
            (0..n)
                .map(|n| json!({ "run_id": format!("r{n}"), "started_at": f64::from(n / 2) + 0.1 }))
                .collect()
        };
        let mut seen = Vec::new();
        let mut cursor = Value::Null;
        for n in 20.. {
            // New items come first, and are not on later pages.
            let mut data = object(json!({ "runs": all(n) }));
            page(3, &cursor).apply(RUNS, &mut data);
            seen.extend(data["runs"].as_array().unwrap().iter().map(|run| run["run_id"].clone()));
            cursor = data["next"].take();
            if cursor.is_null() {
                break;
            }
        }
        assert_eq!(seen.len(), 20, "{seen:?}");
        assert_eq!(
            (&seen[0], &seen[1], &seen[2], &seen[19]),
            (&json!("r18"), &json!("r19"), &json!("r16"), &json!("r1"))
        );
    }

    #[test]
    fn ids_match_items_of_page() {
        let items: Vec<Value> = ["a", "b", "c"].iter().map(|id| json!({ "id": id })).collect();
        let mut data = object(json!({ "nodes": ["a", "b", "c"], "nodes_info": items }));
        page(2, &Value::Null).apply(NODES, &mut data);
        assert_eq!(data["nodes"], json!(["a", "b"]));
        let next = data["next"].clone();
        let mut data = object(json!({ "nodes": [], "nodes_info": [{ "id": "b" }, { "id": "c" }] }));
        page(2, &next).apply(NODES, &mut data);
        assert_eq!((&data["nodes"], &data["next"]), (&json!(["c"]), &Value::Null));
    }

    #[test]
    fn limits_and_cursors_are_checked() {
        for bad in [
            json!({ "limit": 0 }),
            json!({ "limit": 1001 }),
            json!({ "cursor": "x" }),
            json!({ "cursor": "nan~a" }),
        ] {
            assert!(Page::from_params(&mut object(bad.clone())).is_err(), "{bad}");
        }
        assert_eq!(Page::from_params(&mut Map::new()).unwrap(), Page { limit: 100, after: None });
    }
}
