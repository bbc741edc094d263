//! Pagination of lists. A page begins after the last item of the previous one, so that concurrent changes
//! neither repeat nor skip other items.

use std::cmp::Ordering;
use std::fmt::Display;
use std::ops::RangeInclusive;

use nerve_api::reply::{
    GraphInfo, GraphList, NodeInfo, NodeList, RecordingInfo, RecordingList, ResultInfo, ResultList, RunInfo,
    RunList, SessionInfo, SessionList,
};
use nerve_api::request::PageRequest;
use nerve_node::error::EngineError;
use nerve_types::activity::TsMs;

/// Maximum number of items on a page.
const MAX_LIMIT: u64 = 1000;
/// Maximum length of a cursor in bytes: a time and an id.
const MAX_CURSOR_BYTES: usize = 256;

/// A reply that is a list.
pub(crate) trait List {
    type Item;

    fn items(&mut self) -> &mut Vec<Self::Item>;

    /// Returns the cursor of the next page.
    fn next(&mut self) -> &mut Option<String>;

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

            fn next(&mut self) -> &mut Option<String> {
                &mut self.next
            }

            fn key(item: &$item) -> (f64, &str) {
                (0.0 $(+ item.$time.seconds())?, &item.$id)
            }

            $(fn list_ids(&mut self) {
                self.$ids = self.$items.iter().map(|item| item.$id.clone()).collect();
            })?
        }
    )*};
}

lists! {
    NodeList { nodes_info: NodeInfo { node_id }, nodes }
    SessionList { sessions: SessionInfo { name } }
    GraphList { graphs_info: GraphInfo { graph_id }, graphs }
    RunList { runs: RunInfo { run_id, started_at } }
    ResultList { results: ResultInfo { result_id, created_at } }
    RecordingList { recordings: RecordingInfo { recording_id, started_at } }
}

/// A time of an item, in one of the forms that replies have.
trait ItemTime {
    /// Returns the seconds since the Unix epoch; 0 if the time is unknown.
    fn seconds(&self) -> f64;
}

impl ItemTime for TsMs {
    fn seconds(&self) -> f64 {
        TsMs::seconds(*self)
    }
}

impl ItemTime for Option<String> {
    fn seconds(&self) -> f64 {
        let time = self.clone().and_then(|time| TsMs::try_from(time).ok());
        time.map_or(0.0, TsMs::seconds)
    }
}

/// Reduces a list to the requested page.
///
/// # Errors
/// InvalidRequest: the limit is out of range, or the cursor is invalid.
pub(crate) fn paginate<L: List>(request: &PageRequest, mut list: L) -> Result<L, EngineError> {
    if *request != PageRequest::default() {
        *list.next() = Page::new(request)?.apply(&mut list);
    }
    Ok(list)
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

/// Checks the number of items that a request asks for.
///
/// # Errors
/// InvalidRequest.
pub(crate) fn check_limit<T: PartialOrd + Display>(
    limit: T,
    range: RangeInclusive<T>,
) -> Result<(), EngineError> {
    if range.contains(&limit) {
        return Ok(());
    }
    let (min, max) = range.into_inner();
    Err(EngineError::invalid_request(format!("params.limit: {limit} is not from {min} to {max}")))
}

/// Orders keys of items by time, newest first, then by id.
fn compare(a: (f64, &str), b: (f64, &str)) -> Ordering {
    b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1))
}

impl Page {
    fn new(request: &PageRequest) -> Result<Page, EngineError> {
        let limit = request.limit.unwrap_or(MAX_LIMIT);
        check_limit(limit, 1..=MAX_LIMIT)?;
        let parse = |cursor: &String| {
            Position::parse(cursor).ok_or_else(|| {
                EngineError::invalid_request("params.cursor: invalid value")
                    .hint("use the value of 'next' from the previous page")
            })
        };
        let after = request.cursor.as_ref().map(parse).transpose()?;
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
    use nerve_node::error::ErrorKind;
    use serde_json::json;

    use super::*;

    fn page(limit: u64, cursor: Option<String>) -> Page {
        Page::new(&PageRequest { limit: Some(limit), cursor }).unwrap()
    }

    #[test]
    fn pages_are_complete_despite_changes() {
        let all = |n: u32| {
            let run = |n: u32| RunInfo {
                run_id: format!("r{n}"),
                started_at: TsMs(u64::from(n / 2) * 1000 + 100),
                ..RunInfo::default()
            };
            RunList { runs: (0..n).map(run).collect(), next: None }
        };
        let mut seen = Vec::new();
        let mut cursor = None;
        for n in 20.. {
            // New items come first, and are not on later pages.
            let mut list = all(n);
            let next = page(3, cursor).apply(&mut list);
            seen.extend(list.runs.into_iter().map(|run| run.run_id));
            match next {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        assert_eq!(seen.len(), 20, "{seen:?}");
        assert_eq!([&seen[0], &seen[1], &seen[2], &seen[19]], ["r18", "r19", "r16", "r1"]);
    }

    #[test]
    fn ids_match_items_of_page() {
        let list = |ids: &[&str]| -> GraphList {
            let items: Vec<serde_json::Value> = ids.iter().map(|id| json!({ "graph_id": id })).collect();
            serde_json::from_value(json!({ "graphs": ids, "graphs_info": items })).unwrap()
        };
        let mut first = list(&["a", "b", "c"]);
        let next = page(2, None).apply(&mut first).unwrap();
        assert_eq!(first.graphs, ["a", "b"]);
        let mut last = list(&["b", "c"]);
        assert_eq!(page(2, Some(next)).apply(&mut last), None);
        assert_eq!((last.graphs, last.graphs_info[0].graph_id.as_str()), (vec!["c".to_string()], "c"));
    }

    #[test]
    fn limits_and_cursors_are_checked() {
        let request = |limit, cursor: Option<&str>| PageRequest { limit, cursor: cursor.map(str::to_string) };
        for bad in [
            request(Some(0), None),
            request(Some(1001), None),
            request(None, Some("x")),
            request(None, Some("nan~a")),
        ] {
            assert_eq!(Page::new(&bad).unwrap_err().kind, ErrorKind::InvalidRequest, "{bad:?}");
        }
    }

    #[test]
    fn whole_list_is_returned_without_limit() {
        let runs = vec![RunInfo::default(); 2000];
        let list = paginate(&PageRequest::default(), RunList { runs, next: None }).unwrap();
        assert_eq!((list.runs.len(), list.next), (2000, None));
    }
}
