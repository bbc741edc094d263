//! Results of a graph's steps, as later steps see them.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

/// Step numbers by id.
pub type StepIndex = HashMap<Arc<str>, u32>;

/// The results of a graph's steps so far. Cheap to clone. Results of a step's dependencies are always present; those of other steps
/// only if they are already done.
#[derive(Debug, Clone, Default)]
pub struct UpstreamResults {
    results: Option<Arc<ResultSlots>>,
}

/// One write-once slot for each step.
#[derive(Debug)]
pub struct ResultSlots {
    names: Arc<StepIndex>,
    slots: Box<[OnceLock<Value>]>,
}

impl UpstreamResults {
    /// Creates a view of the results so far.
    pub fn new(results: &Arc<ResultSlots>) -> UpstreamResults {
        UpstreamResults { results: Some(Arc::clone(results)) }
    }

    /// Returns the result of a completed step.
    ///
    /// ```
    /// use nerve_node::upstream::UpstreamResults;
    /// use serde_json::json;
    /// let upstream: UpstreamResults = [("fetch", json!("page"))].into_iter().collect();
    /// assert_eq!(upstream.get("fetch"), Some(&json!("page")));
    /// assert_eq!(upstream.get("parse"), None);
    /// ```
    pub fn get(&self, step: &str) -> Option<&Value> {
        let results = self.results.as_deref()?;
        results.slots[*results.names.get(step)? as usize].get()
    }

    /// Returns the completed steps and their results, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.results.iter().flat_map(|results| {
            results.names.iter().filter_map(|(name, at)| Some((&**name, results.slots[*at as usize].get()?)))
        })
    }

    /// Returns all results as one object, keyed by step id.
    pub fn to_value(&self) -> Value {
        let mut all: Vec<(&str, &Value)> = self.iter().collect();
        all.sort_by_key(|(name, _)| *name);
        Value::Object(all.into_iter().map(|(name, value)| (name.to_string(), value.clone())).collect())
    }
}

impl<K: Into<Arc<str>>> FromIterator<(K, Value)> for UpstreamResults {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(results: I) -> UpstreamResults {
        let mut names = StepIndex::new();
        let mut slots = Vec::new();
        for (name, value) in results {
            names.insert(name.into(), slots.len() as u32);
            slots.push(OnceLock::from(value));
        }
        UpstreamResults {
            results: Some(Arc::new(ResultSlots { names: Arc::new(names), slots: slots.into() })),
        }
    }
}

impl ResultSlots {
    /// Creates empty slots.
    pub fn new(names: &Arc<StepIndex>, steps: usize) -> Arc<ResultSlots> {
        let slots = std::iter::repeat_with(OnceLock::new).take(steps).collect();
        Arc::new(ResultSlots { names: Arc::clone(names), slots })
    }

    /// Sets the result of a step.
    pub fn set(&self, step: u32, value: Value) {
        // Each step ends once.
        let _ = self.slots[step as usize].set(value);
    }

    /// Returns the available results, keyed by id in the order of `ids`.
    pub fn into_map<'a>(self: Arc<ResultSlots>, ids: impl Iterator<Item = &'a str>) -> Map<String, Value> {
        // Reserves the full size to avoid reallocation.
        let mut map = Map::with_capacity(self.slots.len());
        match Arc::try_unwrap(self) {
            Ok(results) => map.extend(
                ids.zip(results.slots).filter_map(|(id, slot)| Some((id.to_string(), slot.into_inner()?))),
            ),
            // A node still holds a reference.
            Err(shared) => map.extend(
                ids.zip(&shared.slots).filter_map(|(id, slot)| Some((id.to_string(), slot.get()?.clone()))),
            ),
        }
        map
    }
}
