//! Pagination of lists. A page begins after the last item of the previous one, so that concurrent changes
//! neither repeat nor skip other items.

use std::any::Any;
use std::cmp::Ordering;

use nerve_api::reply::{
    GraphInfo, GraphList, NodeInfo, NodeList, RecordingInfo, RecordingList, ResultInfo, ResultList, RunInfo,
    RunList, SessionInfo, SessionList,
};
use nerve_api::{AnyReply, Reply};
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

/// A reply that is a list.
pub(crate) trait List: Reply {
    type Item;

    fn items(&mut self) -> &mut Vec<Self::Item>;

    /// Returns the time and the id of an item. Items are ordered by time, newest first, and then by id; the time is 0 in lists that are
    /// ordered by id.
    fn key(item: &Self::Item) -> (f64, &str);

    /// Lists the ids of the items, in replies that have such a list too.
    fn list_ids(&mut self) {}
}

/// Implements [`List`]: the fields of the reply with the items and the ids, and those of an item with its id and its time.
macro_rules! lists {
    ($($list:ident { $items:ident: $item:ident { $id:ident $(, $time:ident)? } $(, $ids:ident)? })*) => {$(
        impl List for $list {
            type Item = $item;

            fn items(&mut self) -> &mut Vec<$item> {
                &mut self.$items
            }

            fn key(item: &$item) -> (f64, &str) {
                (0.0 $(+ seconds(item.$time))?, &item.$id)
            }

            $(fn list_ids(&mut self) {
                self.$ids = self.$items.iter().map(|item| item.$id.clone()).collect();
            })?
        }
    )*};
}

lists! {
    NodeList { nodes_info: NodeInfo { id }, nodes }
    SessionList { sessions: SessionInfo { name } }
    GraphList { graphs_info: GraphInfo { graph_id }, graphs }
    RunList { runs: RunInfo { run_id, started_at } }
    ResultList { results: ResultInfo { result_id, created_at } }
    RecordingList { recordings: RecordingInfo { id, started_at } }
}

/// Returns a time; 0 if it is unknown.
fn seconds(time: impl Into<Option<f64>>) -> f64 {
    time.into().unwrap_or(0.0)
}

/// Reduces a list, whose type it knows, to a page. Returns the cursor of the next page.
pub(crate) type Paginate = fn(&Page, &mut dyn AnyReply) -> Option<String>;

/// Implements [`Paginate`] for one type of list.
pub(crate) fn paginate<L: List>(page: &Page, reply: &mut dyn AnyReply) -> Option<String> {
    page.apply((reply as &mut dyn Any).downcast_mut::<L>()?)
}

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
    fn parse(cursor: &str) -> Option<Position> {
        let (time, id) = cursor.split_once('~')?;
        let time = time.parse::<f64>().ok().filter(|time| time.is_finite())?;
        (cursor.len() <= MAX_CURSOR_BYTES).then(|| Position { time, id: id.to_string() })
    }
}

/// Orders keys of items by time, newest first, then by id.
fn compare(a: (f64, &str), b: (f64, &str)) -> Ordering {
    b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1))
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

    /// Reduces a list to the page. Returns the cursor of the next page; `None` on the last page.
    fn apply<L: List>(&self, list: &mut L) -> Option<String> {
        let items = list.items();
        items.sort_by(|a, b| compare(L::key(a), L::key(b)));
        if let Some(after) = &self.after {
            items.retain(|item| compare(L::key(item), (after.time, &after.id)) == Ordering::Greater);
        }
        let has_more = items.len() > self.limit;
        items.truncate(self.limit);
        let next = items.last().filter(|_| has_more).map(|item| {
            let (time, id) = L::key(item);
            format!("{time}~{id}")
        });
        list.list_ids();
        next
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
        let all = |n: u32| {
            let run = |n: u32| RunInfo {
                run_id: format!("r{n}"),
                started_at: f64::from(n / 2) + 0.1,
                ..RunInfo::default()
            };
            RunList { runs: (0..n).map(run).collect() }
        };
        let mut seen = Vec::new();
        let mut cursor = Value::Null;
        for n in 20.. {
            // New items come first, and are not on later pages.
            let mut list = all(n);
            let next = page(3, &cursor).apply(&mut list);
            seen.extend(list.runs.into_iter().map(|run| run.run_id));
            match next {
                Some(next) => cursor = next.into(),
                None => break,
            }
        }
        assert_eq!(seen.len(), 20, "{seen:?}");
        assert_eq!([&seen[0], &seen[1], &seen[2], &seen[19]], ["r18", "r19", "r16", "r1"]);
    }

    #[test]
    fn ids_match_items_of_page() {
        let list = |ids: &[&str]| -> GraphList {
            let items: Vec<Value> = ids.iter().map(|id| json!({ "graph_id": id })).collect();
            serde_json::from_value(json!({ "graphs": ids, "graphs_info": items })).unwrap()
        };
        let mut first = list(&["a", "b", "c"]);
        let next = page(2, &Value::Null).apply(&mut first).unwrap();
        assert_eq!(first.graphs, ["a", "b"]);
        let mut last = list(&["b", "c"]);
        assert_eq!(page(2, &next.into()).apply(&mut last), None);
        assert_eq!((last.graphs, last.graphs_info[0].graph_id.as_str()), (vec!["c".to_string()], "c"));
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
