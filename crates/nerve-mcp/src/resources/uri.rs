//! URIs of resources: `nerve://nodes/{id}/screen`, `nerve://recordings/{id}`.

use nerve_api::ErrorKind;
use nerve_record::store::check_id;

use crate::tool_result::Failure;

/// Default number of lines of a recording.
pub(super) const DEFAULT_LINES: u64 = 500;
/// Maximum number of lines of a recording.
pub(super) const MAX_LINES: u64 = 5000;

/// A parsed resource URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ResourceUri {
    /// The screen of a node.
    Screen {
        node: String,
        /// `None` means the default session.
        session: Option<String>,
    },
    /// A window of a recording's lines.
    Recording {
        id: String,
        /// First line, 1-based.
        from: u64,
        /// Number of lines, 1 to [`MAX_LINES`].
        lines: u64,
    },
}

impl ResourceUri {
    /// Parses a URI. Names are validated, since they become part of paths.
    pub(super) fn parse(uri: &str) -> Result<ResourceUri, Failure> {
        let unknown = || {
            Failure::new(
                ErrorKind::NotFound,
                format!("there is no resource {:?}", uri.chars().take(200).collect::<String>()),
            )
            .hint("available: nerve://nodes/{id}/screen and nerve://recordings/{id}")
        };
        let path = uri.strip_prefix("nerve://").ok_or_else(unknown)?;
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let query: Vec<(&str, &str)> = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .collect();
        let param = |name: &str| query.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        match path.split('/').collect::<Vec<_>>()[..] {
            ["nodes", node, "screen"] if is_name(node) => {
                let session = param("session");
                match session {
                    Some(session) if !is_name(session) => Err(unknown()),
                    _ => Ok(ResourceUri::Screen {
                        node: node.to_string(),
                        session: session.map(str::to_string),
                    }),
                }
            }
            ["recordings", id] if check_id(id).is_ok() => {
                let from = number("from", param("from"), 1)?.max(1);
                let lines = number("lines", param("lines"), DEFAULT_LINES)?.clamp(1, MAX_LINES);
                Ok(ResourceUri::Recording { id: id.to_string(), from, lines })
            }
            _ => Err(unknown()),
        }
    }

    /// Formats the URI. Default values of a recording are omitted.
    pub(super) fn text(&self) -> String {
        match self {
            ResourceUri::Screen { node, session: None } => format!("nerve://nodes/{node}/screen"),
            ResourceUri::Screen { node, session: Some(session) } => {
                format!("nerve://nodes/{node}/screen?session={session}")
            }
            ResourceUri::Recording { id, from: 1, lines: DEFAULT_LINES } => {
                format!("nerve://recordings/{id}")
            }
            ResourceUri::Recording { id, from, lines } => {
                format!("nerve://recordings/{id}?from={from}&lines={lines}")
            }
        }
    }
}

/// Returns true if the text is a valid name of a node or session.
fn is_name(text: &str) -> bool {
    nerve_types::name::check("node", text).is_ok()
}

fn number(name: &str, value: Option<&str>, default: u64) -> Result<u64, Failure> {
    let Some(value) = value else { return Ok(default) };
    value
        .parse()
        .map_err(|_| Failure::new("invalid_arguments", format!("{name} of a resource must be a number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_round_trip() {
        for uri in [
            "nerve://nodes/a-1/screen",
            "nerve://nodes/a/screen?session=work",
            "nerve://recordings/19ad31e5",
            "nerve://recordings/19ad31e5?from=501&lines=20",
        ] {
            assert_eq!(ResourceUri::parse(uri).unwrap().text(), uri);
        }
    }

    #[test]
    fn uri_cannot_leave_its_directory() {
        for uri in [
            "nerve://recordings/../../etc/passwd",
            "nerve://recordings/..",
            "nerve://recordings/a%2fb",
            "nerve://recordings/x.ahr",
            "nerve://nodes/../screen",
            "nerve://nodes/a/b/screen",
            "nerve://nodes/a/screen?session=../x",
            "file:///etc/passwd",
            "nerve://",
            "",
        ] {
            assert_eq!(ResourceUri::parse(uri).unwrap_err().error_type, "not_found_error", "{uri}");
        }
        assert_eq!(
            ResourceUri::parse("nerve://recordings/a?from=x").unwrap_err().error_type,
            "invalid_arguments"
        );
    }

    #[test]
    fn lines_are_bounded() {
        let parsed = ResourceUri::parse("nerve://recordings/a?from=0&lines=99999999").unwrap();
        assert_eq!(parsed, ResourceUri::Recording { id: "a".into(), from: 1, lines: MAX_LINES });
    }
}
