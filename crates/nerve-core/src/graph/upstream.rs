//! Results of a graph's steps, as later steps see them.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

/// Places of steps by id.
pub(crate) type Names = HashMap<Arc<str>, u32>;

/// The results so far of the steps of a graph. Cheap to clone. Those of a step's dependencies are always there; those of other
/// steps are there when they happen to be done.
#[derive(Debug, Clone, Default)]
pub struct Upstream {
    results: Option<Arc<Results>>,
}

/// One place for each step, filled once.
#[derive(Debug)]
pub(crate) struct Results {
    names: Arc<Names>,
    slots: Box<[OnceLock<Value>]>,
}

impl Upstream {
    pub(crate) fn of(results: &Arc<Results>) -> Upstream {
        Upstream { results: Some(Arc::clone(results)) }
    }

    /// The result of a step that is done.
    ///
    /// ```
    /// use nerve_core::graph::upstream::Upstream;
    /// use serde_json::json;
    /// let upstream: Upstream = [("fetch", json!("page"))].into_iter().collect();
    /// assert_eq!(upstream.get("fetch"), Some(&json!("page")));
    /// assert_eq!(upstream.get("parse"), None);
    /// ```
    pub fn get(&self, step: &str) -> Option<&Value> {
        let results = self.results.as_deref()?;
        results.slots[*results.names.get(step)? as usize].get()
    }

    /// Steps that are done and their results, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.results.iter().flat_map(|results| {
            results.names.iter().filter_map(|(name, at)| Some((&**name, results.slots[*at as usize].get()?)))
        })
    }

    /// All of it as one object, by id.
    pub fn to_value(&self) -> Value {
        let mut all: Vec<(&str, &Value)> = self.iter().collect();
        all.sort_by_key(|(name, _)| *name);
        Value::Object(all.into_iter().map(|(name, value)| (name.to_string(), value.clone())).collect())
    }
}

impl<K: Into<Arc<str>>> FromIterator<(K, Value)> for Upstream {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(results: I) -> Upstream {
        let mut names = Names::new();
        let mut slots = Vec::new();
        for (name, value) in results {
            names.insert(name.into(), slots.len() as u32);
            slots.push(OnceLock::from(value));
        }
        Upstream { results: Some(Arc::new(Results { names: Arc::new(names), slots: slots.into() })) }
    }
}

impl Results {
    /// Nothing done.
    pub(crate) fn new(names: &Arc<Names>, steps: usize) -> Arc<Results> {
        let slots = std::iter::repeat_with(OnceLock::new).take(steps).collect();
        Arc::new(Results { names: Arc::clone(names), slots })
    }

    pub(crate) fn set(&self, step: u32, value: Value) {
        // A step ends once.
        let _ = self.slots[step as usize].set(value);
    }

    /// What is there, by id in the order of `ids`.
    pub(crate) fn into_map<'a>(self: Arc<Results>, ids: impl Iterator<Item = &'a str>) -> Map<String, Value> {
        // As large as it will be: it does not grow while it is filled.
        let mut map = Map::with_capacity(self.slots.len());
        match Arc::try_unwrap(self) {
            Ok(results) => map.extend(
                ids.zip(results.slots).filter_map(|(id, slot)| Some((id.to_string(), slot.into_inner()?))),
            ),
            // Somebody still looks at them.
            Err(shared) => map.extend(
                ids.zip(&shared.slots).filter_map(|(id, slot)| Some((id.to_string(), slot.get()?.clone()))),
            ),
        }
        map
    }
}
