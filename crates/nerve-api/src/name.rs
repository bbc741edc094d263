//! Finds a request or an event by its name, by an older name, or by a misspelt one.

use std::fmt;

use crate::event::EventType;
use crate::legacy_names::{self, DeprecatedAlias};
pub use crate::request::RequestName;

impl RequestName {
    /// Older names and the requests they stand for.
    pub const ALIASES: &'static [(&'static str, RequestName)] = legacy_names::REQUESTS;

    /// Finds a request by its name or an older name. An older name comes with a warning.
    pub fn parse(name: &str) -> Option<(RequestName, Option<DeprecatedAlias>)> {
        if let Some(request) = RequestName::ALL.iter().find(|request| request.as_str() == name) {
            return Some((*request, None));
        }
        let (used, request) = RequestName::ALIASES.iter().find(|(alias, _)| *alias == name)?;
        Some((*request, Some(DeprecatedAlias { used, instead: request.as_str() })))
    }

    /// Returns the request whose name is most similar to `unknown`, if any is similar.
    ///
    /// ```
    /// use nerve_api::RequestName;
    /// assert_eq!(RequestName::suggest("CREAT_NODE"), Some(RequestName::CreateNode));
    /// assert_eq!(RequestName::suggest("list_nodes"), Some(RequestName::ListNodes));
    /// assert_eq!(RequestName::suggest("BREW_COFFEE"), None);
    /// ```
    pub fn suggest(unknown: &str) -> Option<RequestName> {
        // No name is this long, and a client may send megabytes.
        if unknown.len() > 32 {
            return None;
        }
        let unknown = unknown.to_ascii_uppercase().replace('-', "_");
        let aliases = RequestName::ALIASES.iter().copied();
        let names = RequestName::ALL.iter().map(|request| (request.as_str(), *request));
        names
            .chain(aliases)
            .map(|(name, request)| (strsim::levenshtein(&unknown, name), request))
            .min_by_key(|(distance, _)| *distance)
            .filter(|(distance, _)| *distance <= unknown.len().div_ceil(4).min(3))
            .map(|(_, request)| request)
    }
}

impl fmt::Display for RequestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl EventType {
    /// The events of the first version of the protocol, which a connection receives until it subscribes.
    pub const ORIGINAL: &'static [EventType] = legacy_names::ORIGINAL_EVENTS;

    /// Finds an event by its current or older name.
    pub fn parse(name: &str) -> Option<EventType> {
        let old = || legacy_names::EVENTS.iter().find(|(alias, _)| *alias == name).map(|(_, event)| *event);
        name.parse().ok().or_else(old)
    }

    /// Returns the older name of the event, if it has one.
    pub fn old_name(self) -> Option<&'static str> {
        legacy_names::EVENTS.iter().find(|(_, event)| *event == self).map(|(alias, _)| *alias)
    }
}

#[cfg(test)]
mod tests {
    use super::RequestName;
    use crate::event::EventType;

    #[test]
    fn names_and_aliases_are_unique_and_parse() {
        let mut seen = std::collections::HashSet::new();
        for &request in RequestName::ALL {
            assert!(seen.insert(request.as_str()), "{request} twice");
            assert_eq!(RequestName::parse(request.as_str()), Some((request, None)));
        }
        for &(alias, request) in RequestName::ALIASES {
            assert!(seen.insert(alias), "{alias} twice");
            let (found, warning) = RequestName::parse(alias).unwrap();
            assert_eq!(found, request);
            assert_eq!(warning.unwrap().to_string(), format!("{alias} is deprecated, use {request}"));
        }
        assert_eq!(RequestName::parse("create_node"), None);
    }

    #[test]
    fn every_event_is_found_by_both_names() {
        for &event in EventType::ALL {
            assert_eq!(EventType::parse(event.as_str()), Some(event));
            if let Some(old) = event.old_name() {
                assert_ne!(old, event.as_str());
                assert_eq!(EventType::parse(old), Some(event));
            }
        }
        assert_eq!(EventType::parse("NODE_EXPLODED"), None);
        assert_eq!(EventType::NodeStopped.old_name(), Some("CHANNEL_CLOSED"));
    }

    #[test]
    fn suggests_only_similar_names() {
        assert_eq!(RequestName::suggest("PIGN"), None);
        assert_eq!(RequestName::suggest("PIN"), Some(RequestName::Ping));
        assert_eq!(RequestName::suggest("execute-input"), Some(RequestName::ExecuteInput));
        assert_eq!(RequestName::suggest("SEND_INPUTS"), Some(RequestName::ExecuteInput));
        assert_eq!(RequestName::suggest(""), None);
        assert_eq!(RequestName::suggest(&"X".repeat(1 << 20)), None);
    }
}
