//! Parses query strings. Unknown parameters are errors, so that typos are noticed.

use serde_json::{Map, Value};

use super::problem::Problem;

/// A query parameter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query {
    /// Name in the query.
    pub(crate) name: &'static str,
    /// Name in the command's parameters.
    pub(crate) param: &'static str,
    pub(crate) kind: Kind,
    /// Description for the documentation.
    pub(crate) about: &'static str,
}

/// Type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    /// A non-negative integer.
    Number,
    /// `true` or `false`, `1` or `0`; empty means true.
    Bool,
    /// A number of seconds, with fractions.
    Seconds,
    /// Strings separated by commas.
    List,
}

/// Parameters of `/events`.
pub(crate) const EVENTS: &[Query] = &[
    Query::of("node", "node_id", Kind::Text, "Only of this node."),
    Query::of("session", "session_id", Kind::Text, "Only of this session."),
    Query::of("run", "run_id", Kind::Text, "Sends only events of this run of a graph."),
    Query::same("types", Kind::List, "Sends only events of these types, separated by commas."),
    Query::same(
        "since",
        Kind::Number,
        "Also sends earlier events after this seq. The header Last-Event-ID takes precedence.",
    ),
    Query::same("aliases", Kind::Bool, "Also sends each event under its older name."),
];

/// Parameters of `/machines/NAME/events`: node, session and types.
pub(crate) const MACHINE_EVENTS: &[Query] = &[EVENTS[0], EVENTS[1], EVENTS[3]];

/// Position in the output of a terminal.
pub(crate) const SINCE: Query = Query::same(
    "since",
    Kind::Text,
    "Resumes at this offset of the output instead of sending a dump, if the server still has it: OFFSET or STREAM-OFFSET.",
);

impl Query {
    pub(crate) const fn of(
        name: &'static str,
        param: &'static str,
        kind: Kind,
        about: &'static str,
    ) -> Query {
        Query { name, param, kind, about }
    }

    /// Creates a parameter with the same name in query and command.
    pub(crate) const fn same(name: &'static str, kind: Kind, about: &'static str) -> Query {
        Query::of(name, name, kind, about)
    }

    fn read(&self, text: &str) -> Result<Value, Problem> {
        let wrong = |expected: &str| {
            Problem::invalid(format!(
                "query parameter {}: expected {expected}, got {:?}",
                self.name,
                short(text)
            ))
        };
        match self.kind {
            Kind::Text => Ok(Value::from(text)),
            Kind::Number => text.parse::<u64>().map(Value::from).map_err(|_| wrong("a whole number")),
            Kind::Bool => match text {
                "" | "true" | "1" => Ok(Value::Bool(true)),
                "false" | "0" => Ok(Value::Bool(false)),
                _ => Err(wrong("true or false")),
            },
            Kind::Seconds => match text.parse::<f64>() {
                Ok(seconds) if seconds.is_finite() => Ok(Value::from(seconds)),
                _ => Err(wrong("a number of seconds")),
            },
            Kind::List => Ok(text.split(',').filter(|word| !word.is_empty()).collect()),
        }
    }
}

/// Converts a query to a command's parameters.
///
/// # Errors
/// Returns a problem for unknown or repeated parameters, and for values of the wrong type.
pub(crate) fn read(known: &[Query], pairs: &[(String, String)]) -> Result<Map<String, Value>, Problem> {
    let mut params = Map::new();
    for (name, text) in pairs {
        let Some(query) = known.iter().find(|query| query.name == name || query.param == name) else {
            return Err(unknown(name, known));
        };
        if params.insert(query.param.to_string(), query.read(text)?).is_some() {
            return Err(Problem::invalid(format!("query parameter {} is given twice", query.name)));
        }
    }
    Ok(params)
}

fn unknown(name: &str, known: &[Query]) -> Problem {
    let problem = Problem::invalid(format!("unknown query parameter {:?}", short(name)));
    if ["token", "access_token", "api_key"].contains(&name) {
        return problem.hint("a token in a URL ends up in logs: send it as 'Authorization: Bearer …'");
    }
    match known.is_empty() {
        true => problem.hint("this path takes no query parameters"),
        false => {
            let names: Vec<&str> = known.iter().map(|query| query.name).collect();
            problem.hint(format!("known parameters: {}", names.join(", ")))
        }
    }
}

/// Returns the beginning of a text, for error messages.
pub(crate) fn short(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn given(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect()
    }

    #[test]
    fn values_are_converted_to_their_types() {
        let pairs = given(&[("node", "a"), ("types", "NODE_READY,,ERROR"), ("since", "7"), ("aliases", "")]);
        let params = read(EVENTS, &pairs).unwrap();
        let wanted = json!({ "node_id": "a", "types": ["NODE_READY", "ERROR"], "since": 7, "aliases": true });
        assert_eq!(Value::Object(params), wanted);
    }

    #[test]
    fn errors_name_the_parameter() {
        for (pairs, word) in [
            (given(&[("since", "-1")]), "since"),
            (given(&[("aliases", "perhaps")]), "true or false"),
            (given(&[("snice", "1")]), "snice"),
            (given(&[("node", "a"), ("node_id", "b")]), "twice"),
        ] {
            let problem = read(EVENTS, &pairs).unwrap_err();
            assert!(problem.detail.contains(word), "{problem:?}");
        }
        let problem = read(EVENTS, &given(&[("token", "s3cret")])).unwrap_err();
        assert!(problem.hint.as_ref().unwrap().contains("Authorization"), "{problem:?}");
        assert!(!format!("{problem:?}").contains("s3cret"));
    }
}
